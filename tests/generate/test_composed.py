"""Composed tasks: every step is needed, in its order, and no mistake passes."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest

from intercode.agents import noop
from intercode.agents.baselines import gold
from intercode.envs import prepare
from intercode.generate import composed
from intercode.generate.composed import STEPS, Runs, Stated, Step, compose, draw_place
from intercode.generate.draws import Draw, Split
from intercode.generate.families import Place, Question
from intercode.generate.generation import write_files
from intercode.runner.run import evaluate

LENGTHS = (2, 3, 5, 8)
Composed = tuple[Place, Question]


def tasks(seed: str, lengths: Sequence[int], split: Split = "train") -> list[Composed]:
    """Return one task of each length."""
    drawn = list[Composed]()
    for number, length in enumerate(lengths):
        draw = Draw(f"{seed} {number}", split)
        while True:
            place = draw_place(draw, f"orion-{number}")
            question = compose(draw, place, length)
            if not isinstance(question, str):
                break
        drawn.append((place, question))
    return drawn


def passes(solution: str, tests: Sequence[str]) -> bool:
    """Tell whether a solution passes tests, executed as they are."""
    scope: dict[str, Any] = {}
    try:
        for code in (solution, *tests):
            exec(code, scope)
    except Exception:
        return False
    return True


def test_golds_pass_their_tests_and_mistakes_fail_hidden_ones() -> None:
    for _, question in tasks("mistakes", LENGTHS):
        assert passes(question.gold, [*question.extra["tests"], *question.extra["hidden"]])
        assert len(question.wrong) > 2 * question.difficulty
        for mistake in question.wrong:
            assert not passes(mistake, question.extra["hidden"]), (question.gold, mistake)


def test_no_steps_can_be_left_out_and_their_order_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    stated = dict[str, Sequence[Stated]]()
    ask = composed.question

    def recorded(draw: Draw, steps: Sequence[Stated], *rest: Any) -> Question | str:
        question = ask(draw, steps, *rest)
        if isinstance(question, Question):
            stated[question.gold] = steps
        return question

    monkeypatch.setattr(composed, "question", recorded)
    for place, question in tasks("needed", LENGTHS):
        steps, items = stated[question.gold], place.facts["items"]
        name = question.gold.partition("def ")[2].partition("(")[0]
        hidden = question.extra["hidden"]
        assert passes(composed.source(name, items, [one.code for one in steps]), hidden)
        harmless = [one for one in steps if one.step.is_optional()]
        for missing in (*combinations(steps, 1), *combinations(steps, 2), harmless):
            rest = [one.code for one in steps if one not in missing]
            assert not missing or not passes(composed.source(name, items, rest), hidden)
        for number, (one, after) in enumerate(pairwise(steps)):
            codes = [other.code for other in steps]
            codes[number : number + 2] = after.code, one.code
            free = after.step.name in one.step.swaps or one.step.name in after.step.swaps
            assert passes(composed.source(name, items, codes), hidden) is free


def fault(*steps: Step) -> str:
    """Return the fault of a function with these steps."""
    draw = Draw("planted", "train")
    place = draw_place(draw, "orion")
    lists = [composed.draw_records(draw, place, 20) for _ in range(composed.DRAWN)]
    stated, values = list[Stated](), place.facts
    for step in steps:
        one, later = composed.state(draw, step, {**values, **composed.parameters(draw, place, [])})
        stated.append(one)
        values = {**values, **later}
    return composed.fault(Runs(place.facts["items"], lists), stated)


LATE = 'rows = [row for row in $in if row["<did>_on"] > "2000"]'
ODD = 'rows = [row for row in $in if row["<amount>"] % 2]'
EVERY_SECOND = "rows = $in[::2]"


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([Step("odd", ["Odd."], ODD)], ""),
        ([Step("odd", ["Odd."], ODD), Step("late", ["Late."], LATE)], "passes too: no late"),
        ([Step("odd", ["Odd."], ODD, wrong=[f"{ODD}[:]"])], "passes too: another odd"),
        (
            [Step("odd", ["Odd."], ODD), Step("even", ["Even."], "rows = $in[1:0]")],
            "nothing is left",
        ),
        ([Step("odd", ["Odd."], ODD), Step("second", ["Second."], EVERY_SECOND)], ""),
        (
            [Step("odd", ["Odd."], ODD), Step("low", ["Low."], ODD.replace("% 2", "< 120"))],
            "passes too: low before odd",
        ),
        (
            [
                Step("odd", ["Odd."], ODD, swaps=["low"]),
                Step("low", ["Low."], ODD.replace("% 2", "< 120")),
            ],
            "",
        ),
    ],
)
def test_a_draft_with_a_planted_fault_is_refused(steps: list[Step], message: str) -> None:
    assert message in fault(*steps)
    assert bool(message) is bool(fault(*steps))


def test_what_is_held_out_occurs_in_the_test_split_only() -> None:
    drawn = {split: tasks("held out", [3] * 30, split) for split in ("train", "test")}
    assert not any(question.held_out for _, question in drawn["train"])
    assert 5 < sum(question.held_out for _, question in drawn["test"]) < 25
    held_out = {step.name for step in STEPS if step.held_out}
    assert len(STEPS) / 6 < len(held_out) < len(STEPS) / 3
    for _, question in drawn["train"]:
        assert held_out.isdisjoint(question.kind.split("+"))
    pairs = [composed.is_held_out(pair) for pair in combinations(STEPS, 2)]
    alone = [any(step.held_out for step in pair) for pair in combinations(STEPS, 2)]
    assert 0.1 < (sum(pairs) - sum(alone)) / alone.count(False) < 0.3


def test_equal_seeds_compose_equal_tasks_in_any_process() -> None:
    code = (
        "from intercode.generate.composed import compose, draw_place\n"
        "from intercode.generate.draws import Draw\n"
        "draw = Draw('twice', 'test')\n"
        "place = draw_place(draw, 'orion')\n"
        "print(place.files, [compose(draw, place, 4) for _ in range(5)])\n"
    )
    outputs = []
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        outputs.append(subprocess.check_output([sys.executable, "-c", code], env=env))
    assert outputs[0] == outputs[1]
    assert b"Question(" in outputs[0]


def test_a_query_states_every_step_and_has_no_placeholder_left() -> None:
    for place, question in tasks("texts", [2, 4, 5, 8], "test"):
        (query,) = question.query
        assert not re.search(r"<\w+>", query + question.gold)
        assert query.count("Return ") == 1
        assert place.facts["sample"] in query
        assert question.kind.count("+") + 1 == question.difficulty
        numbers = re.findall(r"^(\d+)\. [A-Z].*\.$", query, re.MULTILINE)
        if question.difficulty > composed.LONGEST_PROSE:
            assert [*map(int, numbers)] == [*range(1, question.difficulty + 1)]
        else:
            assert "\n" not in query
            assert query.count(". ") > question.difficulty


def test_golds_do_not_change_their_argument() -> None:
    for place, question in tasks("argument", LENGTHS):
        scope: dict[str, Any] = {}
        exec(question.gold, scope)
        (text,) = place.files.values()
        records = json.loads(text)
        before = copy.deepcopy(records)
        scope[question.gold.partition("def ")[2].partition("(")[0]](records)
        assert records == before


@pytest.mark.slow
def test_the_environment_pays_golds_and_not_doing_nothing(tmp_path: Path) -> None:
    lines = ""
    for place, question in tasks("played", LENGTHS):
        write_files(tmp_path, place)
        record = {"query": question.query[0], "gold": question.gold, **question.extra}
        lines += json.dumps(record) + "\n"
    (tmp_path / "tasks.jsonl").write_text(lines)
    factory = prepare("python", data=str(tmp_path))
    assert all(one.success for one in evaluate(factory, gold, tasks=factory.tasks, workers=2))
    assert not any(one.success for one in evaluate(factory, noop, tasks=factory.tasks, workers=2))
