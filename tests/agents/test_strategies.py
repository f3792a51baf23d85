"""Strategies driven by hand: what each one asks and does, with no model and no environment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from intercode.agents import NAMES, Act, Ask, Moves, Step, make_agent, replay, retrieval, try_again
from intercode.errors import DataError, UsageError
from intercode.types import Reply, Task

TASKS = [
    Task("a", "count the lines of notes.txt", "wc -l notes.txt"),
    Task("b", "count the words of notes.txt", "wc -w notes.txt"),
    Task("c", "list all folders", "ls -d */"),
]


def drive(moves: Moves, replies: Sequence[str] = (), observation: str = "ok") -> list[Act]:
    """All actions of a strategy that is answered from `replies` and always observes the same."""
    left, acts = list(replies), []
    answer: Reply | Step | None = None
    while True:
        try:
            move = moves.send(answer)
        except StopIteration:
            return acts
        if isinstance(move, Ask):
            answer = Reply(left.pop(0))
        else:
            acts.append(move)
            answer = Step(move.note or observation, info={"exit_code": 0})


def actions(moves: Moves, replies: Sequence[str] = ()) -> list[str | None]:
    return [act.action for act in drive(moves, replies)]


def named(name: str, protocol: str, task: Task = TASKS[0], turns: int = 10) -> list[str | None]:
    return actions(make_agent(name, tasks=TASKS, turns=turns).strategy(task, protocol))


def test_the_baselines_act_without_a_model() -> None:
    assert named("gold", "submit") == ["wc -l notes.txt", "submit"]
    assert named("gold", "paper") == ["wc -l notes.txt"]
    assert named("noop", "submit") == ["submit"]
    assert named("noop", "paper") == [""]
    assert named("retrieval", "submit") == ["wc -w notes.txt", "submit"]
    assert named("retrieval", "paper", turns=1) == ["wc -w notes.txt"]
    for task in TASKS:
        assert task.gold not in named("retrieval", "paper", task)
    assert actions(retrieval(TASKS[:1])(TASKS[0], "submit")) == ["submit"]


class Script:
    def actions_for(self, task: Task) -> Sequence[str | None]:
        if task.id != "a":
            raise DataError("not recorded")
        return ["ls", None, "submit"]


def test_replay_acts_the_record_in_order_and_keeps_missing_code() -> None:
    acts = drive(replay(Script())(TASKS[0], "submit"))
    assert [act.action for act in acts] == ["ls", None, "submit"]
    assert acts[1].note
    with pytest.raises(DataError):
        drive(replay(Script())(TASKS[1], "submit"))


def test_try_again_submits_for_the_model_when_its_turns_are_used_up() -> None:
    assert actions(try_again(turns=2)(TASKS[0], "submit"), ["ls", "pwd"]) == ["ls", "pwd", "submit"]
    assert actions(try_again(turns=1)(TASKS[0], "submit"), ["ls"]) == ["ls", "submit"]
    assert actions(try_again(turns=2)(TASKS[0], "paper"), ["ls", "pwd"]) == ["ls", "pwd"]


def test_try_again_answers_a_reply_without_code_with_a_note_that_costs_a_turn() -> None:
    acts = drive(try_again(turns=2)(TASKS[0], "paper"), ["I do not know.", "ls"])
    assert [act.action for act in acts] == [None, "ls"]
    assert "one turn was used up" in str(acts[0].note)
    assert acts[0].thought == "I do not know."


@pytest.mark.parametrize("protocol", ["submit", "paper"])
def test_try_again_shows_task_output_exit_code_and_turns_left(protocol: str) -> None:
    moves = try_again(turns=3)(TASKS[0], protocol)
    first = next(moves)
    assert isinstance(first, Ask)
    assert [message["role"] for message in first.messages] == ["system", "user"]
    assert "3 turns" in first.messages[0]["content"]
    assert "{" not in first.messages[0]["content"]
    assert first.messages[1]["content"] == TASKS[0].query
    assert all(TASKS[0].gold not in message["content"] for message in first.messages)
    moves.send(Reply("```bash\nls\n```"))
    second = moves.send(Step("no such file\n", 0.34, info={"exit_code": 2}))
    assert isinstance(second, Ask)
    assert len(first.messages) == 2, "what was asked does not change afterwards"
    assert second.messages[2] == {"role": "assistant", "content": "```bash\nls\n```"}
    told = second.messages[3]["content"]
    assert told.startswith("no such file\n[exit code 2]")
    assert ("[score 0.34]" in told) == (protocol == "paper")
    assert told.endswith("[2 turns left]")


def test_agents_are_made_by_name() -> None:
    agent = make_agent("try_again", tasks=TASKS)
    assert agent.needs_model
    assert len(str(agent.prompt_digest)) == 64
    assert not make_agent("gold", tasks=TASKS).needs_model
    assert actions(make_agent("replay:x", tasks=TASKS, load=lambda _: Script()).strategy(TASKS[0], "submit"))[0] == "ls"
    assert named("intercode.agents.baselines:noop", "submit") == ["submit"]


UNKNOWN = ["golden", "gold:", ":x", "replay:x", "no_such_module:f", "intercode.agents:nothing", "intercode.agents:NAMES"]


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_agents_are_the_callers_fault(name: str) -> None:
    with pytest.raises(UsageError, match=r"agent|module|function") as error:
        make_agent(name, tasks=TASKS)
    assert name != "golden" or all(choice in str(error.value) for choice in NAMES)


def test_a_language_without_a_prompt_is_refused() -> None:
    with pytest.raises(UsageError, match="no prompt"):
        make_agent("try_again", tasks=TASKS, language="cobol")


def test_a_module_that_exits_is_no_module_of_an_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "leaving.py").write_text("import sys\nsys.exit()\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match="'leaving' cannot be imported: SystemExit"):
        make_agent("leaving:away", tasks=TASKS)
