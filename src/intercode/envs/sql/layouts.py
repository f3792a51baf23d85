"""Published layouts of SQL tasks, recognized by the fields of their records.

    BIRD      question_id (not in train), db_id, question, evidence, SQL, difficulty
    Spider    db_id, query, question; here `query` is the gold
    SParC     database_id, interaction, final; the task is the final question. CoSQL has it too
    LiveSQLBench                   instance_id, selected_database, query, sol_sql, conditions
    BIRD-Interact                  the same, and amb_user_query: the ambiguous query that is asked
    DBBench   description, add_description, table, label, type; the table is in the record. The
              gold returns the label, as texts or as numbers, in a column or in a row; of a task
              that changes the table, it is the published statement

Other fields are unchanged.
"""

from __future__ import annotations

import re
from functools import partial

from intercode.envs.sql.databases import in_backticks
from intercode.envs.sql.dialect import write_standard_text
from intercode.envs.sql.documents import read_interact
from intercode.errors import DataError
from intercode.tasks import Layout, Record

_CHANGES = {"INSERT", "UPDATE", "DELETE"}
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def _read_sparc(record: Record) -> Record:
    final = record["final"]
    converted = _renamed(record, database_id="db")
    return {**converted, "query": final["utterance"], "gold": final["query"]}


def _read_livesqlbench(record: Record) -> Record:
    converted = _renamed(record, instance_id="id", selected_database="db", sol_sql="gold")
    converted["order_counts"] = (record.get("conditions") or {}).get("order")
    if record.get("amb_user_query"):
        return read_interact(record, converted)
    return converted


def _read_dbbench(record: Record) -> Record:
    """As in the set's harness, all columns are texts."""
    name = in_backticks(record["table"]["table_name"])
    info = record["table"]["table_info"]
    columns = " TEXT, ".join(in_backticks(column["name"]) for column in info["columns"])
    rows = [f"({', '.join(map(_literal, row))})" for row in info["rows"]]
    table = [f"CREATE TABLE {name} ({columns} TEXT)"]
    if rows:
        table.append(f"INSERT INTO {name} VALUES {', '.join(rows)}")
    query = f"{record['description']}\n\n{record['add_description']}"
    converted = {**record, "query": query, "preprocess_sql": table, "table": None}
    kinds = [record["type"]] if isinstance(record["type"], str) else record["type"]
    if _CHANGES.isdisjoint(kinds):
        return {**converted, "golds": _returning(record["label"]), "golds_are": "forms"}
    return {**converted, "golds": [record["sql"]["query"]], "golds_are": None}


def _literal(value: object) -> str:
    """Return a value as a text of both engines. MariaDB reads escapes in texts."""
    if value is None:
        return "NULL"
    text = str(value)
    if "\\" in text:
        return f"CAST(X'{text.encode().hex()}' AS CHAR)"
    return write_standard_text(text)


def _returning(label: object) -> list[str]:
    """Return statements that return the answers of a label, of which only the texts are known: as
    texts and, if they are numbers, as numbers; several in a column and in a row."""
    if not isinstance(label, list) or not label:
        raise DataError(f"its label is {label!r:.60}, which no rows of one column can be")
    golds = []
    texts = [*map(str, label)]
    numbers = [text if _NUMBER.fullmatch(text) else _literal(text) for text in texts]
    for form in ([*map(_literal, texts)], numbers):
        golds += ["SELECT " + " UNION ALL SELECT ".join(form), "SELECT " + ", ".join(form)]
    return [*dict.fromkeys(golds)]


def _renamed(record: Record, **names: str) -> Record:
    return {names.get(name, name): value for name, value in record.items()}


LAYOUTS: tuple[Layout, ...] = (
    (
        ("question", "SQL", "db_id"),
        partial(_renamed, question_id="id", question="query", SQL="gold"),
    ),
    (("question", "query", "db_id"), partial(_renamed, question="query", query="gold")),
    (("database_id", "interaction", "final"), _read_sparc),
    (("instance_id", "selected_database", "sol_sql"), _read_livesqlbench),
    (("description", "add_description", "table", "label", "type"), _read_dbbench),
)
