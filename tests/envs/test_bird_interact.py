"""BIRD-Interact's mini set in its published layout, by a stand-in of three tasks of our own: a
query with a follow-up, one that writes and has test cases, and one with a setup."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap

import intercode
from intercode.agents import asker, gold, noop
from intercode.errors import DataError
from intercode.runner.budget import BudgetTracker
from intercode.runner.episode import play

TABLES = """
CREATE TABLE boat (id INTEGER PRIMARY KEY, name TEXT, berth TEXT, metres REAL);
INSERT INTO boat VALUES (1, 'Ada', 'north', 8.5), (2, 'Bea', 'south', 12.25),
  (3, 'Cleo', 'north', 14.0), (4, 'Dora', 'south', 9.75);
"""
HAS_ROWS = """
def test_case(pred_sqls, sol_sqls, db_path, conn):
    execute_queries(pred_sqls, db_path, conn)
    rows, _ = perform_query_on_sqlite_databases(
        "SELECT name, metres FROM boat WHERE berth = 'quay' ORDER BY name", db_path, conn
    )
    assert preprocess_results(rows, 1) == [('Ada', 8.5), ('Cleo', 14.0)], rows
"""
KEEPS_ROWS = """
def test_case(pred_sqls, sol_sqls, db_path, conn):
    before, _ = perform_query_on_sqlite_databases("SELECT COUNT(*) FROM boat", db_path, conn)
    execute_queries(pred_sqls, db_path, conn)
    after, _ = perform_query_on_sqlite_databases("SELECT COUNT(*) FROM boat", db_path, conn)
    assert after == before, (before, after)
