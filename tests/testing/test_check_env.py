"""The checker of environments: an honest one passes, and for each clause there is one that breaks it and is told so."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from typing import Any, ClassVar, Self

import pytest
from kept import needs_bwrap

from intercode.env import InterCodeEnv, StepResult
from intercode.errors import SandboxError, UsageError
from intercode.sandbox import template
from intercode.sandbox.local import LocalSandbox
from intercode.testing import ScriptedModel, check_env
from intercode.types import ExecResult, Score, Task

TASKS = [Task(f"t{number}", f"Make {number}.", f"add {number}", {"result": number}) for number in range(1, 8)]


class Counter(InterCodeEnv):
    """An honest environment whose world is a number; `add N` adds to it."""

    def __init__(self, tasks: Sequence[Task] = TASKS, **how: Any) -> None:
        super().__init__(tasks, **{"max_turns": 4, **how})
        self.number = 0

    def _enter(self, task: Task) -> None:
        self.number = 0

    def _act(self, action: str) -> ExecResult:
        word, _, number = action.partition(" ")
        if word != "add" or not number.isdigit():
            return ExecResult(f"{action}: what?", 127)
        self.number += int(number)
        return ExecResult(f"{self.number}\n", 0)

    def _score(self) -> Score:
        right = self.number == self.task.extra["result"]
        return Score(float(right), right)

    def _branch(self, twin: Self, live: bool) -> None:
        twin.number = self.number if live else 0

    def _leave(self) -> None:
        pass


def changed(step: StepResult, **info: Any) -> StepResult:
    observation, reward, terminated, truncated, told = step
    return observation, reward, terminated, truncated, {**told, **info}


class Wordy(Counter):
    def reset(self, **how: Any) -> tuple[Any, dict[str, Any]]:
        query, info = super().reset(**how)
        return query.encode(), info


class Lenient(Counter):
    def _choose(self, wanted: Any) -> Task:
        try:
            return super()._choose(wanted)
        except UsageError:
            return self.tasks[0]


class Unseeded(Counter):
    turns = itertools.count()

    def _choose(self, wanted: Any) -> Task:
        return super()._choose(next(self.turns) % len(self.tasks) if wanted is None else wanted)


class Insistent(Counter):
    def _choose(self, wanted: Any) -> Task:
        return super()._choose(0 if wanted is None else wanted)


class Clock(Counter):
    def step(self, action: str) -> StepResult:
        return changed(super().step(action), at=int(time.time()))


class Noisy(Counter):
    calls = itertools.count()

    def _act(self, action: str) -> ExecResult:
        return ExecResult(f"{super()._act(action).output}{next(self.calls)}", 0)


class Keeping(Counter):
    def _enter(self, task: Task) -> None:
        pass


class Silent(Counter):
    def step(self, action: str) -> StepResult:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, truncated, {"score": info["score"]} if terminated else {}


class Unscored(Counter):
    def step(self, action: str) -> StepResult:
        return changed(super().step(action), score=None)


class Eager(Counter):
    def step(self, action: str) -> StepResult:
        observation, reward, *rest = super().step(action)
        return observation, 0.5 if action.startswith("add") else reward, *rest


class Endless(Counter):
    def step(self, action: str) -> StepResult:
        self._over = False
        return super().step(action)


class Tolerant(Counter):
    def _require_text(self, action: object) -> None:
        pass


class Patient(Counter):
    def _go_on(self, observation: str, reward: float, info: dict[str, Any]) -> StepResult:
        return observation, reward, False, False, info


class Sharing(Counter):
    """Its copies are the environment itself."""

    def fork(self, *, replay: bool = False) -> Self:
        return self


class Emptied(Counter):
    def _branch(self, twin: Self, live: bool) -> None:
        twin.number = 0


class Swallowing(Counter):
    def step(self, action: str) -> StepResult:
        try:
            return super().step(action)
        except SandboxError as error:
            return str(error), 0.0, True, False, {"ended": "submit", "score": Score(0.0, False)}


class Blameless(Counter):
    def _blame(self) -> StepResult:
        raise SandboxError("somebody must have done it")


class Undead(Counter):
    def close(self) -> None:
        pass


class Fragile(Counter):
    def close(self) -> None:
        if self._closed:
            raise RuntimeError("closed already")
        super().close()


class Stingy(Counter):
    def _score(self) -> Score:
        return Score(0.9 * super()._score().reward, False)


class Generous(Counter):
    def _score(self) -> Score:
        return Score(1.0, True)


BROKEN: dict[type[Counter], str] = {
    Wordy: "gymnasium: its own checker passes.",
    Lenient: "reset: a task is chosen by its id or its index",
    Unseeded: "reset: without a task, each comes once .*the order under the same seed",
    Insistent: "reset: without a task, each comes once .*how many different tasks came",
    Clock: "step: the same actions from the same start give the same",
    Noisy: "step: the same actions from the same start give the same",
    Keeping: "reset: nothing of the last episode is left.",
    Silent: "info: every step has exit_code.*what info lacks",
    Unscored: r"info: every step has exit_code.*the type of info\['score'\]",
    Eager: "step: under submit only the submission earns and ends.*reward of step 1: 0.5",
    Endless: "step: before a reset and after the end it is the caller's fault.",
    Tolerant: "step: an action that is no text, or holds a NUL",
    Patient: "max_turns: that many steps may be made",
    Sharing: "fork: the copy is in the same state and neither touches the other",
    Emptied: "fork: the copy is in the same state and neither touches the other.*the last step of the original",
    Swallowing: "faults: an error of the sandbox or the data comes out of step.*a SandboxError in _act",
    Blameless: "faults: an agent that breaks its sandbox earns 0",
    Undead: "close: may be called twice.*reset after close raises nothing",
    Fragile: "close: may be called twice.*RuntimeError: closed already",
    Stingy: "score: the gold of each task earns 1 and is a success",
    Generous: "score: doing nothing succeeds on no task.*'t1', 1.0",
}


@pytest.mark.parametrize("protocol", ["submit", "paper"])
def test_an_honest_environment_passes(protocol: Any) -> None:
    check_env(lambda: Counter(protocol=protocol), tasks=None)


@pytest.mark.parametrize("broken", BROKEN, ids=lambda kind: kind.__name__)
def test_a_broken_clause_is_named(broken: type[Counter]) -> None:
    with pytest.raises(AssertionError, match=f"(?s)the environment breaks its contract:.*- {BROKEN[broken]}"):
        check_env(broken)


class Careless(Counter):
    """It asks a sandbox, does not mind if that fails, and leaves it open."""

    boxes: ClassVar[list[LocalSandbox]] = []

    def __init__(self) -> None:
        super().__init__()
        self.box = self.boxes[0].beside()
        self.boxes.append(self.box)

    def _act(self, action: str) -> ExecResult:
        with suppress(Exception):
            self.box.exec("true")
        return super()._act(action)

    def _score(self) -> Score:
        with suppress(Exception):
            self.box.diff()
        return super()._score()


def test_faults_that_are_swallowed_above_a_sandbox_and_sandboxes_left_open_are_named() -> None:
    needs_bwrap()
    Careless.boxes.append(LocalSandbox(template.base(None)))
    with pytest.raises(AssertionError) as caught:
        check_env(Careless)
    for box in Careless.boxes:
        box.close()
    told = str(caught.value)
    assert "did not come out: ['exec under _act', 'diff under _score'] instead of []" in told
    assert "close: no sandbox of the environment is left. [ends_its_sandboxes]" in told
    assert told.count("\n  - ") == 2


def test_only_what_is_broken_is_named() -> None:
    with pytest.raises(AssertionError) as caught:
        check_env(Blameless)
    assert str(caught.value).count("\n  - ") == 1


@pytest.mark.parametrize("given", [None, 5, "m:E", dict, lambda: None])
def test_what_makes_no_environment_is_one_error_of_the_caller(given: Any) -> None:
    with pytest.raises(UsageError, match=r"check_env takes a function .* this (is|makes) "):
        check_env(given)


def test_the_first_difference_is_shown_and_no_more() -> None:
    with pytest.raises(AssertionError, match=r"the gold, played again, at \[0\]\[1\]\[0\]: '[^']*' instead of '[^']*'\n"):
        check_env(Noisy)


def test_all_golds_are_played_where_that_is_asked() -> None:
    late = [*TASKS, Task("late", "Make 9.", "add 8", {"result": 9})]
    check_env(lambda: Counter(late))
    with pytest.raises(AssertionError, match=r"the gold of each task .*\('late', 0\.0\)"):
        check_env(lambda: Counter(late), tasks=None)


def test_a_scripted_model_answers_the_agent_of_a_users_test() -> None:
    from intercode.agents import make_agent
    from intercode.runner.run import evaluate

    agent = make_agent("try_again", tasks=TASKS, turns=3, language="bash")
    make: Callable[[], InterCodeEnv] = Counter
    episodes = evaluate(make, agent.strategy, ScriptedModel(["```bash\nadd 2\n```", "submit"]), tasks=TASKS[:3])
    assert [episode.reward for episode in episodes] == [0.0, 1.0, 0.0]
    with closing(make()) as env:
        assert env.reset(options={"task": "t2"})[0] == "Make 2."
