"""AgentBench's OS tasks, with records of ours: what is expected earns 1, and what the record does
not hold is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap

import intercode
from intercode.env import InterCodeEnv
from intercode.errors import DataError, EntryLeftOut
from intercode.factory import EnvFactory

COMPARED = [None, {"language": "python", "file": "check/integer-match.py"}]
RECORDS: list[tuple[dict[str, Any], list[list[str]], list[list[str]]]] = [
    (
        {
            "description": "How many lines has notes.txt?",
            "create": {"local": "default", "init": {"code": "printf 'a\\nb\\n' > notes.txt"}},
            "evaluation": {"check": COMPARED, "example": {"code": "wc -l < notes.txt"}},
        },
        # the files do not count
        [["wc -l < notes.txt | tee count"], ["submit 2"]],
        [["echo 2 lines"], ["submit 3"]],
    ),
    # the shell of the agent has the variable, and the process runs
    (
        {
            "description": "Is `var` a number? What does the process write?",
            "start": "var=10; while :; do echo tick > /srv/log; sleep .05; done &",
            "evaluation": {"match": "10 tick", "example": "echo wrong"},
        },
        [["sleep .2; echo $var $(cat /srv/log)"]],
        [["echo tick 10"], []],
    ),
    (
        {
            "description": "Let everybody read /srv/box.",
            "create": {"init": "mkdir /srv/box; chmod 700 /srv/box"},
            "evaluation": {
                "check": {"code": "[[ $(stat -c %a /srv/box) = 755 ]]"},
                "example": {"code": "chmod 755 /srv/box"},
            },
        },
        [["chmod go+rx /srv/box"]],
        [["chmod o+rx /srv/box"], []],
    ),
]
"""Each with right and wrong actions."""
LEFT_OUT: list[tuple[dict[str, Any], str]] = [
    (
        {"create": {"init": {"file": "init/a.sh"}}, "evaluation": {"match": "a"}},
        r"names the script \{'file': 'init/a\.sh'\}, and only Bash in the record is executed",
    ),
    (
        {"evaluation": {"check": [{"code": "exit 0"}, *COMPARED], "example": "ls"}},
        "its evaluation is .*, which no gold or test here can be",
    ),
    ({"evaluation": {"match": {"regex": "a+"}}}, "its evaluation is .*regex"),
    (
        {"create": COMPARED, "evaluation": {"match": "a"}},
        "names the script \\[None, .*, and only Bash",
    ),
]


@pytest.fixture(scope="module")
def factory(tmp_path_factory: pytest.TempPathFactory) -> EnvFactory:
    needs_bwrap()
    file = tmp_path_factory.mktemp("os") / "tasks.json"
    file.write_text(json.dumps([record for record, *_ in RECORDS]))
    return intercode.prepare("bash", data=str(file))


@pytest.fixture(scope="module")
def env(factory: EnvFactory) -> Iterator[InterCodeEnv]:
    with factory() as env:
        yield env


def reward(env: InterCodeEnv, place: int, actions: list[str]) -> float:
    env.reset(options={"task": place})
    actions = [*actions, "submit"] if not actions or "submit" not in actions[-1] else actions
    rewards = [env.step(action)[1] for action in actions]
    return float(rewards[-1])


@pytest.mark.parametrize("place", range(len(RECORDS)))
def test_what_the_record_expects_earns_1(
    factory: EnvFactory, env: InterCodeEnv, place: int
) -> None:
    _, right, wrong = RECORDS[place]
    for actions in (*right, [factory.tasks[place].gold]):
        assert reward(env, place, actions) == 1, actions
    for actions in (*wrong, []):
        assert reward(env, place, actions) == 0, actions


@pytest.mark.parametrize(("record", "why"), LEFT_OUT)
def test_what_the_record_does_not_hold_is_told(
    tmp_path: Path, record: dict[str, Any], why: str
) -> None:
    (tmp_path / "t.json").write_text(json.dumps([RECORDS[0][0], {"description": "D", **record}]))
    with pytest.warns(EntryLeftOut, match=f"record 2: {why}"):
        factory = intercode.prepare("bash", data=str(tmp_path / "t.json"))
    assert [task.id for task in factory.tasks] == ["0"]


def test_a_start_that_fails_is_the_datas_fault(tmp_path: Path) -> None:
    needs_bwrap()
    record = {"query": "q", "gold": "echo 1", "session_start": "echo so; false"}
    (tmp_path / "t.json").write_text(json.dumps([record]))
    told = pytest.raises(DataError, match=r"`session_start` ended with status 1; .*\nso")
    with intercode.make("bash", data=str(tmp_path / "t.json")) as env, told:
        env.reset()
