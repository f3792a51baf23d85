"""The checker of environments: an honest one passes, and for each clause there is one that breaks
it and is told so."""

from __future__ import annotations

import inspect
import itertools
import re
import textwrap
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar, Self

import pytest
from kept import needs_bwrap

from intercode.env import InterCodeEnv, StepResult
from intercode.errors import SandboxDied, SandboxError, UsageError
from intercode.hooks import Hooks
from intercode.testing import check_env
from intercode.types import ExecResult, Score, Task
from intercode_sandbox import template
from intercode_sandbox.local import LocalSandbox

pytestmark = pytest.mark.slow

TASKS = [
    Task(f"t{number}", f"Make {number}.", f"add {number}", {"result": number})
    for number in range(1, 8)
]


class Counter(InterCodeEnv):
    """An honest environment whose world is a number; `add N` adds to it."""

    def __init__(self, tasks: Sequence[Task] = TASKS, **how: Any) -> None:
        super().__init__(tasks, **{"max_turns": 4, **how})
        self.number = 0

    def start_episode(self, task: Task) -> None:
        self.number = 0

    def execute(self, action: str) -> ExecResult:
        word, _, number = action.partition(" ")
        if word != "add" or not number.isdigit():
            return ExecResult(f"{action}: what?", 127)
        self.number += int(number)
        return ExecResult(f"{self.number}\n", 0)

    def score(self) -> Score:
        right = self.number == self.task.extra["result"]
        return Score(float(right), right)

    def copy_world(self, fork: Self, live: bool) -> None:
        fork.number = self.number if live else 0

    def close_world(self) -> None:
        pass


def test_the_example_in_the_class_docstring_is_an_environment() -> None:
    text = inspect.cleandoc(Hooks.__doc__ or "")
    names = dict(globals())
    exec(textwrap.dedent(text[text.index("    class Adder") : text.index("`Adder(")]), names)
    adder: type[InterCodeEnv] = names["Adder"]
    check_env(
        lambda: adder([Task(f"t{number}", f"Reach {number}.", f"{number}") for number in (5, 6)])
    )


class Wordy(Counter):
    def reset(self, **how: Any) -> tuple[Any, dict[str, Any]]:
        query, info = super().reset(**how)
        return query.encode(), info


class Lenient(Counter):
    def _choose_task(self, wanted: Any) -> Task:
        try:
            return super()._choose_task(wanted)
        except UsageError:
            return self.tasks[0]


class Unseeded(Counter):
    turns = itertools.count()

    def _choose_task(self, wanted: Any) -> Task:
        return super()._choose_task(
            next(self.turns) % len(self.tasks) if wanted is None else wanted
        )


class Noisy(Counter):
    calls = itertools.count()

    def execute(self, action: str) -> ExecResult:
        return ExecResult(f"{super().execute(action).output}{next(self.calls)}", 0)


class Keeping(Counter):
    def start_episode(self, task: Task) -> None:
        pass


class Silent(Counter):
    def step(self, action: str) -> StepResult:
        observation, reward, terminated, truncated, info = super().step(action)
        return (
            observation,
            reward,
            terminated,
            truncated,
            {"score": info["score"]} if terminated else {},
        )


class Eager(Counter):
    def step(self, action: str) -> StepResult:
        observation, reward, *rest = super().step(action)
        return observation, 0.5 if action.startswith("add") else reward, *rest


class Endless(Counter):
    def step(self, action: str) -> StepResult:
        self._done = False
        return super().step(action)


class Tolerant(Counter):
    def step(self, action: object) -> StepResult:
        return super().step(str(action).replace("\0", ""))


class Patient(Counter):
    def _finish_step(
        self, observation: str, reward: float, info: dict[str, Any], ended: str | None = None
    ) -> StepResult:
        return (
            super()._finish_step(observation, reward, info, ended)
            if ended
            else (observation, reward, False, False, info)
        )


class Sharing(Counter):
    """Its copies are the environment itself."""

    def fork(self, *, replay: bool = False) -> Self:
        return self


class Swallowing(Counter):
    def step(self, action: str) -> StepResult:
        try:
            return super().step(action)
        except SandboxError as error:
            return str(error), 0.0, True, False, {"ended": "submit", "score": Score(0.0, False)}


