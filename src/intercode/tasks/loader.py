"""Make a `Task` of each record of a file.

    file ─► read_file ─► (place, record), … ─► preprocess ─► layout ─► _to_task ─► Task

Each record needs `query`, and `gold` unless its tests decide; `id` is optional; every other field
goes to `Task.extra` as it is. Every error names the file, the place in it ("line 7", or "record 3"
where there are no lines) and the field.

Decided here:
- A missing `id` is the record's index in the file, from 0, as in the published logs. Ids are
  unique.
- A gold may be a list of strings, which are joined (the paper's form of a gold of several
  commands).
- `golds` is a list of alternative golds. If a record has no `gold`, the first of them is the gold.
- Numbers are not accepted for `query` or `gold`, since reading changes 007 and 1.50. Quote them.
- A null field (None, NaN) counts as absent. `general`, which is text in CSV, becomes a bool.
- Records beyond `limit` are not read.
- A field that decides elsewhere (`DECIDING`) and that nothing reads here is refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from intercode.errors import DataError, UsageError
from intercode.plugins import describe_error
from intercode.reading import present
from intercode.tasks.formats import Unreadable, kind_of, read_file
from intercode.types import Task, TaskIssue
from intercode.user import FIELDS as ASKING
from intercode.user import facets_of, lookups_of

Record = dict[str, Any]
Records = Iterable[Record | Unreadable]
"""Records that a reader of folders yields, with an `Unreadable` for each that cannot be read."""
Preprocess = Callable[[Record], Record]
Layout = tuple[Sequence[str], Preprocess]
"""A published layout: the fields of its records, and the function that returns a record as one with
`query` and `gold`. The function leaves its argument as it is, and keeps fields that it need not
convert. It raises `DataError` for a record that it cannot read."""
ANSWER_FORMS = ("only", "any", "none")
_JUDGING = {
    "order_counts": "it is for answers in Bash and rows in SQL",
    "answer_form": "it is for answers in Bash",
}
"""Fields in which an author settles what the wording of a query leaves open."""
DECIDING = ("test_cases", "preprocess_sql", "follow_up", "tests", "verify")
"""Fields that decide about an answer, or about what it is executed on, in some environment or
published set. An environment that does not read them would judge by the gold alone."""
_EMPTY: tuple[object, ...] = (None, "", "[]", [], {})
ALL_READ = ("query", "gold", "golds", "id", "general", "split", *ASKING)
"""The fields that every environment reads."""
_SHORT = 3
"""Words with this many letters or fewer are within one edit of too many others."""
_TRUE, _FALSE = {"true", "1", "yes"}, {"false", "0", "no", ""}


Unread = tuple[Task, TaskIssue]
"""A task without what its record lacks, and why the record cannot be read."""


def load_tasks(path: str | Path, **options: Any) -> list[Task]:
    """Return the tasks of a file, all of which can be read. Takes the arguments of `read_tasks`.

    Raises `UsageError` when the file cannot be read at all or `preprocess` raises, `DataError` when
    its content is malformed.
    """
    tasks, unread = read_tasks(path, **options)
    if unread:
        raise DataError(unread[0][1])
    return tasks


def read_tasks(
    path: str | Path,
    *,
    root: Path | None = None,
    limit: int | None = None,
    preprocess: Preprocess | None = None,
    layouts: Sequence[Layout] = (),
    gold_fields: Sequence[str] = ("gold",),
    names: Mapping[str, str] | None = None,
    decided_by: Sequence[str] = (),
    judged_by: Sequence[str] = (),
    gold_pattern: re.Pattern[str] | None = None,
    unread: Sequence[str] = (),
    between: str = ";\n",
    records: Callable[[Path], Records] | None = None,
) -> tuple[list[Task], list[Unread]]:
    """Return the tasks of a file, in its order, from at most `limit` records; and those whose
    records cannot be read.

    `root` is the folder in which the file must lie, unless the caller has named the file itself.
    `records` yields the records of a file or folder, in place of the reader that the file's suffix
    chooses.

    `preprocess` gets each raw record and returns the one to use: rename columns, build a gold, and
    the like. A record without `gold` that has all the fields of one of `layouts` is then converted
    by it. `gold_fields` name the fields of that record that hold golds; a record may leave some of
    them empty, and all of them if it has one of the fields `decided_by`, whose tests decide.
    `judged_by` are the fields `order_counts` and `answer_form` that decide here, and `unread` those
    of `DECIDING` that nothing reads. `gold_pattern` matches what can be a gold without tests; None:
    any text. `between` joins the parts of a gold that is a list.
    `names` are other names of `query`, `id` and `db`: ``{"query": "question"}``. Raises
    `UsageError` when the file cannot be read at all or `preprocess` raises, `DataError` when its
    content is malformed or none of its records can be read.
    """
    path = Path(path)
    if limit is not None and limit < 1:
        raise UsageError(f"limit must be at least 1, not {limit}")
    if not present(path):
        raise UsageError(f"{path}: no such file")
    names = names or {}
    if (asked := names.get("query", "query")) in gold_fields:
        raise UsageError(
            f"the field {asked!r} cannot be both a gold and the query; "
            "name the one with the query by --query-field"
        )
    located = (
        read_file(path, root)
        if records is None
        else ((f"record {number}", record) for number, record in enumerate(records(path), start=1))
    )
    tasks, bad = list[Task](), list[Unread]()
    numbers, fields = dict[str, int](), set[str]()
    for index, (place, record) in enumerate(islice(located, limit)):
        where = f"{path}: {place}"
        try:
            if isinstance(record, Unreadable):
                raise DataError(record.why)
            record = _from_layout(_preprocessed(record, preprocess, where), layouts, where)
            fields |= record.keys()
            for name in unread:
                if record.get(name, "") not in _EMPTY:
                    raise DataError(
                        f"{where}: field {name!r} affects scoring, but nothing here reads it; "
                        "write it as tests that this environment knows, or remove it"
                    )
            task = _to_task(
                record,
                index,
                where,
                gold_fields,
                names,
                decided_by,
                judged_by,
                gold_pattern,
                between,
            )
            if (earlier := numbers.setdefault(task.id, index + 1)) != index + 1:
                raise DataError(
                    f"{path}: records {earlier} and {index + 1}, field 'id': both are {task.id!r}; "
                    "give each its own, or leave ids out to count from 0"
                )
            tasks.append(task)
        except DataError as error:
            given = record.get("id") if isinstance(record, dict) else getattr(record, "id", None)
            id = str(index if given is None else given)
            bad.append((Task(id, query="", gold=""), TaskIssue(str(error), "unreadable")))
    if not tasks:
        raise DataError(bad[0][1] if bad else f"{path}: holds no records")
    if unknown := [name for name in gold_fields if name not in {*fields, "gold"}]:
        raise UsageError(
            f"{path}: no record has the gold field {unknown[0]!r}; "
            f"records have {', '.join(sorted(fields))}"
        )
    # the task of another record has this id
    return tasks, [
        (replace(task, id=f"{task.id} (left out)") if task.id in numbers else task, why)
        for task, why in bad
    ]


# ── one record becomes one task ───────────────────────────────────────────────────────────────────


def _preprocessed(record: Any, preprocess: Preprocess | None, where: str) -> Record:
    if not isinstance(record, dict):
        raise DataError(f"{where}: expected an object with query and gold, found {kind_of(record)}")
    if preprocess is None:
        return record
    try:
        record = preprocess(record)
    except DataError as error:
        raise DataError(f"{where}: {error}") from error
    except Exception as error:
        raise UsageError(f"{where}: preprocess raised {describe_error(error)}") from error
    if not isinstance(record, dict):
        raise UsageError(
            f"{where}: preprocess returned {kind_of(record)}; it must return the record as a dict"
        )
    return record


def _from_layout(record: Record, layouts: Sequence[Layout], where: str) -> Record:
    for columns, convert in layouts if "gold" not in record else ():
        if record.keys() >= set(columns):
            try:
                return convert(record)
            except DataError as error:
                raise DataError(f"{where}: {error}") from error
            except (TypeError, ValueError, LookupError, AttributeError) as error:
                raise DataError(
                    f"{where}: has the fields of a published layout ({', '.join(columns)}), but "
                    f"not their form ({describe_error(error)})"
                ) from error
    return record


def _to_task(
    record: Record,
    index: int,
    where: str,
    gold_fields: Sequence[str],
    names: Mapping[str, str],
    decided_by: Sequence[str],
    judged_by: Sequence[str],
    gold_pattern: re.Pattern[str] | None,
    between: str,
) -> Task:
    absent = {
        name
        for name, value in record.items()
        if value is None or (isinstance(value, float) and math.isnan(value))
    }
    fields = {name: value for name, value in record.items() if name not in absent}
    for field in record.items():
        try:
            json.dumps(field, ensure_ascii=False, skipkeys=True, default=str).encode()
        except UnicodeEncodeError as error:  # such a text can neither be executed nor stored
            raise DataError(
                f"{where}: field {field[0]!r} holds half a surrogate pair; remove it"
            ) from error
    has_tests = any(name in record for name in decided_by)
    lacking = {
        ours: name for ours, name in {"query": "query", **names}.items() if name not in fields
    }
    has_gold = any(fields.get(name) not in (None, "") for name in (*gold_fields, "golds"))
    if not (has_tests or has_gold or gold_fields[0] in fields):
        lacking = {"gold": gold_fields[0], **lacking}
    if lacking:
        raise _missing(lacking, record, where, gold_pattern)
    golds = _golds(fields, gold_fields, where, between, optional=has_tests)
    for ours, name in names.items():
        fields[ours] = fields.pop(name)
    for name in _JUDGING:
        if fields.get(name) == "":  # an empty cell
            del fields[name]
        if name in fields and name not in judged_by:
            raise DataError(f"{where}: field {name!r} has no effect here: {_JUDGING[name]}")
    if fields.get("files_count") == "":  # an empty cell
        del fields["files_count"]
    for name in {"general", "order_counts", "files_count"} & fields.keys():
        word = str(fields[name]).strip().lower()
        if word not in _TRUE | _FALSE:
            raise DataError(f"{where}: field {name!r} is {fields[name]!r}; write true or false")
        fields[name] = word in _TRUE
    if fields.get("answer_form", "any") not in ANSWER_FORMS:
        forms = ", ".join(map(repr, ANSWER_FORMS))
        raise DataError(f"{where}: field 'answer_form' is {fields['answer_form']!r}; write {forms}")
    id = fields.pop("id", "")
    if id == "":
        id = str(index)
    task = Task(
        id=str(id) if type(id) is int else _text(id, "id", where),
        query=_text(fields.pop("query"), "query", where),
        gold=golds[0] if golds else "",
        extra=fields,
        golds=golds,
    )
    try:
        facets_of(fields)
        lookups_of(fields)
    except DataError as error:
        raise DataError(f"{where}: {error}") from error
    return task


def _missing(
    lacking: Mapping[str, str], record: Record, where: str, gold_pattern: re.Pattern[str] | None
) -> DataError:
    """Return an error that says what to do: to name the fields, where that makes the record
    playable."""
    names = " and ".join(repr(name) for name in lacking.values())
    what = f"field {names} is" if len(lacking) == 1 else f"fields {names} are"
    text = f"{where}: {what} missing; the record has {', '.join(map(str, record))}"
    texts = [name for name, value in record.items() if name != "id" and isinstance(value, str)]
    advice = [f"the one with its {name} by --{name}-field" for name in lacking if name != "gold"]
    if "gold" in lacking:
        golds = texts[1:]
        if gold_pattern is not None:
            golds = [name for name in texts if gold_pattern.match(record[name])]
            if "query" in golds:
                advice.append("the one with its query by --query-field")
        if not 0 < len(golds) < len(texts):
            return DataError(
                f"{text}: none of these can be its gold, and it has no tests; "
                "--preprocess FILE:FUNCTION converts other layouts"
            )
        advice.insert(0, "the one with its gold by --gold-fields")
    return DataError(f"{text}: name {', '.join(advice)}")


def near_fields(
    tasks: Iterable[Task], known: Iterable[str], columns: Collection[str] = ()
) -> list[str]:
    """Return a sentence for each field that is neither `known` nor in a layout's `columns`, and is
    within one edit of a known one, which its task lacks: `verfy`, but not `test` beside `tests`.
    """
    read = [name for name in (*ALL_READ, *known) if len(name) > _SHORT]
    by_field: dict[str, list[str]] = {field: [] for field in (*read, *columns)}
    sentences = dict[tuple[str, str], str]()
    for task in tasks:
        there = {"query", *(("gold", "golds") if task.gold else ()), *task.extra}
        for field in map(str, task.extra):
            if field not in by_field:
                by_field[field] = [name for name in read if _is_near(field, name)]
            for name in by_field[field]:
                if name not in there:
                    sentence = (
                        f"the field {field!r} (task {task.id}) is not read; did you mean {name!r}?"
                    )
                    sentences.setdefault((field, name), sentence)
    return list(sentences.values())


def _is_near(word: str, other: str) -> bool:
    """Return whether one edit leads from a word to the other: a letter more, less or changed, or
    two neighbours exchanged."""
    pairs = enumerate(zip(word, other, strict=False))
    first = next((place for place, (a, b) in pairs if a != b), min(len(word), len(other)))
    word, other = word[first:], other[first:]
    exchanged = word[1::-1] + word[2:]
    return word[1:] in (other[1:], other) or word == other[1:] or exchanged == other


def _golds(
    fields: Record, names: Sequence[str], where: str, between: str, *, optional: bool
) -> tuple[str, ...]:
    """Remove the golds from the fields and return them: the non-empty fields `names`, then the list
    `golds`."""
    more = fields.pop("golds", [])
    named = [(name, fields.pop(name, None)) for name in names]
    if not isinstance(more, list):
        raise DataError(f"{where}: field 'golds' is {kind_of(more)}; write a list of golds")
    given = [(name, gold) for name, gold in named if gold not in (None, "")] + [
        ("golds", gold) for gold in more
    ]
    if optional:
        given = [(name, gold) for name, gold in given if not is_comment(gold)]
    if optional and not given:
        return ()
    texts = [
        (name, between.join(_text(part, name, where) for part in gold))
        if isinstance(gold, list)
        else (name, gold)
        for name, gold in given or named[:1]
    ]
    return tuple(_text(text, name, where) for name, text in texts)


def is_comment(gold: object) -> bool:
    """Return whether a gold consists of comments, as in a solution that is to be written."""
    lines = gold.splitlines() if isinstance(gold, str) else ()
    return bool(lines) and all(line.strip().startswith("#") for line in lines if line.strip())


def _text(value: Any, field: str, where: str) -> str:
    if not isinstance(value, str):
        raise DataError(
            f"{where}: field {field!r} is {kind_of(value)}; write it as text, in quotes"
        )
    if not value.strip():
        elsewhere = "" if field == "query" else "; some sets have golds in another file: merge both"
        raise DataError(
            f"{where}: field {field!r} is empty; every record needs query and gold{elsewhere}"
        )
    if "\0" in value:
        raise DataError(
            f"{where}: field {field!r} contains a NUL character, "
            "which no command can carry; remove it"
        )
    return value
