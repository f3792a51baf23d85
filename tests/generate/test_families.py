"""The families of generated tasks: sound, deterministic, split, and not to be solved by one
answer."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections import Counter
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import pytest
from kept import needs_bwrap

from intercode.agents import retrieval
from intercode.envs import prepare
from intercode.envs.bash.compare import bash_exact
from intercode.errors import UsageError
from intercode.generate import FAMILIES, generate
from intercode.generate.drafts import Wanted, draft
from intercode.generate.families import FORMS, Draw, Split
from intercode.generate.python import inputs_of
from intercode.runner.run import evaluate, select
from intercode.validate.check import check

pytestmark = pytest.mark.slow

N = 30
"""The number of tasks of each family."""


FIRST_OF = {FAMILIES[name].env: name for name in reversed(FAMILIES)}
ASKING = [name for name, family in FAMILIES.items() if family.questions]
"""The families that have questions."""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=pytest.mark.journey if name in FIRST_OF.values() else ())
        for name in FAMILIES
    ],
)
def family(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """The name of a family, and a folder with tasks of it."""
    needs_bwrap()
    out = tmp_path_factory.mktemp("generated") / request.param
    made = generate(request.param, n=N, seed=4, out=out)
    assert made.splits == {"train": 24, "test": 6}
    assert 0.4 < statistics.mean(made.yields().values()) <= 1
    return request.param, out


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "tasks.jsonl").read_text().splitlines()]


def test_golds_succeed_and_doing_nothing_does_not(family: tuple[str, Path]) -> None:
    name, folder = family
    factory = prepare(FAMILIES[name].env, data=str(folder), max_turns=None)
    tasks = factory.tasks
    if factory.tasks[0].rounds or FAMILIES[name].env == "python":  # which take longest
        tasks = tasks[:8]
    found = check(factory, tasks, workers=2)
    assert (found["broken"], found["gold_ok"], found["noop_paid"]) == ([], len(tasks), 0)


def test_a_test_task_has_another_place_and_another_query_than_all_training_tasks(
    family: tuple[str, Path],
) -> None:
    name, folder = family
    places: dict[str, set[str]] = {"train": set(), "test": set()}
    for task in records(folder):
        places[task["split"]].add(task["place"])
        assert {"id", "query", "gold", "difficulty", "family", "kind"} <= task.keys()
        assert ("distance" in task) is (task["split"] == "test")
        assert ("hidden" in task and len(task["tests"]) == 3) is (FAMILIES[name].env == "python")
    assert places["train"].isdisjoint(places["test"])


def test_invented_words_beside_the_answer_do_not_pay(family: tuple[str, Path]) -> None:
    name, folder = family
    factory = prepare(FAMILIES[name].env, data=str(folder))
    with closing(factory()) as env:
        for task in factory.tasks if FAMILIES[name].env == "bash" else ():
            if task.rounds:
                continue
            (gold,) = env.run_gold(task).evidence  # type: ignore[misc]
            lines = gold.output.splitlines()
            word = "fig" if "file" in task.query else "file"  # words of the query may be there
            for wrong in (
                [f"41 {line}" for line in lines],
                [*lines, word],
                [f"{line} 12:30" for line in lines],
            ):
                said = replace(gold, output="".join(f"{line}\n" for line in wrong))
                assert not lines or not bash_exact(said, gold, task).success, (task.query, wrong)


@pytest.mark.parametrize("name", ASKING)
def test_all_levels_are_there_and_some_kinds_are_held_out(name: str) -> None:
    questions = FAMILIES[name].questions
    assert {question.difficulty for question in questions} == {1, 2, 3}
    assert len({question.kind for question in questions}) == len(questions)
    held_out = [question for question in questions if question.held_out]
    assert len(questions) / 8 <= len(held_out) <= len(questions) / 3
    for question in questions:
        assert len(set(question.query)) >= 3, question.kind
        assert question.form in FORMS
        assert len(question.choices) >= 1 or question.difficulty != 2, question.kind


def test_a_kind_that_is_held_out_is_in_the_test_split_alone(family: tuple[str, Path]) -> None:
    name, folder = family
    kinds: dict[str, set[str]] = {"train": set(), "test": set()}
    for task in records(folder):
        kinds[task["split"]].add(task["kind"])
        assert not task.get("held_out") or task["split"] == "test"
    held_out = {task["kind"] for task in records(folder) if task.get("held_out")}
    assert held_out or name not in ASKING
    assert held_out.isdisjoint(kinds["train"])


def test_a_task_of_difficulty_3_has_a_place_of_its_own_and_some_show_the_rule(
    family: tuple[str, Path],
) -> None:
    name, folder = family
    if FAMILIES[name].ask:
        return
    hard = [task for task in records(folder) if task["difficulty"] == 3]
    assert len({task["place"] for task in hard}) == len(hard)
    for task in records(folder):
        assert "rule_shown" not in task or (task["difficulty"] == 3 and "\n\n" in task["query"])


@pytest.mark.parametrize("name", ["python-text", "python-records", "python-parsing"])
def test_a_function_takes_the_examples_of_its_question(name: str) -> None:
    family = FAMILIES[name]
    for split in get_args(Split):
        for number in range(6):
            draw = Draw(f"{name} {number}", split, real=number % 2 == 0)
            place = family.place(draw, "one")
            for question in family.questions:
                parameters = draft(draw, family, place, Wanted(question), 0).parameters
                inputs = inputs_of(question, parameters)
                assert len(inputs.arguments) > 3
                refused = [each for each in inputs.arguments if not inputs.allows(*each)]
                assert not refused, question.kind


@pytest.mark.parametrize("name", ASKING)
def test_parameters_can_be_drawn_in_every_place(name: str) -> None:
    family = FAMILIES[name]
    for split in get_args(Split):
        draw = Draw(name, split)
        for place in (family.place(draw, site) for site in islice(draw.sites(), 40)):
            for _ in range(20):
                family.draw(draw, place)


def test_draws_of_the_splits_have_nothing_in_common() -> None:
    train, test = Draw("7", "train"), Draw("7", "test")
    assert {train.number(3, 50) for _ in range(500)}.isdisjoint(
        test.number(3, 50) for _ in range(500)
    )
    assert {train.word("abcdefghij") for _ in range(99)} == set("abcdefgh")
    assert {test.word("abcdefghij") for _ in range(99)} == set("ij")
    values = range(0, 1000, 7)
    assert {train.limit(values) for _ in range(500)}.isdisjoint(
        test.limit(values) for _ in range(500)
    )
    assert set(islice(train.sites(), 2000)).isdisjoint(islice(test.sites(), 900))


@pytest.mark.parametrize("name", ["bash-logs", "sql-shop"])
def test_the_same_seed_gives_the_same_bytes_in_any_process_with_any_number_of_workers(
    name: str, tmp_path: Path
) -> None:
    needs_bwrap()
    code = (
        "from intercode.generate import generate\n"
        "generate({!r}, n=10, seed={}, out={!r}, workers={})"
    )
    contents = []
    for seed, workers in ((4, 2), (4, 1), (2, 2)):
        out = tmp_path / f"{seed} {workers}"
        program = code.format(name, seed, str(out), workers)
        env = {**os.environ, "PYTHONHASHSEED": str(workers)}
        subprocess.run([sys.executable, "-c", program], env=env, check=True)
        files = [path for path in sorted(out.rglob("*")) if path.is_file()]
        contents.append({str(path.relative_to(out)): path.read_bytes() for path in files})
    assert contents[0] == contents[1] != contents[2]


@pytest.mark.parametrize("name", [pytest.param("bash-logs", marks=pytest.mark.soak), "sql-league"])
def test_no_answer_is_frequent_and_training_solutions_do_not_solve_the_test_split(
    name: str, tmp_path: Path
) -> None:
    needs_bwrap()
    generate(name, n=60, seed=5, out=tmp_path / "data")
    factory = prepare(FAMILIES[name].env, data=str(tmp_path / "data"))
    with closing(factory()) as env:
        answers = Counter(
            FAMILIES[name].answer(task.gold, env.run_gold(task)) for task in factory.tasks
        )
    assert max(answers.values()) <= 3  # 5 %
    train, test = (select(factory.tasks, split=split) for split in ("train", "test"))
    played = evaluate(factory, retrieval(train), tasks=test, workers=2)
    assert sum(episode.success for episode in played) <= 2


def test_a_menu_of_commands_with_the_path_of_the_query_solves_the_first_level_of_bash_files(
    tmp_path: Path,
) -> None:
    needs_bwrap()
    generate("bash-files", n=16, seed=5, out=tmp_path / "data", difficulty=[1])
    first = [task for task in records(tmp_path / "data") if task["family"] == "bash-files"]
    commands: dict[str, set[str]] = {}
    for task in first:
        assert task["path"] in task["query"]
        commands.setdefault(task["kind"], set()).add(task["gold"].replace(task["path"], "{path}"))
    assert len(commands) == 8
    assert all(len(each) == 1 for each in commands.values())


def test_what_cannot_be_generated_is_refused(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(UsageError, match="no family is named 'bash-poems'; there are bash-files, "):
        generate("bash-poems", n=20, seed=1, out=tmp_path / "new")
    with pytest.raises(UsageError, match="n is 9; a family needs at least 10"):
        generate("bash-files", n=9, seed=1, out=tmp_path / "new")
    with pytest.raises(UsageError, match="give a smaller n"):
        generate("bash-files", n=900_000, seed=1, out=tmp_path / "new")
    with pytest.raises(UsageError, match="full exists; name a new folder"):
        generate("bash-files", n=20, seed=1, out=tmp_path / "full")
    assert not (tmp_path / "new" / "card.json").exists()
