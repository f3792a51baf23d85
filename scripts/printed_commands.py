"""Run the shell commands that README.md and docs/*.md print, in a fresh clone of HEAD.

    python3 scripts/printed_commands.py [--folder FOLDER] [PAGE…]       [a new folder, all pages]

README.md is followed in the clone: its first block installs the package. Every other page gets an
empty folder, in which its files are written and its commands run in order. `pip install` lines are
only resolved (`--dry-run`). A server on port 8000 stands in for the model, and the files that
printed_commands.sh makes for those that a page expects. `--folder` keeps everything in FOLDER, and
reuses what is installed there. $INTERCODE_DATA may name a folder of public data (nl2bash, …).

Print for each command that it works, FAILS, or is listed with the reason why it was not run. Exit
status 1 if one fails or exceeds its time limit. Needs bubblewrap, and PyPI for the packages.
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
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "helpers"))
from following import BLOCK, follow, steps  # noqa: E402
from install_lines import printed_lines  # noqa: E402

LIMIT, LONG_LIMIT = 120, 900  # seconds; the second for what installs, or takes minutes by its page
REASONS = {
    "needs a hub or a download": r"\bhf:|\bdata get (?!.*--from [^h])|\bdocker (run|image|import)",
    "changes this machine": r"\b(sudo|apt-get|limactl|useradd|systemctl)\b",
    "needs other machines": r"SLURM|JOB_COMPLETION|\bray start|--on [^r]|\bssh ",
    "needs a key": r"API_KEY|openai/",
    "needs another shell": r"(zsh|fish)_source",
    "is part of a script inside a sandbox": r"cd /srv",
    "installs or measures other systems": r"benchmarks/peers|make bench",
}
HEAVY = re.compile(r"pip install .*\b(trl|ray|torch)\b")
FILE = re.compile(r"[\w.-]+/[\w./-]*|[\w-]+\.(json|jsonl|gz|nl|csv|sql|py|sh)")
NOT_INPUTS = ("--out", "--html", "--plots", "--shard")


class Model(BaseHTTPRequestHandler):
    """A model that looks around, then submits."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        code = "submit" if len(request["messages"]) > 3 else "pwd"
        message = {"role": "assistant", "content": f"```\n{code}\n```"}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
        body = json.dumps({"choices": choices, "model": request["model"], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


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
        made, end = set(re.findall(r"--out (\S+)", text)), 0
        for block in BLOCK.finditer(text):
            segment, end = text[end : block.end()], block.end()
            mark = segment.partition(f"\n```{block[1]}\n")[0].rpartition("\n")[2]
            typed = list(commands(block[2])) if block[1] == "sh" else []
            for step in steps(segment) if block[1] != "sh" else ():
                if step.file:
                    follow(step, self.folder, self.environment)
                else:
                    typed.append(step.text)
            after = ""
            for command in typed:
                self.supply(block[2], made)
                long = re.search("minutes|installs", mark) or "pip install" in command
                verdict = self.judge(command, LONG_LIMIT if long else LIMIT)
                yield command, after or verdict
                if HEAVY.search(command):
                    after = f"listed: needs what `{command.partition('  ')[0]}` installs"
        self.stop()

    def supply(self, block: str, made: set[str]) -> None:
        """Link the files of the stage that a block names, and that its page does not make."""
        if (self.clone / ".venv/bin/intercode").exists() and not self.stage.exists():
            self.stage.mkdir()
            script = Path(__file__).with_suffix(".sh")
            subprocess.run(["bash", script], cwd=self.stage, env=self.environment, check=True)
        named = re.search(r"intercode \w+ +(sql|python|ctf|harbor)", block)
        for word in sorted({word.strip("/") for word in re.findall(r"[\w./-]+", block)} - made):
            path = self.folder / word
            for source in (self.stage / f"for-{named and named[1]}" / word, self.stage / word):
                if word and source.exists() and (path.is_symlink() or not path.exists()):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.unlink(missing_ok=True)
                    path.symlink_to(source)
                    break

    def judge(self, command: str, limit: float) -> str:
        """Run a command, or find the reason why not."""
        bare = re.sub(r"(^|\s)#\s.*", "", command)
        for reason, pattern in REASONS.items():
            if re.search(pattern, bare):
                return f"listed: {reason}"
        command = self.fill(bare)
        words = shlex.split(command)
        if pip := words[:2] == ["pip", "install"]:
            command = command.replace("install", "install --dry-run --ignore-installed --quiet", 1)
        paths = [word for word in words if "/" in word and not (self.folder / word).exists()]
        in_clone = pip or words[0] == "make" or any((self.clone / word).exists() for word in paths)
        where = self.clone if in_clone else self.folder
        for before, word in pairwise(words):
            parts = word.split(":")
            if before in NOT_INPUTS or "//" in word or pip:
                continue
            if any(re.fullmatch("[A-Z]{2,}…?", part) for part in re.split("[:/]", word)):
                return f"listed: needs {word}"
            is_input = before == "--data" or any(FILE.fullmatch(part) for part in parts)
            if is_input and not any((where / part).exists() for part in parts):
                return f"listed: needs {word}"
        if "=" not in words[0] and self.run(f"type {words[0]}", where, LIMIT):
            return f"listed: needs {words[0]}"
        status = self.run(command, where, limit)
        if status == 0 and re.match(r"(export|eval|\.) ", command):
            self.setup += f"{command}\n"
        if status == 1 and re.match("intercode (check|attack|doctor)", command):
            return "works, and a check fails (status 1)"
        tail = "\n".join(self.output.read_text(errors="replace").splitlines()[-12:])
        return f"FAILS with {status}\n{tail}" if status else "works"

    def fill(self, command: str) -> str:
        """Replace the placeholders for which there is something."""
        tasks = [self.folder / "data/files/tasks.jsonl", self.stage / "data/files/tasks.jsonl"]
        found = [json.loads(path.open().readline())["id"] for path in tasks if path.exists()]
        known = {"MODEL": "stub", "TASK…": "ID", "ID": (found or ["ID"])[0], "TEXT": "ls"}
        known |= {"FOLDER": "runs", "NAME": "v1-bash", "PORT": self.port, "10.0.0.7": "127.0.0.1"}
        for name, value in known.items():
            command = re.sub(rf"(?<![\w$]){re.escape(name)}(?!\w)", value, command)
        return re.sub(r"\bRUN\b…?", lambda _: next(self.runs), command)

    def run(self, command: str, where: Path, limit: float) -> int | str:
        """Return the exit status; 0 of a server that listens."""
        serves = re.match("intercode (serve|view) ?", command)
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
        end = time.monotonic() + limit
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
            listens = serves and re.search(r"http://[\d.]+:(\d+)", self.output.read_text())
            if listens:
                self.server, self.port = process, listens[1]
                return 0
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            return f"no end after {limit} s"
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


def main(names: list[str], work: Path) -> int:
    clone, home = work / "clone", work / "home"
    if not clone.exists():
        home.mkdir(parents=True)
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    hidden = re.compile(r"INTERCODE_(?!DATA)|OPENAI|PYTHON|VIRTUAL_ENV|XDG_|.*(_KEY|_TOKEN)$")
    environment = {name: value for name, value in os.environ.items() if not hidden.match(name)}
    environment |= {
        "HOME": str(home),
        "PATH": f"{clone}/.venv/bin:{environment['PATH']}",
        "INTERCODE_CACHE": f"{home}/.cache/intercode",
        "INTERCODE_BASE_URL": "http://localhost:8000/v1",
        "INTERCODE_SERVE_TOKEN": "token",
        "TOKEN": "token",
        "NO_PROXY": "localhost,127.0.0.1",
        "COLUMNS": "120",
    }
    pages = names or ["README.md", *sorted(f"docs/{path.name}" for path in clone.glob("docs/*.md"))]
    model = ThreadingHTTPServer(("127.0.0.1", 8000), Model)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    counts: Counter[str] = Counter()
    for name in [*pages, *([] if names else ["install lines"])]:
        page = Page(name, work, environment)
        text = (clone / name).read_text() if name in pages else ""
        installs = [f"pip install {line}" for line in printed_lines(clone)] if not text else []
        done = [(line, page.judge(line, LONG_LIMIT)) for line in installs]
        print(f"\n{name}")
        for command, verdict in done or page.follow(text):
            print(f"  {verdict.partition(chr(10))[0]:45} {command}", flush=True)
            if verdict.startswith("FAILS"):
                print(verdict.partition("\n")[2])
            counts[verdict.partition("\n")[0]] += 1
    print()
    for verdict, number in sorted(counts.items()):
        print(f"{number:4} {verdict}")
    return any(verdict.startswith("FAILS") for verdict in counts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("pages", nargs="*", metavar="PAGE")
    options = parser.parse_args()
    if options.folder:
        sys.exit(main(options.pages, options.folder.absolute()))
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        sys.exit(main(options.pages, Path(folder)))
