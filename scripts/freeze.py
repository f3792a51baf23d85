"""Freeze what users see, so that a change which moves code can show that it changes nothing.

    .venv/bin/python scripts/freeze.py write OUT [PART …] [--tree TREE] [--runs-by TREE]
    .venv/bin/python scripts/freeze.py compare BEFORE AFTER

    names      public classes and functions, with their arguments, wherever they are
    tasks      the starter tasks, as digests
    prompts    the messages of each agent to a model, on three tasks of each environment
    generated  40 tasks of each family
    verdicts   reward, success and rule of each labelled answer (about ten minutes)
    runs       what the commands say of runs that the tree `--runs-by` wrote, one interrupted

`write` makes a file of lines for each part, from the source in TREE (by default this one), which it
only asks by paths that the documents name; `compare` prints the lines that differ, and ends with
status 1 if any do. The help of commands and the keys of their JSON are frozen in tests/cli/golden.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

HERE = Path(__file__).resolve()
ENVS = ("bash", "sql", "python", "ctf")
AGENTS = (
    *("try_again", "try_again_blind", "react", "plan_solve", "plan_solve_refine", "tools"),
    *("best_of:2", "tree_search"),
)
ACTS = {
    "bash": "ls /",
    "ctf": "ls /",
    "sql": "SELECT 1",
    "python": "print(1)",
}
_DIFFERING = re.compile(
    r"""\S*/tmp/\S*|\b\d+(?:\.\d+)?\ ?(?:ms|s)\b|"(?:per_)?seconds":\ [\d.]+
    |(?<![\d.])\d\.\d(?=[\ <])|\b\d{4}-\d\d-\d\d\S*(?:\ \d\d:\d\d)?|\b127\.0\.0\.1:\d+|token=\w+""",
    re.VERBOSE,
)
"""What differs between two runs: paths, times, dates, addresses."""


def digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


# -- parts -----------------------------------------------------------------------------------------


def names() -> Iterator[str]:
    for path in sorted((Path(os.environ["FROZEN"]) / "src").rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            yield from _public(node, "")


def _public(node: ast.AST, owner: str) -> Iterator[str]:
    if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
        yield f"class {owner}{node.name}"
        for child in node.body:
            yield from _public(child, f"{owner}{node.name}.")
    elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
        yield f"def {owner}{node.name}({ast.unparse(node.args)})"


def tasks() -> Iterator[str]:
    import intercode

    for env in ENVS:
        for task in intercode.prepare(env).tasks:
            yield f"{env} {task.id} {digest([task.query, task.golds, dict(task.extra)])}"


def prompts() -> Iterator[str]:
    import intercode
    from intercode.models import ScriptedModel

    pools = import_module("intercode.rollouts")  # its path in every tree

    for env in ENVS:
        factory = intercode.prepare(env, limit=3)
        for agent in AGENTS:
            asked: list[Any] = []

            def answer(messages: Any, asked: list[Any] = asked, env: str = env) -> str:
                asked.append(messages)
                said = sum(message["role"] == "assistant" for message in messages)
                return "submit" if said else f"```\n{ACTS[env]}\n```"

            with pools.RolloutPool(factory, agent, envs=1) as pool:
                for task in factory.tasks:
                    list(pool.run([(task.id, 0)], ScriptedModel(answer)))
                    yield f"{env} {agent} {task.id} {len(asked)} {digest(asked)}"
                    asked.clear()


def generated() -> Iterator[str]:
    from intercode.generate import FAMILIES, generate

    for family in FAMILIES:
        with TemporaryDirectory() as folder:
            out = Path(folder) / family
            generate(family, n=40, seed=58, out=out, workers=2)
            for line in (out / "tasks.jsonl").read_text("utf-8").splitlines():
                record = json.loads(line)
                yield f"{family} {record.get('kind')} {record['id']} {digest(record)}"


def verdicts() -> Iterator[str]:
    from truth import bash, ctf, pairs, python, sql

    from intercode.runner.episode import UNSCORED

    judged: list[str] = []

    def play(env: Any, given: Any, part: str | None = None) -> Iterator[Any]:
        for pair in given:
            env.reset(options={"task": pair.task})
            info: dict[str, Any] = {}
            for action in pair.actions:
                _, _, over, _, info = env.step(action)
                if over:
                    break
            score = info.get("score", UNSCORED)
            accepted = score.success and (part is None or score.parts.get(part, 1.0) == 1)
            judged.append(f"{pair.task} {digest(pair.actions)} {score.reward} {score.rule}")
            yield pairs.Verdict(pair, accepted, score.rule)

    for module in (bash, ctf, python, sql):
        setattr(module, "play", play)  # noqa: B010
        for truth in module.truths():
            yield from (f"{truth.env}, {truth.reward}: {line}" for line in judged)
            judged.clear()


def runs() -> Iterator[str]:
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        script = Path("script.json")
        script.write_text(json.dumps(["```\nls /\n```", "submit"]))
        old = os.environ["RUNS_BY"]
        for env in ENVS:
            _cli(old, "eval", env, "--agent", "gold", "--limit", "4", "--out", f"{env}-gold")
            model = ("--model", "scripted:script.json", "--limit", "3", "--out", f"{env}-try")
            _cli(old, "eval", env, *model)
        _interrupted(old, "eval", "bash", "--agent", "gold", "--workers", "1", "--out", "part")
        for run in sorted(path.parent.name for path in Path().glob("*/run.json")):
            if run == "part":
                _cli(None, "eval", "--resume", run)
            lines = Path(run, "episodes.jsonl").read_text("utf-8").splitlines()
            first = min(json.loads(line)["task"] for line in lines)
            for words in (
                ["show", run],
                ["show", run, first],
                ["report", run, "--json"],
                ["report", run, "--html", f"{run}.html"],
                ["rescore", run, "--reward", "paper", "--out", f"{run}-paper", "--json"],
                ["replay", run, "--json"],
                ["export", run, "--format", "jsonl", "--out", f"{run}.jsonl"],
            ):
                done = _cli(None, *words)
                page = Path(f"{run}.html")
                written = page.read_text("utf-8") if words[-1] == page.name else ""
                text = _DIFFERING.sub("…", done.stdout + done.stderr + written)
                for line in (f"status {done.returncode}", *text.splitlines()):
                    yield f"{' '.join(words)}: {line}"


def _cli(tree: str | None, *words: str) -> subprocess.CompletedProcess[str]:
    command, env = _command(tree, *words)
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def _command(tree: str | None, *words: str) -> tuple[list[str], dict[str, str]]:
    """Return a call of `intercode` from a tree's source, by default that of this process."""
    path = f"{tree}/src" if tree else os.environ["PYTHONPATH"]
    start = "import sys; from intercode.cli import main; sys.exit(main())"
    return [sys.executable, "-c", start, *words], {**os.environ, "PYTHONPATH": path}