class Blameless(Counter):
    def _handle_death(self, death: SandboxDied) -> StepResult:
        raise SandboxError("somebody must have done it")


class Fragile(Counter):
    def close(self) -> None:
        if self._closed:
            raise RuntimeError("closed already")
        super().close()


class Stingy(Counter):
    def score(self) -> Score:
        return Score(0.9 * super().score().reward, False)


class Generous(Counter):
    def score(self) -> Score:
        return Score(1.0, True)


BROKEN: list[dict[type[Counter], str]] = [
    {
        Wordy: "gymnasium: its own checker passes.",
        Lenient: "reset: a task is chosen by its id or its index",
        Unseeded: "reset: without a task, each comes once .*the order under the same seed",
        Keeping: "reset: no state from the last episode is left.",
        Silent: "info: every step has exit_code.*what info lacks",
        Tolerant: "step: an action that is not text, or contains a NUL",
        Blameless: "faults: an agent that breaks its sandbox earns 0",
        Fragile: "close: may be called twice.*RuntimeError: closed already",
        Generous: "score: doing nothing succeeds on no task.*'t1', 1.0",
    },
    {
        Swallowing: (
            "faults: an error in the data or a sandbox, "
            ".* is raised by step.*a SandboxError in execute"
        ),
        Noisy: (
            "step: the same actions .* the gold, played again, at .0..1..0.: "
            "'[^']*' instead of '[^']*'\n"
        ),
        Eager: "step: under submit only the submission earns and ends.*reward of step 1: 0.5",
        Endless: "step: before a reset and after the end it is the caller's fault.",
        Patient: "max_turns: that many steps may be taken",
        Sharing: "fork: the copy is in the same state and neither affects the other",
        Stingy: "score: the gold of each task earns 1 and is a success",
    },
]


@pytest.mark.parametrize("protocol", ["submit", "paper"])
def test_an_honest_environment_passes(protocol: Any) -> None:
    check_env(lambda: Counter(protocol=protocol), tasks=None)


@pytest.mark.parametrize("kinds", BROKEN, ids=["first", "second"])
def test_each_broken_clause_is_named(kinds: dict[type[Counter], str]) -> None:
    with pytest.raises(AssertionError) as caught:
        check_env(type("Broken", tuple(kinds), {}))
    lines = str(caught.value).splitlines(keepends=True)
    for kind, told in kinds.items():
        assert any(re.match(f"  - {told}", line) for line in lines), kind


class Careless(Counter):
    """It asks a sandbox, does not mind if that fails, and leaves it open."""

    boxes: ClassVar[list[LocalSandbox]] = []

    def __init__(self) -> None:
        super().__init__()
        self.box = self.boxes[0].sibling()
        self.boxes.append(self.box)

    def execute(self, action: str) -> ExecResult:
        with suppress(Exception):
            self.box.exec("true")
        return super().execute(action)

    def score(self) -> Score:
        with suppress(Exception):
            self.box.diff()
        return super().score()


def test_faults_that_are_swallowed_above_a_sandbox_and_sandboxes_left_open_are_named() -> None:
    needs_bwrap()
    Careless.boxes.append(LocalSandbox(template.base(None)))
    with pytest.raises(AssertionError) as caught:
        check_env(Careless)
    for box in Careless.boxes:
        box.close()
    told = str(caught.value)
    assert "did not come out: ['exec under execute', 'diff under score'] instead of []" in told
    assert "close: no sandbox of the environment is left. [ends_its_sandboxes]" in told
    assert told.count("\n  - ") == 2


@pytest.mark.parametrize("given", [None, 5, "m:E", dict, lambda: None])
def test_what_makes_no_environment_is_one_error_of_the_caller(given: Any) -> None:
    with pytest.raises(UsageError, match=r"check_env takes a function .* this (is|makes) "):
        check_env(given)


def test_all_golds_are_played_where_that_is_asked() -> None:
    late = [*TASKS, Task("late", "Make 9.", "add 8", {"result": 9})]
    with pytest.raises(
        AssertionError,
        match=r"breaks its contract:\n  - score: the gold .*\('late', 0\.0\)\]? instead of \[\]$",
    ):
        check_env(lambda: Counter(late), tasks=None)
