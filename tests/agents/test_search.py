"""The searches, driven by hand: which line of play they submit, and what they may not see."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap

import intercode
from intercode.agents import Act, Ask, Close, Fork, Step, StrategySteps, make_agent, own_agent
from intercode.agents.search import Attempt, majority
from intercode.envs.bash.language import LANGUAGE as BASH
from intercode.errors import ForkError
from intercode.models import ScriptedModel
from intercode.runner.run import evaluate
from intercode.types import Reply, Task

TASK = Task("t", "make it so", "gold")


@pytest.mark.slow
def test_harm_that_failed_is_not_in_the_sandbox_that_is_submitted() -> None:
    needs_bwrap()
    factory = intercode.prepare("bash", max_turns=None)
    task = factory.tasks[0]
    replies = iter(["```\nrm -r /depot; false\n```", f"````\n{task.gold}\n````", "submit"])
    model = ScriptedModel(lambda messages: next(replies))
    agent = make_agent("tree_search", tasks=[task], language=BASH, turns=4)
    (episode,) = evaluate(factory, agent.strategy, model, tasks=[task])
    assert (episode.success, [turn.action for turn in episode.line]) == (
        True,
        [task.gold, "submit"],
    )


class World:
    """Answers a strategy by hand: an action whose text holds `bad` fails; remembers what was done
    on each branch."""

    def __init__(self, *replies: str, forks: bool = True) -> None:
        self.replies, self.forks = list(replies), forks
        self.states: dict[int, list[str]] = {0: []}
        self.asks: list[Ask] = []
        self.submitted: list[str] | None = None
        self.submission = ""

    def drive(self, moves: StrategySteps) -> World:
        try:
            move = next(moves)
            while self.submitted is None:
                answer = self.answer(move)
                if self.submitted is None:
                    move = (
                        moves.throw(answer) if isinstance(answer, ForkError) else moves.send(answer)
                    )
        except StopIteration:
            pass
        moves.close()
        return self

    def answer(self, move: object) -> object:
        match move:
            case Ask():
                self.asks.append(move)
                return Reply(self.replies.pop(0))
            case Fork(of):
                if not self.forks:
                    return ForkError("no copies here")
                branch = max(self.states) + 1
                self.states[branch] = list(self.states[of])
                return branch
            case Close(branch):
                del self.states[branch]
                return None
            case Act(action, note=note, env=on):
                return self.act(action, note, on)
        raise AssertionError(move)

    def act(self, action: str | None, note: str | None, on: int) -> Step:
        if action and action.split()[0] == "submit":
            self.submitted, self.submission = self.states[on], action
            return Step("", terminated=True)
        self.states[on].append(str(action))
        return Step(note or f"saw {action}", info={"exit_code": int("bad" in str(action))})


def search(*replies: str, turns: int = 9, forks: bool = True) -> World:
    agent = make_agent("tree_search", tasks=[TASK], language=BASH, turns=turns)
    return World(*replies, forks=forks).drive(agent.strategy(TASK, "submit"))


LINES_OF_PLAY: dict[str, tuple[list[str], list[str]]] = {
    "goes on from what did not fail": (["a", "b", "submit"], ["a", "b"]),
    "takes back what failed": (["a", "bad 1", "bad 2", "b", "submit"], ["a", "b"]),
    "goes on after three failed tries": (
        ["bad 1", "bad 2", "bad 3", "mend", "submit"],
        ["bad 3", "mend"],
    ),
    "undoes what did not fail": (["a", "wrong", "undo", "b", "submit"], ["a", "b"]),
    "gives up what came of what it undoes": (["a", "bad 1", "undo", "b", "submit"], ["b"]),
    "spends no copy on a reply without code": (["I wonder.", "a", "submit"], ["None", "a"]),
    "cannot undo the beginning": (["undo", "undo", "undo", "a", "submit"], ["a"]),
}


@pytest.mark.parametrize("case", LINES_OF_PLAY)
def test_the_search_submits_its_best_line(case: str) -> None:
    replies, submitted = LINES_OF_PLAY[case]
    world = search(*replies)
    assert world.submitted == submitted
    assert all("gold" not in str(ask.messages) for ask in world.asks)


def test_what_failed_or_was_undone_is_told() -> None:
    told = search("a", "bad 1", "bad 2", "b", "submit").asks[3].messages[-1]["content"]
    assert "bad 1\nsaw bad 1\n[exit code 1]" in told
    assert "bad 2" in told
    assert (
        "wrong\nsaw wrong\n[undone]"
        in search("a", "wrong", "undo", "b", "submit").asks[3].messages[-1]["content"]
    )
    assert "nothing to undo" in search("undo", "a", "submit").asks[1].messages[-1]["content"]


def test_where_no_copy_can_be_had_it_is_one_line_of_play() -> None:
    assert search("a", "bad", "undo", "b", "submit", forks=False).submitted == ["a", "bad", "b"]


def test_with_its_questions_used_up_the_best_line_is_submitted() -> None:
    world = search("a", "b", "bad", turns=3)
    assert (world.submitted, len(world.asks)) == (["a", "b"], 3)


def best_of(*replies: str, turns: int, n: int = 3, task: Task = TASK) -> World:
    agent = make_agent(f"best_of:{n}", tasks=[task], language=BASH, turns=turns)
    return World(*replies).drive(agent.strategy(task, "submit"))


def test_the_answer_that_most_lines_have_is_submitted() -> None:
    assert best_of("odd", "even", "even", turns=3).submitted == ["even"]
    assert best_of("a", "even", "odd", "submit", "b", "even", turns=6).submitted == ["a", "even"]
    assert best_of("a", "submit now", "b", turns=3, n=1).submitted == ["a"]
    prose = "I am sorry, but I do not know what to do with that."
    lines = ("even", prose, "odd", prose, "even", "submit")
    assert best_of(*lines, turns=6).submitted == ["even"], "a note on a reply is no answer"
    x, y = ("submit", "x"), ("submit", "y")
    lines = [
        Attempt(1, "submit", x, failures=1),
        *(Attempt(n, "submit", vote) for n, vote in ((2, y), (3, x), (4, y))),
    ]
    assert majority(lines).branch == 2, (
        "of equal answers, the line with the fewest failures, then the first"
    )


def test_an_answer_that_is_submitted_counts_like_one_that_was_printed() -> None:
    taking = replace(TASK, extra={"takes_answer": True})
    assert (
        best_of("submit odd", "submit 'saw even'", "even", turns=3, task=taking).submission
        == "submit 'saw even'"
    )
    assert best_of("submit odd", "even", "submit 'saw even'", turns=3, task=taking).submitted == [
        "even"
    ]
    assert best_of("a", "submit $(b)", turns=2, n=1, task=taking).submission == "submit"


def test_each_line_is_another_draw_of_the_same_question_and_lines_share_the_turns() -> None:
    world = best_of("a", "b", "c", turns=3)
    assert [ask.draw for ask in world.asks] == [0, 1, 2]
    assert len({str(ask.messages) for ask in world.asks}) == 1
    assert len(best_of(*["a"] * 9, turns=7).asks) == 6


def test_the_strategies_of_the_docs_work() -> None:
    text = (Path(__file__).parents[2] / "docs" / "agents.md").read_text("utf-8")
    docs: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, docs)

    def flow(name: str) -> StrategySteps:
        return own_agent(name, docs[name], language=BASH, turns=2).strategy(TASK, "submit")

    world = World("```bash\nls\n```", "```bash\npwd\n```").drive(flow("twice"))
    assert world.submitted == ["ls", "pwd"]
    world = World("```bash\nls\n```", "```bash\npwd\n```").drive(flow("reminded"))
    assert world.submitted == ["ls", "pwd"]
    assert str(world.asks[1].messages[-1]["content"]).endswith("with your last action.")
    World("```bash\nls\n```").drive(flow("learner"))
    world = World("```bash\npwd\n```").drive(flow("learner"))
    assert world.asks[0].messages[0]["content"] == "make it so\nls\nmake it so"
    assert World().drive(docs["careful"](TASK, "submit")).submitted == ["gold"]
    assert World().drive(docs["careful"](Task("t", "q", "bad"), "submit")).submitted == []
