"""What one turn was, and the figures about turns."""

from __future__ import annotations

from typing import Any

import pytest
from played import CONFIG, error, fine, no_code, played, submit

from intercode.envs import language_of
from intercode.report.analysis import actions, analysis, by_turn, per_solved, recovery
from intercode.report.tables import Section, action_rows, details
from intercode.report.turns import counted_turns, find_repeats, is_error, solving_turn
from intercode.types import Episode, Turn, Usage

BASH = {
    "exploring": [
        "ls -la /depot",
        "cat a 2>/dev/null",
        "find . -name '*.txt' | wc -l",
        "grep -r 'rm -rf' /lab",
        "make 2>&1",
        "echo 'a > b'",
        "awk '$1 > 5' f",
        "tar -tf a.tar",
        "diff <(sort a) <(sort b)",
        "sort a | uniq -c",
        "which rm",
        "sed -n 3p f",
        "ls >&2",
    ],
    "editing": [
        "rm a",
        "cd /x && rm -r b",
        "echo hi > f",
        "date >> log",
        "sed -i s/a/b/ f",
        "find . -name '*.o' -delete",
        "tar -xzf a.tgz",
        "find . -type f -exec chmod 600 {} +",
        "ls | xargs -I {} mv {} {}.bak",
        "for f in *; do touch $f; done",
        "sort f | tee g",
        "/bin/mkdir d",
        "(cp a b)",
        "perl -pi -e s/a/b/ f",
        "sort f > 'a b'",
        "curl -s -o f http://localhost/",
        "git commit -m x",
    ],
}
SQL = {
    "exploring": [
        "SHOW TABLES",
        "describe pet",
        "PRAGMA table_info(pet)",
        "EXPLAIN SELECT 1",
        "select name from sqlite_master",
        "SELECT column_name FROM information_schema.columns",
    ],
    "querying": [
        "SELECT 1",
        "(select a from b) union (select 2)",
        "-- drop it\nSELECT 1",
        "WITH x AS (SELECT 1) SELECT 2",
    ],
    "editing": [
        "INSERT INTO a VALUES (1)",
        " drop table a",
        "/* x */ UPDATE a SET b = 1",
        "WITH x AS (SELECT) DELETE FROM b",
    ],
}
PYTHON = {
    "exploring": ["1 + 1", "print(x)", "import math", "for i in range(3): print(i)", "print(", "x"],
    "editing": [
        "x = 1",
        "def f():\n    return 1",
        "class A: pass",
        "del x",
        "x += 1",
        "def f(:\n    return",
    ],
}


@pytest.mark.parametrize(("env", "rules"), {"bash": BASH, "sql": SQL, "python": PYTHON}.items())
def test_an_action_is_of_the_kind_that_its_text_says(env: str, rules: dict[str, list[str]]) -> None:
    language = language_of({"env": env})
    expected = {action: name for name, actions in rules.items() for action in actions}
    assert {action: language.kind(action) for action in expected} == expected


def cells(whole: dict[str, Any], title: str) -> list[str]:
    """A row of the table of turns: all, solved, failed episodes."""
    rows = [list(row.values()) for row in action_rows(whole)]
    return next((row[1:] for row in rows if row[0] == title), [])


def test_what_a_turn_was() -> None:
    turns = (fine(), error(), no_code(), fine(timed_out=True), Turn(action="x"))
    assert [is_error(turn) for turn in turns] == [False, True, True, True, False]
    assert counted_turns(played("a", Turn(reply="a plan"), fine(), submit())) == [
        fine(),
        submit(),
    ], "a question is no turn"
    forced = Turn(action="submit", forced=True)
    assert counted_turns(played("a", fine(), forced)) == [fine()], "not a turn of the agent"
    again = find_repeats(
        [fine("ls"), fine("ls  -a"), fine("ls -a\n"), no_code(), no_code(), fine("ls")]
    )
    assert again == [False, False, True, False, False, True], "whatever the blanks"


def test_an_episode_is_solved_at_its_best_score_or_at_its_submission() -> None:
    scored = (fine(score=0.3), fine(score=1.0), fine(score=0.5))
    assert solving_turn(played("a", *scored, solved=True)) == 2
    assert solving_turn(played("a", fine(), fine(), submit(), solved=True)) == 3
    assert solving_turn(played("a", fine(), submit())) is None


def test_success_adds_up_over_turns_and_errors_are_of_code_alone() -> None:
    rows = by_turn(
        [
            played("a", fine(), submit(), solved=True),
            played("b", error(), fine(), submit(), solved=True),
            played("c", error()),
        ]
    )
    assert [(row["turn"], row["episodes"]) for row in rows] == [(1, 3), (2, 2), (3, 1)]
    assert [row["solved"] for row in rows] == [0, pytest.approx(1 / 3), pytest.approx(2 / 3)]
    assert [row["errors"] for row in rows] == [pytest.approx(2 / 3), 0, None]


def test_shares_are_of_the_turns_that_ask_for_code() -> None:
    episode = played("a", fine("rm a"), error(), no_code(), fine("rm a"), submit())
    found = actions([episode], language_of({"env": "bash"}))
    assert (found["turns"], found["errors"], found["no_code"], found["repeated"]) == (
        4,
        0.5,
        0.25,
        0.25,
    )
    assert (found["editing"], found["exploring"]) == (pytest.approx(2 / 3), pytest.approx(1 / 3))


