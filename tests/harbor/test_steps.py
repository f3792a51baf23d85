"""Harbor's steps: rounds in one sandbox, each judged by its own tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from base_image import base_image

import intercode
from intercode.agents import Act, StrategySteps, gold, noop
from intercode.runner.run import evaluate
from intercode.types import Episode, Task

PASSES = """#!/bin/bash
mkdir -p /logs/verifier
bash /tests/same.sh "{lines}" && reward=1 || reward={else_}
echo $reward >/logs/verifier/reward.txt
"""
FILES = {
    "environment/Dockerfile": (
        "FROM debian:bookworm-slim\nWORKDIR /app\nRUN printf 'b\\na\\nb\\n' > /app/in.txt\n"
    ),
    "tests/same.sh": 'diff <(printf "$1") /app/out.txt\n',
    "tests/test.sh": "exit 1\n",
    "steps/one/instruction.md": "Write the sorted lines of /app/in.txt into /app/out.txt.\n",
    "steps/one/solution/solve.sh": "#!/bin/bash\nsort /app/in.txt > /app/out.txt\n",
    "steps/one/tests/test.sh": PASSES.format(lines="a\\nb\\nb\\n", else_="0.25"),
    "steps/two/instruction.md": "Each line only once now.\n",
    "steps/two/solution/solve.sh": "#!/bin/bash\ncd /app; uniq out.txt >new; mv new out.txt\n",
    "steps/two/tests/test.sh": PASSES.format(lines="a\\nb\\n", else_="0"),
}
ONE, TWO = "sort in.txt >out.txt", "sort -u in.txt >out.txt"


def write_task(folder: Path, *, strategy: str = "mean", first: str = "", **files: str) -> None:
    """Write a task with two steps; `first` is what task.toml says of the first one."""
    for name, text in {**FILES, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "task.toml").write_text(
        f'schema_version = "1.4"\nmulti_step_reward_strategy = "{strategy}"\n[task]\n'
        f'name = "ic/two"\n[environment]\nworkdir = "/app"\n[[steps]]\nname = "one"\n{first}\n'
        '[[steps]]\nname = "two"\n[steps.verifier]\ntimeout_sec = 30\n'
    )


def acting(actions: Sequence[str]) -> Any:
    def strategy(task: Task, protocol: str) -> StrategySteps:
        for action in actions:
            yield Act(action)
            yield Act("submit")

    return strategy


def played(folder: Path, agent: Any) -> Episode:
    factory = intercode.prepare("harbor", data=str(folder), image=base_image())
    (episode,) = evaluate(factory, agent, tasks=factory.tasks)
    assert episode.error is None
    return episode


@pytest.mark.slow
def test_each_step_has_its_own_tests_and_min_reward_ends_the_task(tmp_path: Path) -> None:
    for fields, agent, reward, rounds in (
        ({}, gold, 1.0, [1.0, 1.0]),
        ({}, noop, 0.125, [0.25, 0.0]),
        ({}, acting(["true", TWO]), 0.625, [0.25, 1.0]),
        ({"strategy": "final"}, acting(["true", TWO]), 1.0, [0.25, 1.0]),
        ({"first": "min_reward = 0.5"}, acting(["true", TWO]), 0.25, [0.25]),
        ({"first": "min_reward = 0.2"}, acting([ONE, ONE]), 0.5, [1.0, 0.0]),
    ):
        write_task(tmp_path / "two", **fields)  # type: ignore[arg-type]
        episode = played(tmp_path, agent)
        shown = [row["reward"] for row in episode.outcomes["rounds"]]
        assert (episode.reward, shown) == (reward, rounds), fields
        assert episode.success is (agent is gold or "strategy" in fields)


def test_steps_are_read_and_those_that_need_more_are_left_out(tmp_path: Path) -> None:
    write_task(tmp_path / "two")
    brings = {"steps/two/workdir/setup.sh": "true\n"}
    write_task(tmp_path / "brings", **brings)
    factory = intercode.prepare("harbor", data=str(tmp_path))
    (task,) = factory.tasks
    (second,) = task.rounds
    assert (task.query, second.query) == (
        "Write the sorted lines of /app/in.txt into /app/out.txt.\n",
        "Each line only once now.\n",
    )
    assert (task.extra["verify_seconds"], second.extra["verify_seconds"]) == (600.0, 30.0)
    assert second.extra["verify"] == "two/steps/two/tests"
    assert second.extra["verify_files"] == ["two/tests/", "two/steps/two/tests/"]
    assert [str(issue) for _, issue in factory.left_out] == ["a step brings files (workdir)"]
