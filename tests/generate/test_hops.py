"""Questions of several look-ups: each look-up is needed, and golds find what memory says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap

from intercode.agents import noop
from intercode.agents.baselines import gold
from intercode.envs import prepare
from intercode.errors import UsageError
from intercode.generate import FAMILIES, generate
from intercode.generate.draws import Draw, Split
from intercode.generate.families import Place, Question
from intercode.generate.hops.carriers import PICKS, PROGRAMS, command, files
from intercode.generate.hops.families import bash_gold, bash_place
from intercode.generate.hops.layouts import CARRIERS, draw_layout
from intercode.generate.hops.schema import DOMAINS, OPEN, Domain, read_domain
from intercode.generate.hops.terms import Term, World, is_held_out
from intercode.generate.hops.worlds import draw_world
from intercode.generate.trial import Trial
from intercode.runner.run import evaluate

NAMES = ("bash-questions", "sql-questions")
INSTALLED = all(map(shutil.which, PROGRAMS))
SQL_WORDS = "select from to where order group by index table in is not and or limit check default"


def places(name: str, count: int, split: Split = "train") -> Iterator[Place]:
    for number in range(count):
        draw = Draw(f"tests {number}", split, real=number % 2 == 0)
        yield FAMILIES[name].place(draw, f"orion-{number}")


def asked(seed: str, lengths: Iterable[int], asks: int) -> Iterator[tuple[int, Question]]:
    """Yield the questions of one place, with their numbers of hops."""
    ask = FAMILIES["sql-questions"].ask
    assert ask
    (place,) = places("sql-questions", 1)
    draw = Draw(seed, "train")
    for hops in lengths:
        question = ask(draw, place, hops, asks)
        if not isinstance(question, str):
            yield hops, question


def terms(place: Place, hops: int, count: int, *, held_out: bool = False) -> list[Term]:
    drawn = [place.data.walks.term(hops, held_out) for _ in range(count)]
    return [term for term in drawn if term]


# -- domains ---------------------------------------------------------------------------------------


@pytest.fixture(params=DOMAINS)
def domain(request: pytest.FixtureRequest) -> Domain:
    return read_domain(request.param)


def test_a_domain_names_only_what_it_has(domain: Domain) -> None:
    for hop in domain.hops:
        columns = domain.tables[hop.table].columns
        named = {*hop.keys, *(test.column for test in hop.where), hop.by, hop.give} - {""}
        assert named <= {*columns}, hop.name
        assert not hop.gives or hop.gives in domain.types, hop.name
        assert {*hop.args} <= {*domain.types}, hop.name
    forms = {name: {*type.forms} for name, type in domain.types.items() if len(type.forms) > 1}
    for kind, needed in forms.items():
        home = domain.tables[domain.home(kind)]
        assert {column.form for column in home.columns.values()} >= needed


def test_a_phrase_has_its_hole_last_and_no_value_of_its_own(domain: Domain) -> None:
    for hop in domain.hops:
        assert len({*hop.says}) >= 3, hop.name
        opened = [test.value in OPEN for test in hop.where]
        assert not any(opened[1:]), hop.name
        assert bool(hop.args) != bool(hop.hidden), hop.name
        assert "<v>" not in hop.hidden, hop.name
        for text in hop.says:
            assert any(opened) == ("<v>" in text), text
            assert [*map(int, re.findall(r"<(\d)>", text))] == [*range(len(hop.args))], text
            if not hop.gives:
                assert re.search(r"<\d>[?.]$", text), text
            else:
                assert re.match("the |whoever ", text), text
                assert opened or text.endswith("<0>"), text
        assert any("whoever" not in text for text in hop.says), hop.name


def test_headers_of_columns_are_no_words_of_sql(domain: Domain) -> None:
    for table in domain.tables.values():
        headers = [table.names, *(column.names for column in table.columns.values())]
        for word in " ".join(headers).split():
            assert re.fullmatch("[a-z_]+", word), word
            assert word not in SQL_WORDS.split(), word


def test_most_hops_can_be_used(domain: Domain) -> None:
    world = draw_world(Draw("sound", "train"), domain)
    unused = []
    for hop in domain.hops:
        sound = 0
        for concrete in world.closed(hop):
            for arguments in world.function(concrete):
                sound += world.sound(concrete, arguments) is not None
        if not sound:
            unused.append(hop.name)
    assert len(unused) < len(domain.hops) / 8, unused


# -- what is needed --------------------------------------------------------------------------------


def test_no_single_mistake_or_guess_gives_the_answer() -> None:
    mistakes = 0
    for place in places("sql-questions", 3):
        world: World = place.data.world
        for hops in (2, 3, 4, 5):
            for term in terms(place, hops, 5):
                answer = world.value(term)
                assert answer is not None
                for node in term.nodes:
                    for what, other in world.others(node.hop):
                        mistakes += 1
                        assert world.value(term, hops={node: other}) != answer, what
                    for entity in world.forms.get(node.hop.gives, ()):
                        if entity != world.value(node):
                            assert world.value(term, values={node: entity}) != answer
    assert mistakes > 1000


def test_terms_have_as_many_hops_as_are_wanted_and_repeat_none() -> None:
    (place,) = places("sql-questions", 1)
    for hops in (2, 3, 4, 5, 6):
        drawn = terms(place, hops, 8)
        assert drawn
        for term in drawn:
            names = [node.hop.name for node in term.nodes]
            assert len({*names}) == len(names) == hops


def test_what_is_held_out_occurs_in_the_test_split_only() -> None:
    (place,) = places("sql-questions", 1)

    def has(term: Term) -> bool:
        pairs = [is_held_out(arg.hop, node.hop) for node in term.nodes for arg in node.args]
        return any(pairs) or any(node.hop.held_out for node in term.nodes)

    assert not any(map(has, terms(place, 4, 30)))
    assert all(map(has, terms(place, 4, 30, held_out=True)))


# -- texts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_equal_seeds_give_equal_places_and_questions(name: str) -> None:
    def drawn() -> list[Any]:
        draw = Draw("twice", "train")
        place = FAMILIES[name].place(draw, "orion")
        ask = FAMILIES[name].ask
        assert ask
        return [place.contents(), *(ask(draw, place, hops, 0) for hops in (2, 3, 4, 5))]

    first, second = drawn(), drawn()
    assert first[0] == second[0]
    for one, other in zip(first[1:], second[1:], strict=True):
        assert one == other if isinstance(one, str) else vars(one) == vars(other)


def test_a_long_question_has_two_sentences_and_that_refers_to_one_thing() -> None:
    seen = 0
    for hops, question in asked("texts", (2, 3, 5) * 10, 0):
        (text,) = question.query
        assert "<" not in text
        assert text.count("whoever") < 3
        if hops == 5:
            first, _, second = text.partition(". ")
            seen += 1
            assert re.match("(Take|Look at|Consider|Let A be) ", first)
            assert first.startswith("Let") or " that " in second
        elif hops == 2:
            assert len(text.split()) < 30
    assert seen > 5


# -- carriers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CARRIERS)
@pytest.mark.skipif(not INSTALLED, reason="needs git, jq and sqlite3")
def test_a_command_finds_in_each_carrier_what_memory_says(name: str, tmp_path: Path) -> None:
    tried = 0
    for number in range(2):
        draw = Draw(f"{name} {number}", "train")
        world = draw_world(draw, read_domain("operations"))
        table = ("changes", "services")[number]
        if CARRIERS[name].timed:
            table = ("changes", "mails")[number]
        layout = draw_layout(draw, world, table, [name], set())
        place = Place("one", facts={"site": "/"})
        for path, content in files(layout, world).items():
            place.write(path, content)
        root = tmp_path / str(number)
        for path, content in place.contents().items():
            target = root / path.removeprefix("tree/")
            target.parent.mkdir(parents=True, exist_ok=True)
            assert isinstance(content, bytes)
            target.write_bytes(content)
        for hop in world.domain.hops:
            if hop.table != table or len(hop.keys) != 1:
                continue
            key = layout.forms[hop.keys[0]]
            for (entity,), right in [*world.function(hop).items()][:4]:
                shown = world.forms[hop.args[0]][entity][key]
                if hop.gives:
                    right = world.forms[hop.gives][right][layout.forms[hop.give]]
                code = f"x='{shown}'; {command(layout, world, hop, ['x'])}"
                run = subprocess.run(["bash", "-c", code], cwd=root, capture_output=True, text=True)
                assert (run.stdout, run.stderr) == (f"{right}\n", ""), code
                tried += 1
    assert tried > 12


def test_places_differ_in_the_carrier_and_path_of_each_table(domain: Domain) -> None:
    ways: dict[str, set[tuple[str, str]]] = {}
    for number in range(16):
        place = bash_place(domain, Draw(f"ways {number}", "train"), "orion")
        for name, layout in place.data.layouts.items():
            ways.setdefault(name, set()).add((layout.carrier.split, layout.path))
    assert min(map(len, ways.values())) > 8


# -- families --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_golds_are_right_and_doing_nothing_is_not(name: str, tmp_path: Path) -> None:
    needs_bwrap()
    generate(name, n=20, seed=5, out=tmp_path / "data")
    records = [
        json.loads(line) for line in (tmp_path / "data/tasks.jsonl").read_text().splitlines()
    ]
    assert {record["difficulty"] for record in records} == {2, 3, 4, 5}
    assert all(record["kind"].count("+") == record["difficulty"] - 1 for record in records)
    factory = prepare(FAMILIES[name].env, data=str(tmp_path / "data"))
    assert all(one.success for one in evaluate(factory, gold, tasks=factory.tasks, workers=2))
    assert not any(one.success for one in evaluate(factory, noop, tasks=factory.tasks, workers=2))


@pytest.mark.slow
def test_an_alternative_that_is_executed_prints_what_memory_says(tmp_path: Path) -> None:
    needs_bwrap()
    (place,) = places("bash-questions", 1)
    world, tried = place.data.world, 0
    with Trial() as trial:
        for term in terms(place, 3, 6):
            for node in term.nodes:
                for _, other in world.others(node.hop):
                    wrong = world.value(term, hops={node: other})
                    alike = "" not in other.keys and other.pick in PICKS
                    if alike and wrong is not None and (other.keys or other.where):
                        command = bash_gold(place, term.with_hop(node, other))
                        (outcome,) = trial.outcomes(place, [command])
                        assert outcome.output == f"{wrong}\n"
                        tried += 1
    assert tried > 20


def test_a_clause_that_a_query_leaves_out_is_told_by_the_user() -> None:
    told = 0
    for _, question in asked("asks", (2, 3, 4) * 4, 1):
        (facet,) = question.extra["facets"]
        assert " a certain " in question.query[0]
        assert facet["reply"].startswith("I mean ")
        assert "<" not in facet["reply"]
        assert question.extra["unclarified"] != question.gold
        told += 1
    assert told > 6


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("bash-questions", {"steps": 3}, "have no steps; those of python-composed do"),
        (
            "python-composed",
            {"hops": 3},
            "those of bash-questions, sql-questions, bash-rounds, sql-rounds do",
        ),
        ("sql-questions", {"hops": 7}, "hops is 7; it has to be from 2 to 6"),
        ("sql-questions", {"difficulty": [3]}, "is its number of hops: give hops"),
    ],
)
def test_options_that_a_family_does_not_have_are_refused(
    name: str, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=message):
        generate(name, n=10, seed=1, out=tmp_path / "data", **options)


def test_a_program_that_is_missing_is_told_before_anything_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="run: apt-get install git jq sqlite3"):
        generate("bash-questions", n=10, seed=1, out=tmp_path / "data")
    assert not (tmp_path / "data").exists()