"""
COMMON: dict[str, Any] = {
    "selected_database": "harbour",
    "preprocess_sql": [],
    "clean_up_sqls": [],
    "external_knowledge": [0],
    "conditions": {"decimal": 1, "distinct": False, "order": False},
}
LONG = {
    **COMMON,
    "instance_id": "harbour_1",
    "amb_user_query": "Which boats are long for the harbour?",
    "query": "Which boats are longer than 10 metres?",
    "category": "Query",
    "user_query_ambiguity": {
        "critical_ambiguity": [
            {"term": "long boats", "sql_snippet": "metres > 10", "is_mask": True, "type": "intent"}
        ],
        "non_critical_ambiguity": [
            {"term": "sort", "sql_snippet": "no ORDER BY", "is_mask": False, "type": "sort"}
        ],
    },
    "knowledge_ambiguity": [
        {"term": "Mooring Fee", "sql_snippet": "metres * 12", "deleted_knowledge": 1}
    ],
    "sol_sql": ["SELECT name FROM boat WHERE metres > 10"],
    "test_cases": [],
    "follow_up": {
        "query": "And what is the mooring fee of each of them?",
        "sol_sql": "SELECT name, metres * 12 FROM boat WHERE metres > 10",
        "type": "topic_pivot",
        "test_cases": [],
    },
}
MOVE = {
    **COMMON,
    "instance_id": "harbour_M_1",
    "amb_user_query": "Move the northern boats.",
    "query": "Move the boats from the berth north to the berth quay.",
    "category": "Management",
    "user_query_ambiguity": {
        "critical_ambiguity": [{"term": "move", "sql_snippet": "berth = 'quay'", "type": "intent"}]
    },
    "sol_sql": ["UPDATE boat SET berth = 'quay' WHERE berth = 'north'"],
    "test_cases": [HAS_ROWS, KEEPS_ROWS],
    "follow_up": {
        "query": "How many boats are at the quay now?",
        "sol_sql": "SELECT COUNT(*) FROM boat WHERE berth = 'quay'",
        "test_cases": [],
    },
}
SOLD = {
    **COMMON,
    "instance_id": "harbour_2",
    "amb_user_query": "How long are the boats that are left?",
    "query": "Print the sum of the lengths of all boats.",
    "category": "Query",
    "preprocess_sql": ["DELETE FROM boat WHERE name = 'Dora'"],
    "user_query_ambiguity": {
        "critical_ambiguity": [{"term": "how long", "sql_snippet": "SUM(metres)", "type": "intent"}]
    },
    "sol_sql": ["SELECT SUM(metres) FROM boat"],
    "test_cases": [],
    "follow_up": {"query": "And without Ada?", "sol_sql": "SELECT 26.25", "test_cases": []},
}
MEANINGS = {"harbour|boat|metres": "Length over all.", "harbour|boat|berth": "Where it lies."}
KNOWLEDGE = [
    {"id": 0, "knowledge": "Quay", "description": "The new berth", "definition": "berth = 'quay'"},
    {"id": 1, "knowledge": "Mooring Fee", "description": "What a boat pays", "definition": "x"},
]
Make = Callable[..., Any]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    needs_bwrap()
    folder = tmp_path / "databases" / "harbour"
    folder.mkdir(parents=True)
    with closing(sqlite3.connect(folder / "harbour.sqlite")) as connection:
        connection.executescript(TABLES)
    (folder / "harbour_schema.txt").write_text("CREATE TABLE boat … three sample rows")
    (folder / "harbour_column_meaning_base.json").write_text(json.dumps(MEANINGS))
    (folder / "harbour_kb.jsonl").write_text("\n".join(map(json.dumps, KNOWLEDGE)))
    with ExitStack() as stack:

        def build(*records: dict[str, Any], **options: Any) -> Any:
            file = tmp_path / "tasks.jsonl"
            file.write_text("".join(json.dumps(record) + "\n" for record in records))
            env = intercode.make(
                "sql", data=str(file), databases=str(tmp_path / "databases"), **options
            )
            stack.callback(env.close)
            env.reset(options={"task": 0})
            return env

        yield build


def test_golds_solve_both_phases_and_the_first_alone_earns_its_share(make: Make) -> None:
    env = make(LONG, MOVE, SOLD)
    for agent, reward in ((gold, 1.0), (asker, 1.0), (noop, 0.0)):
        for task in env.tasks:
            episode = play(env, task, agent, None, BudgetTracker())
            assert (episode.reward, episode.success) == (reward, reward == 1.0)
    assert [env.run_gold(task).faults for task in env.tasks] == [()] * 3
    for number, record in enumerate((LONG, MOVE, SOLD)):
        env.reset(options={"task": number})
        env.step(record["sol_sql"][0])
        assert env.step("submit")[1] == 0.7
        score = env.step("submit")[4]["score"]
        if record is LONG or record is SOLD:
            assert (score.reward, score.success) == (0.7, False)


def test_ambiguities_are_facets_and_documents_cost_a_part_of_the_budget(make: Make) -> None:
    env = make(LONG)
    assert env.task.query == LONG["amb_user_query"]
    steps = {
        "ask What is a long boat?": "By 'long boats' I mean this: metres > 10\n[16 of",
        "schema": "CREATE TABLE boat … three sample rows\n[15 of",
        "meaning": "boat.metres\nboat.berth\n[14.5 of",
        "meaning Boat.Metres": "Length over all.\n[14 of",
        "meaning boat.colour": "There is no meaning boat.colour; `meaning` lists the names.\n[14",
        "knowledge": "Quay\n[13.5 of",  # the other one is hidden
        "knowledge mooring fee": "There is no knowledge mooring fee",
        "knowledge quay": "The new berth\nberth = 'quay'\n[13 of",
        "ask How do I compute the mooring fee?": "By 'Mooring Fee' I mean this: metres * 12",
    }
    for action, begin in steps.items():
        assert env.step(action)[0].startswith(begin), action
    assert env.turn == len(steps)


GOLD = MOVE["sol_sql"][0]


DECIDED: list[tuple[list[str], str]] = [
    ([GOLD], "all tests passed"),
    (["UPDATE boats SET x = 1", "DELETE FROM boat", GOLD], "all tests passed"),
    ([f"BEGIN; DELETE FROM boat; ROLLBACK; {GOLD}"], "all tests passed"),
    ([f"BEGIN; {GOLD}; COMMIT"], "all tests passed"),
    ([f"BEGIN; {GOLD}"], "test 1: AssertionError: []"),
    ([GOLD, "SELECT 1"], "test 1: AssertionError: []"),  # the last action is what counts
    (["UPDATE boat SET berth = 'quay'"], "test 1: AssertionError: [('Ada', 8.5)"),
    ([f"{GOLD}; DELETE FROM boat WHERE id = 2"], "test 2: AssertionError"),
    (
        ["CREATE TEMP TABLE boat AS SELECT id, name, 'quay' AS berth, metres FROM main.boat"],
        "test 1: AssertionError: []",
    ),
]


def test_test_cases_decide_about_the_last_action(make: Make) -> None:
    env = make({**MOVE, "follow_up": {}})
    for actions, rule in DECIDED:
        env.reset(options={"task": 0})
        for action in actions:
            env.step(action)
        score = env.step("submit")[4]["score"]
        assert score.rule.startswith(rule), actions
        assert score.success is (rule == "all tests passed"), actions


def test_a_gold_is_executed_on_a_copy_that_the_answer_has_not_changed(make: Make) -> None:
    same = "def test_case(pred, sol, db, conn): return ex_base(pred, sol, db, conn)"
    env = make({**LONG, "test_cases": [same], "follow_up": {}})
    env.step("UPDATE boat SET name = 'X', metres = 11; SELECT 'X'")
    assert not env.step("submit")[4]["score"].success
    env.reset(options={"task": 0})
    env.step("SELECT name FROM boat WHERE metres > 10")
    assert env.step("submit")[4]["score"].success


def test_a_later_phase_that_nobody_passes_is_a_fault_of_the_data(make: Make) -> None:
    same = "def test_case(pred, sol, db, conn): return ex_base(pred, sol, db, conn)"
    fails = "def test_case(pred, sol): assert False"
    later = {"query": "And without Ada?", "sol_sql": "SELECT 26.25", "test_cases": [fails]}
    env = make({**LONG, "test_cases": [same], "follow_up": later})
    for action in ("SELECT 1", "submit"):  # the gold of the first phase is asked, and is sound
        env.step(action)
    env.reset(options={"task": 0})
    for action in ("SELECT name FROM boat WHERE metres > 10", "submit", "SELECT 3"):
        env.step(action)
    with pytest.raises(DataError, match="the gold fails test 1"):
        env.step("submit")


def test_a_test_that_exits_is_a_fault_of_the_record(make: Make) -> None:
    ends = "import os\ndef test_case(pred, sol): os._exit(0)"
    exits = "import sys\ndef test_case(pred, sol): sys.exit(1)"
    records = [{**MOVE, "test_cases": [ends]}, {**LONG, "test_cases": [exits]}]
    env = make(*records)
    for task in env.tasks:
        assert env.run_gold(task).faults, task.id


def test_the_second_phase_has_tests_golds_and_an_order_of_its_own(make: Make) -> None:
    follow_up = {**LONG["follow_up"], "sol_sql": "SELECT name FROM boat ORDER BY metres"}
    first = {**LONG, "test_cases": ["def test_case(pred, sol): pass"], "follow_up": follow_up}
    env = make({**first, "conditions": {"order": True}})
    env.step("SELECT name FROM boat WHERE metres > 10")
    env.step("submit")
    env.step("SELECT name FROM boat ORDER BY metres DESC")
    assert env.step("submit")[4]["score"].reward == 0.7
    plain = {"id": "a", "query": "One?", "gold": "SELECT 1", "golds": ["SELECT 2"]}
    second = {"query": "And?", "gold": "SELECT 3", "golds": ["SELECT 4"]}
    env = make({**plain, "follow_up": second})
    for answer in ("SELECT 2", "submit", "SELECT 4"):
        env.step(answer)
    assert env.value() == 1.0
    fork = env.fork()
    assert fork.step("submit")[4]["score"].success
    fork.close()
    _, reward, terminated, _, info = env.step("submit")
    assert (reward, terminated) == (pytest.approx(0.3), True)
    assert (info["score"].reward, info["score"].success) == (1.0, True)
    env.reset(options={"task": 0})
    env.step("SELECT 5")
    assert env.step("submit")[2]
    env = make({**plain, "follow_up": second, "go_on": "always"})
    env.step("SELECT 5")
    assert env.step("submit")[0] == "The user goes on:\n\nAnd?"


def test_mistakes_of_the_record_are_the_datas_fault(make: Make) -> None:
    with pytest.raises(DataError, match="preprocess_sql fails: no such table"):
        make({**SOLD, "preprocess_sql": ["DELETE FROM ship"]})
    with pytest.raises(DataError, match="field 'gold' is missing"):
        make({"query": "q", "gold": "SELECT 1", "follow_up": {"query": "And?"}})
    with pytest.raises(DataError, match="not a list of texts"):
        make({**MOVE, "test_cases": "def test_case(): pass"})
