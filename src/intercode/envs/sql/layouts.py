"""Published layouts of SQL tasks, told apart by the fields of their records.

    BIRD      question_id (not in train), db_id, question, evidence, SQL, difficulty
    Spider    db_id, query, question; here `query` is the gold
    SParC     database_id, interaction, final; the task is the final question. CoSQL has it too
    LiveSQLBench, BIRD-Interact    instance_id, selected_database, query, sol_sql, conditions

Other fields are unchanged.
"""

from __future__ import annotations

from intercode.tasks import Layout, Record


def _read_bird(record: Record) -> Record:
    names = {"question_id": "id", "question": "query", "SQL": "gold"}
    return {names.get(name, name): value for name, value in record.items()}


def _read_spider(record: Record) -> Record:
    names = {"question": "query", "query": "gold"}
    return {names.get(name, name): value for name, value in record.items()}


def _read_sparc(record: Record) -> Record:
    final = record["final"]
    kept = {name: value for name, value in record.items() if name != "database_id"}
    return {
        **kept,
        "query": final["utterance"],
        "gold": final["query"],
        "db": record["database_id"],
    }


def _read_livesqlbench(record: Record) -> Record:
    names = {"instance_id": "id", "selected_database": "db", "sol_sql": "gold"}
    converted = {names.get(name, name): value for name, value in record.items()}
    return {**converted, "order_counts": (record.get("conditions") or {}).get("order")}


LAYOUTS: tuple[Layout, ...] = (
    (("question", "SQL", "db_id"), _read_bird),
    (("question", "query", "db_id"), _read_spider),
    (("database_id", "interaction", "final"), _read_sparc),
    (("instance_id", "selected_database", "sol_sql"), _read_livesqlbench),
)