def _interrupted(tree: str, *words: str) -> None:
    """Interrupt the run after its first episode."""
    command, env = _command(tree, *words)
    nowhere = subprocess.DEVNULL
    with subprocess.Popen(command, env=env, stdout=nowhere, stderr=nowhere) as process:
        episodes = Path(words[-1], "episodes.jsonl")
        while process.poll() is None and not (episodes.exists() and episodes.stat().st_size):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)


PARTS: dict[str, Callable[[], Iterator[str]]] = {
    part.__name__: part for part in (names, tasks, prompts, generated, verdicts, runs)
}


# -- the command -----------------------------------------------------------------------------------


def write(out: Path, tree: Path, runs_by: Path, parts: list[str]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    paths = os.pathsep.join(str(tree.resolve() / folder) for folder in ("src", "benchmarks"))
    env = {**os.environ, "PYTHONPATH": paths, "FROZEN": str(tree.resolve())}
    env |= {"RUNS_BY": str(runs_by.resolve()), "PYTHONHASHSEED": "0"}
    for part in parts or PARTS:
        with (out / f"{part}.txt").open("w") as file:
            words = [sys.executable, str(HERE), "part", part]
            subprocess.run(words, env=env, stdout=file, check=True)
        print(f"{part}: {len((out / f'{part}.txt').read_text('utf-8').splitlines())} lines")


def compare(before: Path, after: Path) -> int:
    differing = 0
    for path in sorted(before.glob("*.txt")):
        if not (after / path.name).exists():
            print(f"{path.stem}: only in {before}")
            continue
        old, new = (each.read_text("utf-8").splitlines() for each in (path, after / path.name))
        lines = list(difflib.unified_diff(sorted(old), sorted(new), lineterm="", n=0))[2:]
        changed = [line for line in lines if not line.startswith("@@")]
        print(f"{path.stem}: {len(old)} lines, {len(changed)} differ", *changed, sep="\n  ")
        differing += len(changed)
    return int(differing > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write")
    writing.add_argument("out", type=Path)
    writing.add_argument("parts", nargs="*", metavar="PART")
    writing.add_argument("--tree", type=Path, default=HERE.parents[1])
    writing.add_argument("--runs-by", type=Path, default=HERE.parents[1])
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    commands.add_parser("part").add_argument("name", choices=PARTS)
    options = parser.parse_args()
    if options.command == "compare":
        return compare(options.before, options.after)
    if options.command == "write":
        write(options.out, options.tree, options.runs_by, options.parts)
    else:
        for line in PARTS[options.name]():
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
