"""A user who answers questions about what a task leaves open, documents to look up, and a second
phase."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap

import intercode
from intercode.agents import asker, gold, guesser, noop
from intercode.agents.code import split_reply
from intercode.envs.shell import SHELL
from intercode.errors import DataError, UsageError
from intercode.runner.run import evaluate
from intercode.runs.store import from_json, to_json
from intercode.tasks import load_tasks
from intercode.types import Task
from intercode.user import NO_BUDGET, SILENT, facet_asked, facet_issues, facets_of
from intercode.validate.check import check

LARGE = {
    "name": "large",
    "asks": ["large", "big file", "size threshold"],
    "reply": "A file of 2048 bytes or more is large.",
    "cost": 2,
}
SORT = {"name": "order", "asks": ["sort", "which order"], "reply": "Sort by name."}
TASK = {
    "id": "count",
    "query": "Write the number of large files in /data.",
    "gold": "find /data -size +2047c | wc -l",
    "unclarified": "find /data -size +1023c | wc -l",
    "facets": [LARGE, SORT],
}
SETUP = "for n in 500 1500 2500 3500; do head -c $n /dev/zero > /data/$n; done"
Make = Callable[..., Any]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    needs_bwrap()
    with ExitStack() as stack:

        def build(*tasks: dict[str, Any], **options: Any) -> Any:
            (tmp_path / "setup.sh").write_text(f"mkdir /data; {SETUP}\n")
            file = tmp_path / "tasks.jsonl"
            file.write_text("".join(json.dumps(task) + "\n" for task in tasks))
            env = intercode.make(
                "bash", data=str(file), setup=str(tmp_path / "setup.sh"), **options
            )
            stack.callback(env.close)
            env.reset(options={"task": 0})
            return env

        yield build


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("What size do you call large?", "large"),
        ("Is a big file over 1 MB?", "large"),
        ("What are the thresholds of sizes?", "large"),
        ("How shall I sort the large ones, and in which order?", "order"),
        ("Should I sort large ones?", None),  # a draw
        ("What is unclear?", None),
        ("Should I include any file that is large, or all of them?", "large"),
        ("Tell me everything.", None),
        ("large, sort, name, size, path, folder, depth", None),
        (f"large {'or ' * 140}", None),
    ],
)
def test_a_question_gets_the_facet_of_which_it_has_most_words(
    question: str, name: str | None
) -> None:
    facet = facet_asked(facets_of(TASK), question)
    assert (facet and facet.name) == name


def test_a_question_is_a_turn_that_executes_nothing(make: Make) -> None:
    env = make(TASK)
    assert env.takes_questions
    env.step("cd /data")
    observation, reward, *ended, info = env.step("ask How many bytes has a large file?")
    assert (observation, reward, ended) == (LARGE["reply"], 0.0, [False, False])
    assert (info["asked"], info["exit_code"], env.turn) == ("large", None, 2)
    observation, *_, info = env.step('ask "Which colour?"')
    assert (observation, info["asked"]) == (SILENT, "")
    observation = env.step("ls | head -1; ask large")[0]
    assert observation.startswith("1500\n")
    assert "`ask QUESTION` must be an action of its own; nothing was asked" in observation
    env.step(TASK["gold"])
    env.step("ask thanks, and in which order?")
    assert env.step("submit")[4]["score"].success  # the answer is still the last output


def test_the_budget_pays_for_questions(make: Make) -> None:
    env = make({**TASK, "ask_budget": 3})
    assert env.step("ask large?")[0] == f"{LARGE['reply']}\n[1 of the budget left]"
    assert env.step("ask big file?")[0] == f"{NO_BUDGET}\n[1 of the budget left]"
    fork = env.fork()
    assert fork.step("ask sort?")[0] == f"{SORT['reply']}\n[0 of the budget left]"
    fork.close()
    again = env.fork(replay=True)
    assert again.step("ask sort?")[4]["asked"] == "order"
    again.close()


def test_without_facets_and_under_the_papers_protocol_ask_is_code(make: Make) -> None:
    plain = make({"id": "a", "query": "Print 1.", "gold": "echo 1"})
    assert plain.step("ask large?")[4]["exit_code"] == 127
    assert make(TASK, protocol="paper").step("ask large?")[4]["exit_code"] == 127


def test_a_user_of_ones_own_answers_instead(make: Make) -> None:
    def user(task: Task, asked: Sequence[tuple[str, str]], question: str) -> str:
        return f"{task.id}, {len(asked)}: {question.upper()}"

    env = make(TASK, user=user)
    assert [env.step(f"ask {word}")[0] for word in ("a b", "c")] == ["count, 0: A B", "count, 1: C"]
    assert env.step("ask d")[4]["asked"] == "--user"
    with pytest.raises(UsageError, match="instead of str"):
        make(TASK, user=lambda task, asked, question: 5).step("ask a")


def test_agents_without_a_model_and_check(make: Make) -> None:
    env = make(TASK)
    success = {}
    for agent in (gold, asker, guesser, noop):
        (episode,) = evaluate(lambda: make(TASK), agent, tasks=env.tasks)
        success[agent.__name__] = episode.success
        assert from_json(json.loads(json.dumps(to_json(episode)))) == episode
        if agent is asker:
            assert [turn.asked for turn in episode.turns] == ["large", "order", None, None]
    assert success == {"gold": True, "asker": True, "guesser": False, "noop": False}
    found = check(lambda: make(TASK), env.tasks)
    assert found["solved_without_asking"] == {"tasks": [], "of": 1}
    assert not found["broken"]


def test_check_finds_facets_that_cannot_be_asked_for_or_tell_the_gold() -> None:
    twin = {**SORT, "name": "twin"}
    tells = {"asks": ["command"], "reply": f"Run  {TASK['gold']} now."}
    extra = {"facets": [SORT, twin, tells]}
    kinds = [issue.kind for issue in facet_issues(Task("a", "q", TASK["gold"], extra))]
    assert kinds == ["facet_unreached", "facet_unreached", "facet_tells"]


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("facets", {"a": 1}, "'facets' is not a list"),
        ("facets", ["a"], "facet 1 is not an object"),
        ("facets", [LARGE, {"asks": ["a"]}], "facet 2 has no text in 'reply'"),
        ("facets", [{"asks": "large", "reply": "a"}], "'asks' is not a list of words"),
        ("facets", [{"asks": ["?"], "reply": "a"}], "'asks' is not a list of words"),
        ("facets", [{**LARGE, "cost": -1}], "'cost' is not a number"),
        ("ask_budget", "3", "'ask_budget' is not a number"),
        ("lookups", {"a b": 1}, "'lookups' is not an object of words"),
    ],
)
def test_a_malformed_record_is_named(tmp_path: Path, field: str, value: Any, why: str) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text(json.dumps({**TASK, field: value}) + "\n")
    with pytest.raises(DataError, match=why) as raised:
        load_tasks(file)
    assert "tasks.jsonl" in str(raised.value)


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("ask Which files are large?", "ask Which files are large?"),
        ("I must know more.\n\nask: Which files?\n", "ask Which files?"),
        ("Thought: hm\nAction: ask[Which files?]", "ask Which files?"),
        ("Thought: hm\nAction: execute[ask Which files?]", "ask Which files?"),
        ("```bash\nask Which files?\n```", "ask Which files?"),
        ("```bash\nls\n```\nask Which files?", "ls"),
        ("Ask yourself: what is large?\n```bash\nls\n```", "ls"),
        ("cat > /f <<'E'\nask me\nE", "cat > /f <<'E'\nask me\nE"),
        ("ask = 3", "ask = 3"),
        ("submit\nask what?", "submit\nask what?"),
        ("I ask myself which files are large.\n```bash\nls\n```", "ls"),
        ("<think>ask what?</think>\n```bash\nls\n```", "ls"),
        ('<tool_call>{"name": "ask", "arguments": {"question": "Q?"}}</tool_call>', "ask Q?"),
        ("`ask Which files?`", "ask Which files?"),
    ],
)  # fmt: skip
def test_models_ask_in_many_forms(reply: str, action: str) -> None:
    assert split_reply(reply, SHELL, takes_questions=True)[0] == action
