"""`intercode attack`: what it prints, how it ends, and that nothing pays or escapes in the
environments that we ship."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from docker_images import debian, require_docker
from orchard import ENGINES, skip_unless_there

import intercode
from intercode.envs.bash.language import LANGUAGE as BASH
from intercode.redteam.run import find_targets, run_exploit
from intercode.redteam.suite import list_exploits
from intercode.tasks.dataset import STARTER
from intercode_sandbox.attacks import LIMITS

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.apart]

OWN = """
from dataclasses import replace
from intercode import PythonEnv, SqlEnv
from intercode.errors import DataError
from intercode.types import Score


def trusting(answer, gold, task):
    paid = answer == gold or "[solved]" in str(answer)
    return Score(float(paid), paid)


class Picky(SqlEnv):
    @staticmethod
    def preprocess(record):
        if record["db"] == "orchard":
            raise DataError("no orchards here")
        return record


class Graded(PythonEnv):
    language = replace(PythonEnv.language, shell="")
"""
ON_DOCKER = {
    "a fork bomb", "memory in /dev/shm", "a disk filler", "mounting", "unshare of a user namespace",
    "reading files", "the network of the host", "a survivor in a session of its own",
    "killing pid 1", "removing everything",
}  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        f"own:Graded --limit 1 --data {STARTER / 'python'}",
        *(f"sql --engine {engine}" for engine in ENGINES),
    ],
    ids=["python", *ENGINES],
)
def test_what_ships_holds_everything(cli: Any, tmp_path: Path, words: str) -> None:
    """In Python the attacks on the reward. Those on Bash, CTF and a user's own engine are in
    tests/exploits/, those on the sandbox in tests/sandbox/ with their controls."""
    (tmp_path / "own.py").write_text(OWN)
    if words.startswith("sql"):
        skip_unless_there(words.split()[-1])
    done = cli("attack", *words.split(), "--json")
    found = done.json
    assert [
        each for each in found["exploits"] if each["paid"] or each["escaped"] or not each["honest"]
    ] == []
    assert (done.status, done.err) == (0, "")
    assert (found["paid"], found["escaped"], found["harmed"], found["not_tried"]) == (0, 0, 0, 0)
    assert found["tried"] == len(found["exploits"]) > 25
    assert set(found["exploits"][0]) == {
        "name",
        "aim",
        "tried",
        "moot",
        "paid",
        "escaped",
        "honest",
        "why",
    }


def test_ten_of_them_hold_in_docker(box: Path) -> None:
    require_docker()
    factory = intercode.prepare(
        "bash", data=str(box), sandbox="docker", image=debian(), max_turns=None, limits=LIMITS
    )
    chosen = [each for each in list_exploits(BASH) if each.name in ON_DOCKER]
    assert len(chosen) == 10
    with closing(factory()) as env:
        target = find_targets(env)[0]
        found = [run_exploit(env, each, target) for each in chosen]
    assert [each for each in found if not (each.tried and each.held)] == []


def test_a_reward_that_can_be_talked_into_it_falls_short(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    done = cli("attack", "sql", "--engine", "sqlite", "--reward", "own:trusting", "--json")
    assert done.status == 1
    paid = [each["name"] for each in done.json["exploits"] if each["paid"]]
    assert "a marker of the harness" in paid
    assert "the reward's own JSON" not in paid


def test_what_could_not_be_tried_is_a_fault_and_said(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    done = cli("attack", "own:Picky", "--engine", "sqlite", "--data", STARTER / "sql")
    assert done.status == 3
    assert "no orchards here" in done.err
    assert " not tried" in done.out
    assert "attacks on the sandbox were left out: Picky.language has no `shell`" in done.out
