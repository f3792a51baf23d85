"""Check each `pip install` line of the documents, the examples and the messages.

    .venv/bin/python scripts/install_lines.py [--play]

Print the lines. Exit status 1 if one names this package other than by its folder (it is on no
index) or an extra that does not exist; with `--play`, also if pip cannot resolve one as printed, in
a fresh environment and a clone of HEAD.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
_LINE = re.compile(r"pip install ([^-{`\"#\n&)][^`\"#\n&)]*?)(?=  | *[`\"#\n&)])")


def main(play: bool) -> int:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    names = git("ls-files", "*.md", "docs/*.txt", "src/*.py", "examples").split()
    texts = "\n".join((ROOT / name).read_text(errors="replace") for name in names)
    lines, faults = sorted(set(_LINE.findall(texts))), []
    for line in lines:
        print(f"pip install {line}")
        for word in shlex.split(line):
            ours = re.fullmatch(r"\.(?:\[([\w,]+)\])?", word)
            unknown = {*(ours[1] or "").split(",")} - {"", *extras} if ours else set()
            if unknown or "intercode" in word:
                faults.append(line)
    with TemporaryDirectory() as folder:
        if play:
            subprocess.run([sys.executable, "-m", "venv", f"{folder}/venv"], check=True)
            git("clone", "--quiet", str(ROOT), f"{folder}/clone")
        for line in lines if play else ():
            command = [f"{folder}/venv/bin/pip", "install", "--dry-run", "--quiet"]
            if subprocess.run([*command, *shlex.split(line)], cwd=f"{folder}/clone").returncode:
                faults.append(line)
    for line in faults:
        print(f"does not work: pip install {line}", file=sys.stderr)
    return bool(faults)


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, stdout=-1, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main("--play" in sys.argv[1:]))
