"""Published layouts of SQL tasks, told apart by the fields of their records.

    BIRD      question_id (not in train), db_id, question, evidence, SQL, difficulty
    Spider    db_id, query, question; here `query` is the gold

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


LAYOUTS: tuple[Layout, ...] = (
    (("question", "SQL", "db_id"), _read_bird),
    (("question", "query", "db_id"), _read_spider),
)
