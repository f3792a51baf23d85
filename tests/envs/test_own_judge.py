"""A judge of the user's own is held to its contract, and `check` says what is wrong with a task."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from kept import needs_bwrap

import intercode
from intercode.errors import UsageError
from intercode.factory import EnvFactory
from intercode.validate.check import check

Own = Callable[..., EnvFactory]
JUDGE = """
from intercode import BashEnv, Score
from intercode.envs.judges import Judge, Ruling
from intercode.errors import DataError


def ruling(success):
    return Ruling(Score(float(success), success), dict)


class Strict(Judge):
{body}

class Own(BashEnv):
    data = "tasks.jsonl"
    decided_by = (*BashEnv.decided_by, "wants")

    def make_judges(self):
        return {{"own": Strict()}}

    def kind_of(self, task):
        return "own"
"""
IN_FOLDER = """
def rule(self, world, attempt):
    return ruling(world.files().sandbox.read("/desk/x") == b"new")
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Own]:
    """Prepares an environment whose judge has `body`."""
    needs_bwrap()
    monkeypatch.syspath_prepend(str(tmp_path))

    def prepare(body: str, **fields: Any) -> EnvFactory:
        (tmp_path / "strict.py").write_text(JUDGE.format(body=indent(body, "    ")))
        record = {"id": "t", "query": "Make /desk/x.", "setup": "mkdir /desk", **fields}
        (tmp_path / "tasks.jsonl").write_text(json.dumps(record))
        return intercode.prepare("strict:Own")

    yield prepare
    sys.modules.pop("strict", None)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("pass", "the judge Strict has no method `rule`"),
        ("def rule(self, world, attempt):\n    return 1.0", r"Strict.*rule.* returned 1.0"),
    ],
)
def test_a_rule_that_gives_no_ruling_is_the_users_error(own: Own, body: str, told: str) -> None:
    with own(body, gold="echo -n new > /desk/x")() as env:
        env.reset(seed=0)
        with pytest.raises(UsageError, match=told):
            env.step("submit")


def test_an_agent_that_removes_the_judges_folder_earns_nothing(own: Own) -> None:
    with own(IN_FOLDER, gold="echo -n new > /desk/x")() as env:
        for action, reward in (("echo -n new > /desk/x", 1.0), ("rm -r /desk", 0.0)):
            env.reset(seed=0)
            env.step(action)
            assert env.step("submit")[1] == reward
        assert "/desk/x" in env.outcomes()["rule"]


@pytest.mark.parametrize(
    ("body", "fields", "kind", "why"),
    [
        (IN_FOLDER, {"gold": "echo -n new > /desk/x"}, None, None),
        (IN_FOLDER, {"gold": "touch /desk/x"}, "broken", "the gold does not succeed"),
        (IN_FOLDER, {"gold": "rm -r /desk"}, "broken", "No such file"),
        (IN_FOLDER, {"wants": "x"}, "suspicious", "no gold"),
        (
            "def rule(self, world, attempt):\n    raise DataError('the gold names no file')",
            {"gold": "true"},
            "broken",
            "the gold names no file",
        ),
    ],
)
def test_check_names_what_is_wrong_with_a_task(
    own: Own, body: str, fields: dict[str, Any], kind: str | None, why: str | None
) -> None:
    factory = own(body, **fields)
    findings = check(factory, factory.tasks)
    for severity in ("broken", "suspicious"):
        told = " ".join(issue["why"] for issue in findings[severity])
        if severity == kind:
            assert why is not None
            assert why in told
        else:
            assert told == ""
