"""Places grow until they tell a gold from its mistakes, and stay what queries presume."""

from __future__ import annotations

import time

import pytest
from kept import needs_bwrap

from intercode.generate.draws import Draw
from intercode.generate.families import Place
from intercode.generate.ground import Archive, Inputs, Prose, Rows, bytes_of, similar
from intercode.generate.grower import grow, touched, words_of
from intercode.generate.judges import bash_judge, fewer, python_judge, sql_judge, write_tests
from intercode.generate.trial import Trial

PEOPLE = Rows(
    ("id", "name", "town"),
    tuple((number, f"Ann{number}", "Oslo" if number % 2 else "Bergen") for number in range(1, 9)),
    key="id",
)
VISITS = Rows(
    ("id", "person_id", "day", "state"),
    tuple((number, 1 + number % 8, number, "ok") for number in range(1, 9)),
    key="id",
    closed=["state"],
    refers={"person_id": "person"},
)


def test_the_words_near_a_mistake_are_those_that_it_touches() -> None:
    gold = "SELECT name FROM person WHERE town = 'New Oslo' AND day > 31 ORDER BY name"
    assert "31" in touched(gold, gold.replace(">", ">="))
    assert "town" not in touched(gold, gold.replace(" ORDER BY name", " ORDER BY id"))
    assert {"New Oslo", "31"} <= {*words_of(gold)}
    assert "a-b.txt" in words_of("wc -l < /srv/x/a-b.txt")


@pytest.mark.parametrize(
    ("gold", "mistake"),
    [
        ("SELECT COUNT(*) FROM visit WHERE day > 5", "SELECT COUNT(*) FROM visit WHERE day > 4.5"),
        (
            "SELECT person.id FROM person JOIN visit ON person.id = person_id WHERE day < 4",
            "SELECT DISTINCT person.id FROM person JOIN visit ON person.id = person_id"
            " WHERE day < 4",
        ),
        (
            "SELECT id FROM person WHERE town = 'Oslo'",
            "SELECT id FROM person WHERE town LIKE '%Oslo%'",
        ),
    ],
)
def test_rows_grow_until_a_mistake_has_other_rows(gold: str, mistake: str) -> None:
    place = Place("x", tables={"person": PEOPLE, "visit": VISITS})
    if "4.5" in mistake:
        mistake = "SELECT COUNT(DISTINCT day) FROM visit WHERE day > 5"
    assert sql_judge(place, gold, [mistake]) == [mistake]
    grown, left = grow(Draw("rows", "train"), place, gold, [mistake], sql_judge, budget=80, first=0)
    assert left == []
    people, visits = grown.tables["person"], grown.tables["visit"]
    assert len({*people.column("id")}) == len(people.rows)
    assert {*visits.column("person_id")} <= {*people.column("id")}
    assert {*visits.column("state")} == {"ok"}


def test_files_grow_until_a_mistake_prints_or_changes_something_else() -> None:
    needs_bwrap()
    place = Place("x", grows=["/srv/x"])
    place.write("/srv/x/notes.txt", Prose("one\ntwo words\nthree\n"))
    place.fix("/srv/x/HANDBOOK", "Nothing here changes.\n")
    for gold, mistake in (
        ("wc -l < /srv/x/notes.txt", "grep -c . /srv/x/notes.txt"),
        ("rm /srv/x/notes.txt", "rm /srv/x/notes.txt*"),
    ):
        with Trial() as trial:
            judge = bash_judge(trial, "")
            assert judge(place, gold, [mistake]) == [mistake]
            grown, left = grow(
                Draw(gold, "train"), place, gold, [mistake], judge, budget=40, first=6
            )
        assert left == []
        assert grown.files["tree/srv/x/HANDBOOK"] == "Nothing here changes.\n"
        assert all(path.startswith("tree/srv/x/") for path in grown.files)
        assert place.files.keys() <= grown.files.keys()


def test_a_gold_that_prints_errors_is_not_sound() -> None:
    needs_bwrap()
    place = Place("x", grows=["/srv/x"])
    place.write("/srv/x/notes.txt", "one\n")
    with Trial() as trial:
        judge = bash_judge(trial, "")
        for gold in ("cat /srv/x/*", "cat /srv/x/* > /srv/x/all"):
            assert judge(place, gold, ["cat /srv/y"]) == []
            place.write("/srv/x/old/notes.txt", "two\n")
            assert judge(place, gold, ["cat /srv/y"]) is None
            del place.files["tree/srv/x/old/notes.txt"]


def test_a_command_on_a_place_sees_nothing_of_the_one_before_it() -> None:
    needs_bwrap()
    place = Place("x", grows=["/srv/x"])
    place.write("/srv/x/notes.txt", "one\n")
    look = "cat /srv/x/notes.txt && ls -l /srv/x"
    with Trial() as trial:
        (before,) = trial.outcomes(place, [look])
        assert before.output.startswith("one\n")
        for change in ("chmod 000 /srv/x/notes.txt", "chmod -R a-rwx /srv/x", "rm -r /srv/x"):
            changed, after = trial.outcomes(place, [change, look])
            assert changed.changes, change
            assert after == before, change


