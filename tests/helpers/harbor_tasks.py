"""Tasks of Harbor whose tests run in a container of their own, and how they are played here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from base_image import base_image

import intercode
from intercode.agents import Act, StrategySteps
from intercode.factory import EnvFactory
from intercode.runner.run import evaluate
from intercode.types import Episode, Task

SEPARATE = '[verifier]\nenvironment_mode = "separate"\ntimeout_sec = 20\n'
OUT = 'artifacts = ["/app/out.txt"]\n'
PAYS = """#!/bin/bash
mkdir -p /logs/verifier
{test} && reward=1 || reward=0
echo $reward > /logs/verifier/reward.txt
"""
RIGHT = PAYS.format(test='[ "$(cat /app/out.txt)" = 3 ]')
FILES = {
    "instruction.md": "Write the number of lines of /app/in.txt into /app/out.txt.\n",
    "environment/Dockerfile": (
        "FROM debian:bookworm-slim\nWORKDIR /app\nRUN printf 'a\\nb\\nc\\n' > /app/in.txt\n"
    ),
    "solution/solve.sh": "#!/bin/bash\nwc -l < /app/in.txt > /app/out.txt\n",
    "tests/Dockerfile": "FROM debian:bookworm-slim\nWORKDIR /srv\nCOPY . /tests/\n",
    "tests/test.sh": RIGHT,
}
HOOK = '[[verifier.collect]]\ncommand = "{}"\n'


def write_task(folder: Path, toml: str = OUT + SEPARATE, **files: str | None) -> None:
    """Write a task; a file that is None is left out."""
    named = {name.replace("__", "/").replace("_dot_", "."): text for name, text in files.items()}
    for name, text in {**FILES, **named}.items():
        if text is not None:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    (folder / "task.toml").write_text(f'schema_version = "1.4"\n{toml}')


def write_usual_tasks(folder: Path) -> None:
    """Write tasks whose tests run in an image of their own, in a named folder, or in the task's."""
    write_task(folder / "own", tests__test_dot_sh=passing('"$PWD $(cat /app/out.txt)" = "/srv 3"'))
    write_task(
        folder / "workdir",
        f'{OUT}[verifier.environment]\nworkdir = "/opt"\nenv = {{MODE = "a"}}\n',
        tests__test_dot_sh=passing('"$PWD $MODE $(cat /app/out.txt)" = "/opt a 3"'),
    )
    write_task(
        folder / "fresh",
        tests__Dockerfile=None,
        tests__test_dot_sh=passing('"$(wc -l < in.txt) $(cat out.txt)" = "3 3"'),
    )


def acting(*actions: str) -> Any:
    def strategy(task: Task, protocol: str) -> StrategySteps:
        for action in actions:
            yield Act(action)
        yield Act("submit")

    return strategy


def prepare(folder: Path) -> EnvFactory:
    return intercode.prepare("harbor", data=str(folder), image=base_image())


def played(factory: EnvFactory, agent: Any) -> dict[str, Episode]:
    return {episode.task: episode for episode in evaluate(factory, agent, tasks=factory.tasks)}


def passing(condition: str) -> str:
    return PAYS.format(test=f"[ {condition} ]")
