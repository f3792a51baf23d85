"""Every agent on the starter tasks of every environment, with a model that behaves and with models
that do not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing

import pytest
from kept import needs_bwrap

import intercode
from intercode.agents import MODELLED, Strategy, make_agent
from intercode.envs import language_of
from intercode.factory import EnvFactory
from intercode.models import ScriptedModel
from intercode.runner.budget import BudgetTracker, RunLimits
from intercode.runner.episode import play
from intercode.runner.run import evaluate
from intercode.types import Message, Reply, Task, ToolCall

pytestmark = [pytest.mark.slow, pytest.mark.long]
NAMES = [name.partition(":")[0] for name in MODELLED]
TURNS = 3
COUNTS = [1, pytest.param(None, marks=pytest.mark.soak)]
"""So many tasks are played; all of them by `make soak`, since that takes minutes."""


@pytest.fixture(scope="module", params=["bash", "sql", "python", "ctf"])
def world(request: pytest.FixtureRequest) -> tuple[str, EnvFactory]:
    needs_bwrap()
    return request.param, intercode.prepare(request.param, max_turns=None)


def seated(world: tuple[str, EnvFactory], name: str) -> tuple[Strategy, BudgetTracker]:
    turns = TURNS * 2 if name == "best_of" else TURNS
    return make_agent(
        name, tasks=world[1].tasks, turns=turns, language=language_of({"env": world[0]})
    ).strategy, BudgetTracker(RunLimits(turns))


def behaving(name: str, tasks: Sequence[Task]) -> ScriptedModel:
    """Plans if it is asked to, acts the gold, and submits, in the form that the agent wants."""
    form = {"react": in_react, "tools": in_calls}.get(name, in_fences)

    def answer(messages: Sequence[Message]) -> str | Reply:
        asked, last = messages[1]["content"], messages[-1]["content"]
        task = max(
            (task for task in tasks if asked.startswith(task.query)),
            key=lambda task: len(task.query),
        )
        if "numbered list" in last:
            return "1. Do it.\n2. Submit."
        acted = [
            told
            for told in messages[2:]
            if told["role"] in ("user", "tool") and " left]" in told["content"]
        ]
        return form(submission(task, acted[-1]["content"]) if acted or is_flag(task) else task.gold)

    return ScriptedModel(answer)


def is_flag(task: Task) -> bool:
    return task.extra.get("gold_is") == "flag"


def submission(task: Task, seen: str) -> str:
    word = task.extra.get("submit", "")
    if "gold_is" in task.extra:
        word = (
            task.gold
            if is_flag(task)
            else seen.split("\n[")[0].strip().rpartition("\n")[2].removeprefix("Observation: ")
        )
    return f"submit {word}".strip()


def in_fences(action: str) -> str:
    return f"So:\n`````\n{action}\n`````"


def in_react(action: str) -> str:
    return (
        f"Thought: So.\nAction: {action if action.startswith('submit') else f'execute[{action}]'}"
    )


def in_calls(action: str) -> Reply:
    name, _, word = action.partition(" ")
    if name == "submit":
        return Reply("", calls=(ToolCall("1", "submit", json.dumps({"answer": word})),))
    return Reply("So.", calls=(ToolCall("1", "execute", json.dumps({"code": action})),))


@pytest.mark.parametrize("count", COUNTS)
def test_a_model_that_behaves_solves_the_tasks_with_every_agent(
    world: tuple[str, EnvFactory], count: int | None
) -> None:
    tasks = world[1].tasks[:count]
    for name in NAMES:
        strategy, tracker = seated(world, name)
        episodes = evaluate(
            world[1],
            strategy,
            behaving(name, world[1].tasks),
            tasks=tasks,
            workers=2,
            tracker=tracker,
        )
        assert [
            (one.task, one.error, one.turns[-1].observation) for one in episodes if not one.success
        ] == [], name
        assert len(episodes) == len(tasks)


def calls(*pairs: tuple[str, str]) -> Reply:
    return Reply("hm", calls=tuple(ToolCall("", *pair) for pair in pairs))


WILD: dict[str, str | Reply] = {
    "says nothing": "",
    "raves": "\x1b[31m\udcff \ufffd ]]>> %%% execute[",
    "opens fences for ever": "```bash\n" * 30,
    "submits at once": "submit",
    "undoes for ever": "undo",
    "thinks for ever": "<think>" + "and then " * 3000,
    "plans without end": "\n".join(f"{n}. step" for n in range(500)),
    "calls with broken JSON": calls(
        ("execute", '{"code": "ls'), ("execute", "["), ("execute", "7"), ("execute", "")
    ),
    "calls what is not there": calls(
        ("rm", "{}"), ("", '{"code": 3}'), ("execute", '{"code": {"a": 1}}')
    ),
    "calls with NUL": calls(
        ("execute", '{"code": "a\\u0000"}'), ("submit", '{"answer": "\\u0000"}')
    ),
}


def wild_for(name: str) -> dict[str, object]:
    """All texts for agents that read texts, all calls for the one that reads calls, and one of the
    other kind."""
    others = "says nothing" if name == "tools" else "calls with broken JSON"
    return {
        wild: reply
        for wild, reply in WILD.items()
        if wild == others or isinstance(reply, Reply) == (name == "tools")
    }


def test_a_model_that_does_not_behave_earns_nothing_and_breaks_nothing(
    world: tuple[str, EnvFactory],
) -> None:
    """Every agent in bash; in the others one that reads texts and the one that reads calls."""
    agents = NAMES if world[0] == "bash" else ("react", "tools")
    with closing(world[1]()) as env:
        for name, (wild, reply) in (
            (agent, wild) for agent in agents for wild in wild_for(agent).items()
        ):
            strategy, tracker = seated(world, name)
            episode = play(
                env,
                world[1].tasks[0],
                strategy,
                ScriptedModel(lambda messages, reply=reply: reply),
                tracker,
            )
            assert (episode.reward, episode.ended in ("submit", "turns")) == (0.0, True), (
                name,
                wild,
            )
            assert sum(turn.acted for turn in episode.turns) <= 2 * TURNS + 1, (name, wild)
            assert sum(turn.ask is not None for turn in episode.turns) <= 2 * TURNS + 1, (
                name,
                wild,
            )