def test_a_mistake_that_does_not_end_costs_its_time_once() -> None:
    needs_bwrap()
    place = Place("x")
    place.write("/srv/x/notes.txt", "one\n")
    endless = "echo 2; sleep 1000"
    commands = ["cat /srv/x/notes.txt", "echo 1", endless, *(f"echo {n}" for n in range(3, 8))]
    times = list[float]()
    with Trial(seconds=5) as trial:
        for _ in range(2):
            begin = time.monotonic()
            first, *others = trial.outcomes(place, commands)
            times.append(time.monotonic() - begin)
            assert [first.output, others[0].output, others[-1].output] == ["one\n", "1\n", "7\n"]
            assert (others[1].output, others[1].failed) == ("", True)
    assert times[1] < times[0] / 2


def test_inputs_grow_within_what_a_function_takes() -> None:
    gold = "def total(numbers, least):\n    return sum(n for n in numbers if n >= least)"
    mistakes = [gold.replace(">=", ">"), gold.replace("sum(n for", "sum(2 * n for")]
    inputs = Inputs((([3, 8], 5),), lambda numbers, least: least > 0 and len(numbers) < 9)
    assert python_judge(inputs, gold, mistakes) == mistakes[:1]
    grown, left = grow(
        Draw("inputs", "train"), inputs, gold, mistakes, python_judge, budget=300, first=20
    )
    assert left == []
    assert grown.arguments[0] == ([3, 8], 5)
    assert all(least > 0 and len(numbers) < 9 for numbers, least in grown.arguments)
    tests = write_tests(gold, grown.arguments)
    assert tests[0] == "assert total([3, 8], 5) == 8"
    for source, passes in ((gold, True), (mistakes[0], False)):
        scope: dict[str, object] = {}
        exec(source, scope)
        try:
            for line in tests:
                exec(line, scope)
            assert passes
        except AssertionError:
            assert not passes


@pytest.mark.parametrize(
    ("examples", "gold", "mistake"),
    [
        ([("a b",)], "return text.lower().strip()", "return text.lower()"),
        ([("a b",)], "return len(text) > 17", "return len(text) > 18"),
        ([("a b",)], "return len(text.split()) > 8", "return len(text.split()) > 9"),
        ([([1, 30],)], "return sum(text) > 90", "return sum(text) >= 90"),
        ([([("x", 4), ("y", 5)],)], "return sorted(text)", "return sorted({*text})"),
        ([([("x", 4), ("y", 5)],)], "return max(n for _, n in text)", "return text[-1][1]"),
    ],
)
def test_arguments_grow_by_spaces_lengths_sums_and_doubles(
    examples: list[tuple[object, ...]], gold: str, mistake: str
) -> None:
    written = "def f(text):\n    {}".format
    _, left = grow(
        Draw(gold, "train"),
        Inputs(tuple(examples), lambda text: bool(text)),
        written(gold),
        [written(mistake)],
        python_judge,
        budget=200,
        first=4,
    )
    assert left == []


def test_few_calls_refute_all_mistakes() -> None:
    gold = "def f(n):\n    return n // 40"
    mistakes = [gold.replace("40", str(other)) for other in (39, 41, 80)]
    inputs = Inputs(tuple((number,) for number in range(400)))
    calls = fewer(inputs, gold, mistakes)
    assert calls[:3] == [(0,), (1,), (2,)]
    assert len(calls) <= 36
    assert python_judge(Inputs(tuple(calls)), gold, mistakes) == []


def test_a_mistake_that_no_place_tells_apart_is_left() -> None:
    place = Place("x", tables={"person": PEOPLE, "visit": VISITS})
    gold, same = "SELECT id FROM person WHERE id > 3", "SELECT id FROM person WHERE NOT id <= 3"
    _, left = grow(Draw("same", "train"), place, gold, [same], sql_judge, budget=20, first=4)
    assert left == [same]
    _, left = grow(
        Draw("none", "train"), place, "SELECT id FROM nobody", [], sql_judge, budget=5, first=4
    )
    assert left is None


def test_archives_grow_by_members_and_equal_ones_have_equal_bytes() -> None:
    archive = Archive({"app/a.txt": Prose("one\ntwo\n"), "app/b.txt": Prose("three\n")})
    draw, grown = Draw("archive", "train"), archive
    for _ in range(30):
        grown = grown.grown(draw, ["one"], ["a.txt"])
    assert len(grown.members) > 2
    assert all(not name.startswith("/") and ".." not in name for name in grown.members)
    assert bytes_of(archive) == bytes_of(Archive(dict(archive.members)))


def test_similar_names_differ_from_their_name_at_least_in_case() -> None:
    draw = Draw("names", "train")
    names = {similar(draw, "oslo") for _ in range(200)} - {"oslo"}
    assert any("oslo" in name for name in names)
    assert any(name.lower() == "oslo" for name in names)
    assert any(" " in similar(draw, "New York") for _ in range(20))
