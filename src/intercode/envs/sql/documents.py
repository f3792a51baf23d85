"""Documents that agents of BIRD-Interact may look up, each for a part of their budget.

    schema              DB_schema.txt next to the database, or else its statements
    meaning TABLE.COLUMN                  DB_column_meaning_base.json
    knowledge NAME                        DB_kb.jsonl, but for what the task hides

`meaning` and `knowledge` alone list the names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from intercode.errors import DataError
from intercode.reading import leave_out, present, read_text
from intercode.types import Task
from intercode.user import stems

COSTS = {"schema": 1, "meaning": 0.5, "knowledge": 0.5}
"""Parts of the budget for questions, as in BIRD-Interact (arXiv 2510.05318)."""
Documents = Mapping[str, Mapping[str, str]]
"""By word and name; `schema` has one text, of the name ""."""
ASK_COST, BASE_BUDGET, _LONGEST_REPLY = 2, 12, 400
_OF_FIRST = ("query", "gold", "golds", "test_cases", "order_counts", "unclarified", "general")
"""Fields that hold for the first round alone, if a record has a `follow_up`."""


def read_documents(folder: Path, name: str) -> Documents:
    """Return the documents of a database; a file that is missing has none, and one that cannot be
    read is left out with a warning."""
    documents = {}
    for word, ending, read in (
        ("schema", "schema.txt", _schema),
        ("meaning", "column_meaning_base.json", _meanings),
        ("knowledge", "kb.jsonl", _knowledge),
    ):
        file = folder / f"{name}_{ending}"
        if not present(file):
            continue
        try:
            documents[word] = read(read_text(file, folder))
        except (DataError, ValueError, TypeError, AttributeError, KeyError) as error:
            leave_out(error)
    return documents


def _schema(text: str) -> dict[str, str]:
    return {"": text}


def _meanings(text: str) -> dict[str, str]:
    """Return the meanings by TABLE.COLUMN; the keys of the file are `db|table|column`."""
    meanings = {}
    for key, meaning in json.loads(text).items():
        if not isinstance(meaning, str):
            meaning = json.dumps(meaning)
        meanings[".".join(key.split("|")[1:])] = meaning
    return meanings


def _knowledge(text: str) -> dict[str, str]:
    knowledge = {}
    for line in text.splitlines():
        if line.strip():
            entry = json.loads(line)
            texts = filter(None, map(entry.get, ("description", "definition")))
            knowledge[f"{entry['id']}|{entry['knowledge']}"] = "\n".join(map(str, texts))
    return knowledge


def document_of(documents: Documents, task: Task, word: str, name: str) -> str | None:
    """Return the text that a task's agent looks up, the names if `name` is empty, or None if
    there is none of that name. Case and spaces do not matter."""
    texts = documents.get(word, {})
    if word == "knowledge":
        hidden = [*map(str, task.extra.get("hidden_knowledge") or ())]
        shown = {}
        for key, text in texts.items():
            number, _, title = key.partition("|")
            if number not in hidden:
                shown[title] = text
        texts = shown
    if not name:
        return texts.get("", "\n".join(texts) or None)
    for title, text in texts.items():
        if "".join(title.lower().split()) == "".join(name.lower().split()):
            return text
    return None


def read_interact(record: dict[str, Any], converted: dict[str, Any]) -> dict[str, Any]:
    """Return a record of BIRD-Interact with its ambiguities as facets, and its follow-up as a
    second round. `converted` is the record as one of LiveSQLBench."""
    ambiguous = record.get("user_query_ambiguity") or {}
    unknown = record.get("knowledge_ambiguity") or []
    facets = []
    for entry in (
        *(ambiguous.get("critical_ambiguity") or ()),
        *(ambiguous.get("non_critical_ambiguity") or ()),
        *unknown,
    ):
        term = str(entry.get("term", ""))
        snippet = entry.get("sql_snippet")
        if stems(term) and snippet:
            # the term, or one of its longer words, asks for it
            words = [word for word in term.replace("_", " ").split() if len(word) > 3]
            facets.append(
                {
                    "name": term,
                    "asks": [term, *words],
                    "reply": f"By {term!r} I mean this: {snippet}"[:_LONGEST_REPLY],
                }
            )
    follow_up = record.get("follow_up") or {}
    second = {
        "query": follow_up.get("query"),
        "gold": follow_up.get("sol_sql"),
        "test_cases": follow_up.get("test_cases") or [],
        "order_counts": converted["order_counts"],
    }
    return as_rounds(
        {
            **converted,
            "query": record["amb_user_query"],
            "facets": facets,
            "lookups": COSTS,
            "ask_cost": ASK_COST,
            "ask_budget": BASE_BUDGET + ASK_COST * len(facets),
            "hidden_knowledge": [entry.get("deleted_knowledge") for entry in unknown],
            "follow_up": second if second["gold"] else None,
        }
    )


def as_rounds(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record with its `follow_up` as a second round, which begins if the first is solved,
    unless `go_on` says otherwise. The shares are BIRD-Interact's (arXiv 2510.05318)."""
    if not record.get("follow_up") or "gold" not in record:
        return record
    second = {**dict.fromkeys(_OF_FIRST), **record["follow_up"]}
    return {
        "rounds_rule": "own",
        "rounds_reward": [0.7, 0.3],
        "go_on": "solved",
        **record,
        "follow_up": None,
        "rounds": [{}, second],
    }
