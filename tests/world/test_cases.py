"""The lines of ../shared/cases, played as `play.py` there plays them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path

import pytest
from faults import rows
from kept import needs_bwrap

import intercode
from intercode.env import InterCodeEnv
from intercode.errors import IntercodeError
from intercode.factory import EnvFactory
from intercode.models import ScriptedModel
from intercode.train import RolloutPool, groups

pytestmark = pytest.mark.world

LINES = {
    "01-language.jsonl": 9,
    "02-replies.jsonl": 13,
    "04-preambles.jsonl": 3,
    "05-shebang.jsonl": 2,
    "06-programs.jsonl": 6,
    "07-virtual-tables.jsonl": 3,
    "08-submit-inside.jsonl": 2,
    "09-exit.jsonl": 2,
    "10-ctf-submit.jsonl": 1,
    "11-break.jsonl": 1,
    "12-datetime.jsonl": 1,
    "13-yes.jsonl": 1,
    "edges/preamble-names.jsonl": 3,
    "edges/sql.jsonl": 13,
    "edges/two-files.jsonl": 4,
    "edges/verify-python.jsonl": 9,
}
WRONG = {
    "no open issue: a German sentence around the right number is refused": ["01-language.jsonl:8"],
}
OWN_OPTIONS = {"edges/sql.jsonl:2": {"seconds": 1.0}}
"""An endless statement is waited for."""
TRUE_MESSAGE = {"09-exit.jsonl:2": "the interpreter did not report what is defined"}
"""By the README, a true message is right here as well."""
FOLDERS = ("databases", "dump", "assets")
LEFT_OUT = {f"edges/verify-python.jsonl:{number}" for number in (2, 7, 8)}
"""The same kind as line 1; left out to save two seconds each."""
NAMES = [
    name
    for file, count in LINES.items()
    for number in range(1, count + 1)
    if (name := f"{file}:{number}") not in LEFT_OUT
]


class Player:
    """Plays lines; those with equal options share a data set and an environment."""

    def __init__(self, folder: Path, data: Path, closed: ExitStack) -> None:
        self.cases, self.keys = {}, {}
        self.factory, self.env, self.pool = map(cache, (self._prepare, self._make, self._open))
        self.data, self.closed = data, closed
        for name in NAMES:
            file, _, number = name.partition(":")
            case = json.loads((folder / file).read_text().splitlines()[int(number) - 1])
            options = case.get("options", {}) | OWN_OPTIONS.get(name, {})
            for key in options.keys() & FOLDERS:
                options[key] = str((folder / file).parent / options[key])
            shares = "id" in case["task"] and case["right"] != "DataError"
            self.cases[name] = case
            self.keys[name] = case["env"], json.dumps(options), "" if shares else name

    def _prepare(self, key: tuple[str, str, str]) -> EnvFactory:
        env, options, _ = key
        file = self.data / f"{len(list(self.data.iterdir()))}.jsonl"
        tasks = [
            task | {"id": name} if "id" in (task := self.cases[name]["task"]) else task
            for name in NAMES
            if self.keys[name] == key
        ]
        file.write_text("".join(json.dumps(task) + "\n" for task in tasks))
        return intercode.prepare(env, data=str(file), **json.loads(options))

    def _make(self, key: tuple[str, str, str]) -> InterCodeEnv:
        return self.closed.enter_context(closing(self.factory(key)()))

    def _open(self, key: tuple[str, str, str]) -> RolloutPool:
        return self.closed.enter_context(RolloutPool(self.factory(key), envs=1, hosts=1))

    def play(self, name: str) -> tuple[object, str]:
        """Return the reward or the error, and the last observation."""
        case, key = self.cases[name], self.keys[name]
        try:
            task = name if "id" in case["task"] else self.factory(key).tasks[0].id
            if "replies" in case:
                (rollout,) = self.pool(key).run(groups([task], 1), ScriptedModel(case["replies"]))
                return rollout.reward, ""
            env = self.env(key)
            env.reset(options={"task": task})
            for action in case["actions"]:
                observation, reward, ended, _, _ = env.step(action)
                if ended:
                    return reward, observation
        except IntercodeError as error:
            return type(error).__name__, str(error)
        return None, "the last action did not end the episode"


@pytest.fixture(scope="module")
def player(cases: Path, module_cache: Path) -> Iterator[Player]:
    needs_bwrap()
    data = module_cache / "data"
    data.mkdir()
    with ExitStack() as closed:
        yield Player(cases, data, closed)


def test_every_line_has_a_row(cases: Path) -> None:
    files = [*cases.glob("*.jsonl"), *cases.glob("edges/*.jsonl")]
    counts = {str(file.relative_to(cases)): len(file.read_text().splitlines()) for file in files}
    assert counts == LINES


@pytest.mark.parametrize("line", rows(NAMES, WRONG))
def test_a_line_earns_what_a_careful_person_would_give(player: Player, line: str) -> None:
    reward, observation = player.play(line)
    if line not in TRUE_MESSAGE or TRUE_MESSAGE[line] not in observation:
        assert reward == player.cases[line]["right"], observation
