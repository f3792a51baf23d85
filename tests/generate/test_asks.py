"""Generated tasks whose queries leave out clauses: each can be asked for, and a guess fails."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from kept import needs_bwrap

import intercode.generate
from intercode.agents import asker, gold, guesser, noop
from intercode.envs import prepare
from intercode.errors import UsageError
from intercode.generate import FAMILIES, generate
from intercode.generate.families import FEWEST_VALUES
from intercode.runner.run import evaluate
from intercode.types import Task
from intercode.user import facet_issues

N = 10
ENTRIES = tomllib.loads((Path(intercode.generate.__file__).parent / "asks.toml").read_text("utf-8"))


@pytest.mark.parametrize("name", ENTRIES)
def test_each_omission_is_of_a_choice_that_is_hard_to_guess(name: str) -> None:
    questions = {question.kind: question for question in FAMILIES[name].questions}
    used = {
        (kind, omission.choice)
        for kind, question in questions.items()
        for omission in FAMILIES[name].omissions(question)
    }
    assert all(len(questions[kind].choices[choice]) >= FEWEST_VALUES for kind, choice in used)
    for entry in ENTRIES[name]:
        choice, kinds = entry["choice"], entry.get("kinds", questions)
        assert any((kind, choice) in used for kind in kinds), choice
        assert f"<{choice}>" in entry["reply"]
        assert any(f"<{choice}>" in text for kind in kinds for text in questions[kind].query)
        facet = {"name": choice, "asks": entry["asks"], "reply": "x"}
        assert facet_issues(Task("a", "q", "g", {"facets": [facet]})) == []


@pytest.mark.slow
@pytest.mark.parametrize(("name", "asks"), [("sql-shop", 2), ("bash-logs", 1)])
def test_asking_solves_what_a_guess_does_not(tmp_path: Path, name: str, asks: int) -> None:
    needs_bwrap()
    generate(name, n=N, seed=4, asks=asks, out=tmp_path / "data")
    factory = prepare(FAMILIES[name].env, data=str(tmp_path / "data"))
    assert {len(task.extra["facets"]) for task in factory.tasks} == {asks}
    solved = {
        agent.__name__: sum(
            episode.success for episode in evaluate(factory, agent, tasks=factory.tasks)
        )
        for agent in (gold, asker, guesser, noop)
    }
    assert (solved["gold"], solved["asker"], solved["noop"]) == (N, N, 0)
    assert solved["guesser"] < N  # so few tasks often have their kind's only value
    for task in factory.tasks:
        assert facet_issues(task) == []
        right = [facet["reply"].lower() for facet in task.extra["facets"]]
        assert not any(reply in task.query.lower() for reply in right)


def test_a_family_without_omissions_says_which_have_some(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot leave out 1 clauses; those of .*sql-shop"):
        generate("bash-repair", n=10, seed=1, asks=1, out=tmp_path / "data")
