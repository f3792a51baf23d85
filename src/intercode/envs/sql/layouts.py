"""Published layouts of SQL tasks, recognized by the fields of their records.

    BIRD      question_id (not in train), db_id, question, evidence, SQL, difficulty
    Spider    db_id, query, question; here `query` is the gold
    SParC     database_id, interaction, final; the task is the final question. CoSQL has it too
    LiveSQLBench                   instance_id, selected_database, query, sol_sql, conditions
    BIRD-Interact                  the same, and amb_user_query: the ambiguous query that is asked

Other fields are unchanged.
"""

from __future__ import annotations

from intercode.envs.sql.documents import read_interact
from intercode.tasks import Layout, Record


def _read_bird(record: Record) -> Record:
    return _renamed(record, question_id="id", question="query", SQL="gold")


def _read_spider(record: Record) -> Record:
    return _renamed(record, question="query", query="gold")


def _read_sparc(record: Record) -> Record:
    final = record["final"]
    converted = _renamed(record, database_id="db")
    return {**converted, "query": final["utterance"], "gold": final["query"]}


def _read_livesqlbench(record: Record) -> Record:
    converted = _renamed(record, instance_id="id", selected_database="db", sol_sql="gold")
    converted["order_counts"] = (record.get("conditions") or {}).get("order")
    return read_interact(record, converted) if record.get("amb_user_query") else converted


def _renamed(record: Record, **names: str) -> Record:
    return {names.get(name, name): value for name, value in record.items()}


LAYOUTS: tuple[Layout, ...] = (
    (("question", "SQL", "db_id"), _read_bird),
    (("question", "query", "db_id"), _read_spider),
    (("database_id", "interaction", "final"), _read_sparc),
    (("instance_id", "selected_database", "sol_sql"), _read_livesqlbench),
)
