"""How fast a run of 100,000 episodes (2 GB) can be looked at: its index, a list, a search, a long
episode.

    .venv/bin/python benchmarks/view.py [--episodes 100000] [--folder DIR] [--json]

The run is made of 200 different records with ids of their own. Against stand the plainest ways to
the same bytes:

    index       `json.loads` of each line
    first table after the start of a server that has the index, against the import of its libraries;
                also its memory
    search      `grep -c -F` for the same text, once for one that is in no action, once for one in a
                record of two hundred
    long page   an episode of 500 turns (median of 20), against `json.loads` of its record

Bounds: index at 50 MB/s or more, first table within 1 s and 200 MB resident, search within 3 s,
long page within 100 ms.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from functools import partial
from pathlib import Path

from measuring.clock import timed
from measuring.rows import Row, command, finish

from intercode.runs.index import Index
from intercode.runs.signing import with_signature
from intercode.runs.store import to_json
from intercode.types import Episode, Message, Turn, Usage

INTERCODE = str(Path(sys.executable).with_name("intercode"))
SETTINGS = {
    "env": "bash",
    "agent": "try_again",
    "model": "made",
    "reward": "exact",
    "protocol": "submit",
    "turns": 10,
    "epochs": 1,
}
LIBRARIES = "import click, jinja2, numpy, pygments, rich, starlette.applications, uvicorn"


def played(number: int, turns: int, rng: random.Random) -> Episode:
    """An episode of `turns` actions, each with a reply of 150 and an output of 700 characters."""

    def words(count: int) -> str:
        return " ".join(f"w{rng.randrange(1_000_000):x}" for _ in range(count))

    messages: list[Message] = [
        {"role": "system", "content": words(300)},
        {"role": "user", "content": words(30)},
    ]
    done = list[Turn]()
    for _ in range(turns):
        action, output = f"grep -rn {words(3)} /depot | head", words(105) + "\n"
        reply = f"{words(12)}\n```bash\n{action}\n```"
        done.append(
            Turn(
                tuple(messages),
                reply,
                words(10),
                action,
                output,
                rng.choice((0, 0, 1)),
                usage=Usage(900, 60),
                seconds=0.01,
            )
        )
        messages = [
            *messages,
            {"role": "assistant", "content": reply},
            {"role": "user", "content": output},
        ]
    solved = rng.random() < 0.4
    outcomes = {
        "failed": [] if solved else ["answer"],
        "agent": {"answer": words(20)},
        "gold": {"answer": words(20)},
        "paths": [],
    }
    submit = Turn(action="submit", score=float(solved))
    return Episode(
        f"task-{number}",
        words(30),
        (*done, submit),
        float(solved),
        solved,
        "submit",
        outcomes=outcomes,
    )


def make_run(folder: Path, episodes: int) -> None:
    """Write a run with `episodes` records, the last of them an episode of 500 turns."""
    rng = random.Random(7)
    (folder / "run.json").write_text(json.dumps(with_signature(SETTINGS)))
    lines = [json.dumps(to_json(played(0, 10, rng))) for _ in range(200)]
    with (folder / "episodes.jsonl").open("w") as file:
        for number in range(episodes - 1):
            file.write(lines[number % 200].replace('"task-0"', f'"task-{number}"', 1) + "\n")
        file.write(json.dumps(to_json(played(episodes - 1, 500, rng))) + "\n")


def parse(records: Path) -> None:
    with records.open("rb") as file:
        for line in file:
            json.loads(line)


def resident(pid: int) -> float:
    """The most memory that the process has held, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def get(url: str) -> bytes:
    with urllib.request.urlopen(url) as answer:
        content: bytes = answer.read()
    return content


def main() -> int:
    parser = command(__doc__)
    parser.add_argument("--episodes", type=int, default=100_000)
    parser.add_argument("--folder", help="where the run is made, and removed afterwards [TMPDIR]")
    options = parser.parse_args()
    rows = list[Row]()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        run = Path(name)
        make_run(run, options.episodes)
        records = run / "episodes.jsonl"
        size, index = records.stat().st_size, Index(run, SETTINGS)
        ours, plain = timed(index.update), timed(lambda: parse(records))
        rows.append(
            Row(f"index {size / 1e9:.1f} GB / json.loads", ours, plain, size / 50e6 / plain)
        )
        print(
            f"index: {size / 1e6 / ours:.0f} MB/s,"
            f" {(run / 'index.sqlite').stat().st_size / 1e6:.0f} MB",
            file=sys.stderr,
        )

        imports = timed(lambda: subprocess.run([sys.executable, "-c", LIBRARIES], check=True))
        server = subprocess.Popen([INTERCODE, "view", str(run)], stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout
            root = server.stdout.readline().removeprefix("view: ").strip()
            here = f"{root}run/{run.name}"
            table = timed(lambda: get(here))
            rows.append(Row("first table / import of the libraries", table, imports, 1.0 / imports))
            one = json.loads(first(records))["turns"][0]["action"]
            for what, text in (
                ("that no action has", "no such words"),
                ("of one record in 200", one),
            ):
                find = timed(partial(get, f"{here}?text={urllib.parse.quote(text)}"))
                grep = timed(
                    partial(
                        subprocess.run,
                        ["grep", "-c", "-F", text, str(records)],
                        stdout=subprocess.PIPE,
                    )
                )
                rows.append(Row(f"search for a text {what} / grep", find, grep, 3.0 / grep))
            long = f"{here}/episode?task=task-{options.episodes - 1}"
            content = get(long)
            page = statistics.median(timed(lambda: get(long)) for _ in range(20))
            line = last(records)
            plain = statistics.median(timed(lambda: json.loads(line)) for _ in range(20))
            rows.append(Row("page of 500 turns / json.loads", page, plain, 0.1 / plain))
            rows.append(
                Row("memory of the server / 200 MB", resident(server.pid), 200e6, 1.0, unit="B")
            )
            rows.append(
                Row("size of the page of 500 turns / 150 KB", len(content), 150e3, 1.0, unit="B")
            )
        finally:
            server.terminate()
            server.wait()
    return finish(options, rows)


def first(records: Path) -> bytes:
    with records.open("rb") as file:
        return file.readline()


def last(records: Path) -> bytes:
    with records.open("rb") as file:
        file.seek(-(4 << 20), 2)
        return file.read().rstrip(b"\n").rpartition(b"\n")[2]


if __name__ == "__main__":
    sys.exit(main())
