"""Run BIRD's test cases in the grader's sandbox: `test_case(pred_sqls, sol_sqls, db_path, conn)`.

    job.json ──► for each test: a fresh copy of the database ──► the setup ──► the function
             ──► a line of JSON with the job's nonce: why each test failed, "" if it passed

A test fails if it raises, or returns anything false but None. It may call the functions below, by
the names that BIRD's tests use. This module runs inside the sandbox; it imports the standard
library only.
"""

import inspect
import json
import re
import shutil
import sqlite3
import sys
from typing import Any

Rows = list[tuple[Any, ...]]
_DENIED = {
    sqlite3.SQLITE_ATTACH,
    sqlite3.SQLITE_DETACH,
    sqlite3.SQLITE_CREATE_TEMP_INDEX,
    sqlite3.SQLITE_CREATE_TEMP_TABLE,
    sqlite3.SQLITE_CREATE_TEMP_TRIGGER,
    sqlite3.SQLITE_CREATE_TEMP_VIEW,
}


def perform_query_on_sqlite_databases(
    query: str, db_path: str, conn: sqlite3.Connection | None = None
) -> tuple[Rows, sqlite3.Connection]:
    """Execute a statement; return its rows and the connection."""
    conn = conn or sqlite3.connect(db_path)
    return conn.execute(query).fetchall(), conn


def execute_queries(
    queries: str | list[str], db_path: str, conn: sqlite3.Connection, *more: Any, **named: Any
) -> tuple[Rows | None, bool, bool]:
    """Execute statements in turn; return the last one's rows, and whether one failed or was too
    slow. What is not committed at the end is undone. `more` are a logger and the like."""
    rows = None
    try:
        for query in [queries] if isinstance(queries, str) else queries:
            rows, _ = perform_query_on_sqlite_databases(query, db_path, conn)
    except sqlite3.Error:
        return None, True, False
    finally:
        if conn.in_transaction:
            conn.rollback()
    return rows, False, False


def preprocess_results(results: Rows | None, decimal_places: int = 2) -> Rows:
    """Return the rows with numbers rounded, if `decimal_places` is not negative."""
    rows = []
    for row in results or []:
        values = [*row]
        for at, value in enumerate(row):
            if isinstance(value, float) and decimal_places >= 0:
                values[at] = round(value, decimal_places)
        rows.append(tuple(values))
    return rows


def remove_distinct(sqls: list[str]) -> list[str]:
    """Return the statements without the word DISTINCT."""
    return [re.sub(r"\bDISTINCT\b\s*", "", sql, flags=re.IGNORECASE) for sql in sqls]


def ex_base(
    pred_sqls: list[str], sol_sqls: list[str], db_path: str, conn: Any, conditions: Any = None
) -> int:
    """Return 1 if both last statements have the same rows, else 0."""
    untouched = open_copy(job, f"{db_path}-2")
    pred, pred_failed, _ = execute_queries(pred_sqls, db_path, conn)
    sol, sol_failed, _ = execute_queries(sol_sqls, "", untouched)
    if pred_failed or sol_failed or not pred or not sol:
        return 0
    conditions = conditions or {}
    places = conditions.get("decimal")
    if places is None:
        places = 2
    pred = preprocess_results(pred, places)
    sol = preprocess_results(sol, places)
    if conditions.get("order"):
        return int(pred == sol)
    return int({*pred} == {*sol})


def same_rows(
    pred_sqls: list[str], sol_sqls: list[str], db_path: str, conn: Any, conditions: Any = None
) -> None:
    """Fail unless both last statements have the same rows, the word DISTINCT aside."""
    statements = remove_distinct(pred_sqls), remove_distinct(sol_sqls)
    assert ex_base(*statements, db_path, conn, conditions) == 1, "the rows differ"


HELPERS: dict[str, Any] = {
    **{name: value for name, value in globals().items() if inspect.isfunction(value)},
    "test_case_default": same_rows,
}


def open_copy(job: dict[str, Any], path: str) -> sqlite3.Connection:
    """Return a connection to a new copy of the database after the setup. On it, no statement makes
    temporary tables, which would hide others from the tests, or attaches files."""
    shutil.copyfile(job["original"], path)
    conn = sqlite3.connect(path, isolation_level=None)
    for statement in job["setup"]:
        conn.execute(statement)
    conn.set_authorizer(
        lambda action, *_: sqlite3.SQLITE_DENY if action in _DENIED else sqlite3.SQLITE_OK
    )
    return conn


def run(source: str, job: dict[str, Any]) -> str:
    """Return why a test failed, "" if it passed."""
    scope = dict(HELPERS)
    try:
        conn = open_copy(job, job["copy"])
        exec(compile(source, "test_case", "exec"), scope)
        test = scope["test_case"]
        arguments = (job["pred_sqls"], job["sol_sqls"], job["copy"], conn, job["conditions"])
        result = test(*arguments[: len(inspect.signature(test).parameters)])
    except (Exception, SystemExit) as error:
        return f"{type(error).__name__}: {error}"[:500]
    if result is None or result:
        return ""
    return f"returned {result!r}"[:500]


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        job = json.load(file)
    reasons = [run(source, job) for source in job["test_cases"]]
    print("\n" + json.dumps({job["nonce"]: reasons}))
