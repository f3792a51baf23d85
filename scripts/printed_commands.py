"""Run the shell commands that README.md and docs/*.md print, in a fresh clone of HEAD.

    .venv/bin/python scripts/printed_commands.py [--folder FOLDER] [PAGE…]   [new folder, all pages]

README.md is followed in the clone: its first block installs the package. Every other page gets an
empty folder, in which its files are written and its commands run in order. `pip install` lines are
only resolved (`--dry-run`), unless a command says that it needs the package. A local server
stands in for the model, and the files that printed_commands.sh makes for those that pages expect.
`--folder` keeps everything in FOLDER, and reuses what is installed there. $INTERCODE_DATA may name
a folder of public data (nl2bash, …).

Print for each command that it works, FAILS, or is listed with the reason why it was not run. Exit
status 1 if one fails or runs too long. Needs bubblewrap, and PyPI for the packages.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from install_lines import printed_lines

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / name) for name in ("helpers", "cli")]
from chat_server import serving  # type: ignore[import-not-found]  # noqa: E402
from following import BLOCK, follow, steps  # type: ignore[import-not-found]  # noqa: E402

SECONDS = 1200  # for one command
REASONS = {
    "needs a hub or a download": r"\bhf:|\bdata get (?!.*--from [^h])|\bdocker (run|image|import)",
    "changes this machine": r"\b(sudo|apt-get|limactl|useradd|systemctl)\b",
    "needs other machines": r"SLURM|JOB_COMPLETION|\bray start|--on [^r]|\bssh ",
    "needs a key": r"API_KEY|openai/",
    "needs another shell": r"(zsh|fish)_source",
    "is part of a script inside a sandbox": r"cd /srv",
    "installs or measures other systems": r"benchmarks/peers|make bench",
}
HEAVY = re.compile(r"\b(trl|ray|torch|vllm)\b")
FILE = re.compile(r"[\w.-]+/[\w./-]*|[\w-]+\.(json|jsonl|gz|nl|csv|sql|py|sh)")
NOT_INPUTS = ("--out", "--html", "--plots", "--shard")


class Page:
    def __init__(self, name: str, work: Path, environment: dict[str, str]) -> None:
        self.clone, self.stage, self.environment = work / "clone", work / "stage", environment
        self.folder = self.clone if name == "README.md" else work / "pages" / Path(name).stem
        self.folder.mkdir(parents=True, exist_ok=True)
        self.output = work / "output.txt"
        self.runs = cycle(["runs/mine", "runs/gold", "runs/noop"])
        self.setup, self.port = "", "PORT"
        self.server: subprocess.Popen[bytes] | None = None

    def follow(self, text: str) -> Iterator[tuple[str, str]]:
        """Yield each command of a page with what became of it."""
        self.text, end = text, 0
        for block in BLOCK.finditer(text):
            found = steps(text[end : block.end()]) if block[1] != "sh" else []
            end = block.end()
            for step in found:
                if step.file:
                    follow(step, self.folder, self.environment)
            self.supply(block[2])
            shell = [step.text for step in found if not step.file]
            for command in commands(block[2]) if block[1] == "sh" else shell:
                yield command, self.judge(command)
        self.stop()

    def supply(self, block: str) -> None:
        """Link the files of the stage that a block names, and that its page does not make."""
        named = re.search(r"intercode \w+ +(sql|ctf)", block)
        words = re.findall(r"[\w./-]+", re.sub(r"(--data|get) \w+(?![\w./])", "", block))
        made = "".join(f"{path}/ " for path in re.findall(r"--out (\S+)", self.text))
        for word in sorted({word.strip("/") for word in words} - {"", ".", ".."}):
            path = self.folder / word
            if re.search(rf"(^| ){re.escape(word)}/", made):
                continue
            for source in (self.stage / f"for-{named and named[1]}" / word, self.stage / word):
                inside = path.parent.resolve() == path.parent
                if inside and source.exists() and (path.is_symlink() or not path.exists()):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.unlink(missing_ok=True)
                    path.symlink_to(source)
                    break

    def judge(self, printed: str) -> str:
        """Run a command, or find the reason why not."""
        command = self.fill(re.sub(r"(^|\s)#\s.*", "", printed))
        for reason, pattern in REASONS.items():
            if re.search(pattern, command):
                return f"listed: {reason}"
        words = shlex.split(command)
        if pip := words[:2] == ["pip", "install"]:
            command = command.replace("install", "install --dry-run --ignore-installed --quiet", 1)
        in_clone = pip or re.search(r"^make\b|\b(benchmarks|examples)/", command)
        where = self.clone if in_clone else self.folder
        if self.run(f"type {words[0]}", where):
            return f"listed: needs {words[0]}"
        for before, word in pairwise(words):
            parts = word.split(":")
            if before in NOT_INPUTS or "//" in word or pip:
                continue
            if any(re.fullmatch("[A-Z]{2,}…?", part) for part in re.split("[:/]", word)):
                return f"listed: needs {word}"
            is_input = before == "--data" or any(FILE.fullmatch(part) for part in parts)
            if is_input and not any(
                (at / part).exists() for at in (where, self.folder) for part in parts
            ):
                return f"listed: needs {word}"
        status, after = self.run(command, where), ""
        output = self.output.read_text(errors="replace")
        module = re.search(r"No module named '?(\w+)", output)
        told = output + self.text if module else output  # the command or the page names the line
        needs = re.search(rf"pip install [^`\n]*\b{module[1] if module else ''}\b[^`\n]*", told)
        if status and needs and HEAVY.search(needs[0]):
            return f"listed: needs {needs[0]}"
        if status and needs:
            after = f" after {needs[0]}"
            self.run(needs[0], self.clone)
            status = self.run(command, where)
        if "there is an image named" in output:
            return "works: printed_commands.sh runs it"
        if status == 0 and re.match(r"(export|eval|\.) ", command):
            self.setup += f"{command}\n"
        if status == 1 and re.match("intercode (check|attack|doctor)", command):
            return "works, and a check fails (status 1)"
        tail = "\n".join(self.output.read_text(errors="replace").splitlines()[-12:])
        return f"FAILS with {status}{after}\n{tail}" if status else f"works{after}"

    def fill(self, command: str) -> str:
        """Replace the placeholders for which there is something."""
        tasks = [self.folder / "data/files/tasks.jsonl", self.stage / "data/files/tasks.jsonl"]
        ids = [json.loads(path.open().readline())["id"] for path in tasks if path.exists()]
        address = self.environment["INTERCODE_BASE_URL"]
        known = {f"http://{host}:8000/v1": address for host in ("localhost", "10.0.0.7")}
        known |= {"10.0.0.7": "127.0.0.1", "PORT": self.port, "FOLDER": "runs", "NAME": "v1-bash"}
        known |= {"MODEL": "stub", "TASK…": "ID", "ID": (ids or ["ID"])[0], "TEXT": "ls"}
        for name, value in known.items():
            command = re.sub(rf"(?<![\w$]){re.escape(name)}(?!\w)", value, command)
        return re.sub(r"\bRUN\b…?", lambda _: next(self.runs), command)

    def run(self, command: str, where: Path) -> int | str:
        """Return the exit status; 0 if a server listens, which then serves until the next one."""
        serves = re.match(r"intercode (serve|view)\b", command)
        if serves:
            self.stop()
        with self.output.open("w") as output:
            process = subprocess.Popen(
                ["bash", "-c", self.setup + command],
                cwd=where,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        end = time.monotonic() + SECONDS
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
            if serves and (at := re.search(r"http://[\d.]+:(\d+)", self.output.read_text())):
                self.server, self.port = process, at[1]
                return 0
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            return f"no end after {SECONDS} s"
        return process.returncode

    def stop(self) -> None:
        if self.server:
            with suppress(ProcessLookupError):
                os.killpg(self.server.pid, signal.SIGINT)
            self.server.wait(30)
            self.server = None


def commands(text: str) -> Iterator[str]:
    """Yield the commands of a block, each with its continuation lines and here-documents."""
    command = ""
    for line in text.splitlines(keepends=True):
        command += line
        check = subprocess.run(["bash", "-n"], input=command, capture_output=True, text=True)
        complete = not (check.returncode or check.stderr or command.endswith("\\\n"))
        if complete and shlex.split(command, comments=True):
            yield command.strip()
            command = ""


def main(names: list[str], work: Path, model: str) -> int:
    clone, stage, home = work / "clone", work / "stage", work / "home"
    ours = re.compile(r"INTERCODE_(?!DATA)|OPENAI|PYTHON|VIRTUAL_ENV|XDG_|.*(_KEY|_TOKEN)$")
    environment = {name: value for name, value in os.environ.items() if not ours.match(name)}
    environment |= {"HOME": str(home), "INTERCODE_CACHE": f"{home}/cache", "COLUMNS": "120"}
    environment |= {"INTERCODE_BASE_URL": f"{model}/v1", "INTERCODE_SERVE_TOKEN": "token"}
    environment |= {"TOKEN": "token", "PATH": f"{clone}/.venv/bin:{os.environ['PATH']}"}
    if not stage.exists():
        home.mkdir(parents=True)
        (home / ".curlrc").write_text("fail-with-body\n")
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        subprocess.run(["make", "--quiet", "demo"], cwd=clone, env=environment, check=True)
        stage.mkdir()
        script = Path(__file__).with_suffix(".sh")
        subprocess.run(["bash", script], cwd=stage, env=environment, check=True)
    lines = "\n".join(f"pip install {line}" for line in printed_lines(clone))
    documents = [clone / "README.md", *sorted(clone.glob("docs/*.md"))]
    texts = {str(path.relative_to(clone)): path.read_text() for path in documents}
    texts["install-lines"] = f"```sh\n{lines}\n```\n"
    counts: Counter[str] = Counter()
    for name in names or texts:
        print(f"\n{name}")
        for command, verdict in Page(name, work, environment).follow(texts[name]):
            first, _, output = verdict.partition("\n")
            print(f"  {first:45} {command}", *output.splitlines(), sep="\n      ", flush=True)
            counts[first] += 1
    print(*(f"{number:4} {verdict}" for verdict, number in sorted(counts.items())), sep="\n")
    return any(verdict.startswith("FAILS") for verdict in counts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the printed shell commands in a fresh clone.")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("pages", nargs="*", metavar="PAGE")
    options = parser.parse_args()
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder, serving({}) as server:
        server.says = lambda request: "```\nsubmit\n```"
        sys.exit(main(options.pages, (options.folder or Path(folder)).resolve(), server.url))
