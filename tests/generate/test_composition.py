"""Composed tasks: typed, deterministic, split, and not solved by a mistake at one step."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from intercode.agents import noop
from intercode.agents.baselines import gold
from intercode.envs import prepare
from intercode.generate import accepts
from intercode.generate.composed.python import Python
from intercode.generate.composition import (
    Chain,
    Language,
    compose,
    draw_walk,
    instruct,
    is_held_out,
)
from intercode.generate.families import Draw, Parameters, Place, Question, Split
from intercode.generate.generation import write_files
from intercode.generate.judges import results, write_tests
from intercode.runner.run import evaluate

pytestmark = pytest.mark.slow

N = 10
Composed = tuple[Place, Question]


@pytest.fixture(scope="module")
def language() -> Language:
    return Python()


def composed(language: Language, count: int, seed: str, split: Split = "train") -> list[Composed]:
    draw, tasks = Draw(seed, split), list[Composed]()
    for number in range(count * 10):
        task = compose(draw, f"orion-{number}", 3, language)
        if not isinstance(task, str):
            tasks.append(task)
        if len(tasks) == count:
            break
    return tasks


def written(env: str, tasks: list[Composed], folder: Path) -> Path:
    records = list[Mapping[str, object]]()
    for place, question in tasks:
        write_files(folder, place)
        record: dict[str, object] = {"query": question.query[0], "gold": question.gold}
        if env == "sql":
            record["db"] = place.facts["db"]
        if env == "python":
            tests = write_tests(question.gold, place.data["inputs"])
            record |= {"tests": tests[:3], "hidden": tests[3:]}
        records.append(record)
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "tasks.jsonl").write_text(lines)
    return folder


def test_each_step_takes_what_the_one_before_gives(language: Language) -> None:
    draw = Draw("walks", "test")
    for steps in range(2, 9):
        walk = draw_walk(draw, language.primitives, steps, language.begin)
        assert [one.takes for one in walk] == [language.begin, *(one.gives for one in walk[:-1])]


def test_equal_seeds_compose_equal_tasks(language: Language) -> None:
    first, second = (composed(language, 2, "twice") for _ in range(2))
    assert [question.gold for _, question in first] == [question.gold for _, question in second]
    assert [place.contents() for place, _ in first] == [place.contents() for place, _ in second]


def test_what_is_held_out_occurs_in_the_test_split_only(language: Language) -> None:
    walks = dict[Split, list[bool]]()
    for split in ("train", "test"):
        draw = Draw("held out", split)
        walks[split] = [
            is_held_out(draw_walk(draw, language.primitives, 3, language.begin)) for _ in range(200)
        ]
    assert not any(walks["train"])
    assert 60 < sum(walks["test"]) < 140
    held_out = [one for one in language.primitives if one.held_out]
    assert 0.1 < len(held_out) / len(language.primitives) < 0.3


def test_golds_solve_the_tasks_and_mistakes_and_nothing_do_not(
    language: Language, tmp_path: Path
) -> None:
    tasks = composed(language, N, "sound")
    factory = prepare(language.env, data=str(written(language.env, tasks, tmp_path)))
    assert all(one.success for one in evaluate(factory, gold, tasks=factory.tasks, workers=2))
    assert not any(one.success for one in evaluate(factory, noop, tasks=factory.tasks, workers=2))
    with closing(factory()) as env:
        for task, (_, question) in zip(factory.tasks, tasks, strict=True):
            assert len(question.wrong) >= 2
            assert not any(accepts(env, task, mistake) for mistake in question.wrong)


def test_no_step_can_be_left_out() -> None:
    chains = dict[str, Chain]()

    class Recorded(Python):
        def gold(self, place: Place, chain: Chain) -> str:
            gold = super().gold(place, chain)
            chains[gold] = chain
            return gold

    language = Recorded()
    for place, question in composed(language, N, "steps"):
        inputs, chain = place.data["inputs"], chains[question.gold]
        right = results(question.gold, inputs)
        for number in range(len(chain)):
            shorter = language.gold(place, chain[:number] + chain[number + 1 :])
            assert results(shorter, inputs) != right


def test_instructions_have_no_placeholders_left(language: Language) -> None:
    draw = Draw("texts", "train")
    for place, question in composed(language, 3, "texts"):
        assert not [path for path in place.files if "<" in path]
        assert "<" not in question.query[0]
        assert question.kind.count("+") + 1 == question.difficulty == 3
    plain = [one for one in language.primitives if not one.material and "<" not in one.gold]
    assert all("<" not in instruct(draw, one, {}).task for one in plain)


def test_python_golds_do_not_change_their_argument() -> None:
    for place, question in composed(Python(), N, "argument"):
        scope: Parameters = {}
        exec(question.gold, scope)
        for (records,) in place.data["inputs"]:
            copied = copy.deepcopy(records)
            scope[place.facts["function"]](records)
            assert records == copied