def test_a_reply_that_was_cut_off_is_not_called_a_reply_without_code() -> None:
    cut = Turn(reply="I would", observation="cut off", finish_reason="length")
    whole = analysis(CONFIG, [played("a", fine(), cut, no_code(), fine())])
    found = whole["actions"]["all"]
    assert (found["cut_off"], found["no_code"]) == (0.25, 0.25)
    titles = [row["turns that ask for code"] for row in action_rows(whole)]
    assert "replies cut off %" in titles
    without = analysis(CONFIG, [played("a", fine())])
    assert "replies cut off %" not in str(action_rows(without))


def test_recovery_is_a_fine_turn_after_an_error() -> None:
    found = recovery(
        [
            played("a", error(), fine(), error(), error(), submit(), solved=True),
            played("b", fine(), submit(), solved=True),
        ]
    )
    assert found == {
        "episodes_with_error": 1,
        "solved_with_error": 1,
        "solved_without_error": 1,
        "next_turn_fine": 0.5,
    }


def test_recovery_is_told_apart_for_solved_and_failed_episodes() -> None:
    whole = analysis(
        CONFIG,
        [
            played("a", error(), fine(), submit(), solved=True),
            played("b", error(), error("x"), no_code(), fine(), submit()),
            played("c", fine(), submit()),
        ],
    )
    groups = {name: part["next_turn_fine"] for name, part in whole["actions"].items()}
    assert groups == {"all": 0.5, "solved": 1, "failed": pytest.approx(1 / 3)}
    assert whole["recovery"]["next_turn_fine"] == groups["all"]
    assert cells(whole, "fine right after an error %") == ["50.0", "100.0", "33.3"]
    assert not cells(analysis(CONFIG, [played("a", fine())]), "fine right after an error %")


def test_repeated_actions_are_told_apart_for_solved_and_failed_episodes() -> None:
    again = played("a", fine("ls"), fine("ls"), fine("pwd"), submit())
    whole = analysis(CONFIG, [again, played("b", fine("ls"), submit(), solved=True)])
    assert cells(whole, "repeated %") == ["25.0", "0.0", "33.3"]


def test_exploring_is_counted_up_to_the_first_action_of_another_kind() -> None:
    episodes = [
        played("a", fine("ls"), no_code(), error("cat a"), fine("rm a"), submit(), solved=True),
        played("b", fine("ls"), fine("pwd"), submit(), solved=True),
        played("c", fine("rm a"), fine("ls"), fine("mv b c"), submit()),
    ]
    whole = analysis(CONFIG, episodes)
    found = {
        group: [part[key] for key in part if key.startswith("explored_first")]
        for group, part in whole["actions"].items()
    }
    assert found == {"all": [2, 1, 2 / 7], "solved": [1, 2, 0.5], "failed": [1, 0, 0]}, (
        "episodes that only explore are left out"
    )
    assert cells(whole, "exploring before anything else, per episode") == ["1.0", "2.0", "0.0"]
    assert cells(whole, "exploring before anything else %") == ["28.6", "50.0", "0.0"]
    tables = played("a", fine("SHOW TABLES"), fine("DESC pet"), fine("SELECT 1"), fine("SELECT 2"))
    first = actions([tables], language_of({"env": "sql"}))
    assert (first["explored_first"], first["explored_first_share"]) == (2, 0.5), "before a query"
    unknown = actions([tables], language_of({"env": "of somebody"}))
    assert "explored_first" not in unknown, "its actions have no kind"


def test_the_table_by_turn_has_the_mean_value_where_values_are_recorded() -> None:
    def by_turn_of(*episodes: Episode) -> Section:
        return next(iter(details(analysis(CONFIG, episodes))))

    episodes = (
        played("a", fine(value=0.5), fine(value=1.0), submit(), solved=True),
        played("b", fine(value=0.0), submit()),
    )
    title, rows = by_turn_of(*episodes)
    assert [row["value"] for row in rows] == ["0.250", "1.000", "–"]
    assert "mean reward of a submission" in title
    title, rows = by_turn_of(played("a", fine(), submit()))
    assert "value" not in rows[0]
    assert "mean reward" not in title


def test_what_all_spent_is_divided_by_what_was_solved() -> None:
    turn = fine(usage=Usage(10, 5, 0.25), seconds=2.0)
    assert per_solved([played("a", turn, solved=True), played("b", turn)]) == {
        "tokens": 30,
        "cost": 0.5,
        "seconds": 4,
    }
    assert per_solved([played("a", turn)]) == {"tokens": None, "cost": None, "seconds": None}


def test_tasks_are_grouped_by_data_set_where_it_is_known() -> None:
    episodes = [played("a", fine(), solved=True), played("b", fine())]
    assert analysis(CONFIG, episodes)["by_data"] == {}
    found = analysis({**CONFIG, "data_set": {"a": "one", "b": "two"}}, episodes)["by_data"]
    assert {name: part["success_rate"] for name, part in found.items()} == {"one": 1, "two": 0}
