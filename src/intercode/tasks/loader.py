"""Make a `Task` of each record of a file.

    file ─► read_file ─► (place, record), … ─► preprocess ─► layout ─► Task

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
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from intercode.errors import DataError, UsageError
from intercode.plugins import describe_error
from intercode.reading import present
from intercode.tasks.formats import Unreadable, kind_of, read_file
from intercode.types import Task, TaskIssue
from intercode.user import FIELDS as ASKING
from intercode.user import facets_of, join_rounds, lookups_of, rounds_in

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
    records: Callable[[Path], Records] | None = None,
    **form: Any,
) -> tuple[list[Task], list[Unread]]:
    """Return the tasks of a file, in its order, from at most `limit` records; and those whose
    records cannot be read. `root` is the folder in which the file must lie, unless the caller has
    named the file itself.

    `records` yields the records of a file or folder, in place of the reader that the file's suffix
    chooses. `form` has the fields of `RecordForm`. Raises `UsageError` when the file cannot be read
    at all or `preprocess` raises, `DataError` when its content is malformed or none of its records
    can be read.
    """
    path = Path(path)
    if limit is not None and limit < 1:
        raise UsageError(f"limit must be at least 1, not {limit}")
    if not present(path):
        raise UsageError(f"{path}: no such file")
    reader = RecordForm(**form)
    if records is None:
        located = read_file(path, root)
    else:
        located = ((f"record {n}", record) for n, record in enumerate(records(path), start=1))
    tasks = []
    bad = []
    numbers = dict[str, int]()
    fields = set[str]()
    for index, (place, record) in enumerate(islice(located, limit)):
        why, where = "", f"{path}: {place}"
        if isinstance(record, Unreadable):
            why = record.why
        else:
            try:
                rounds = rounds_in(reader.converted(record, where), reader.round_fields)
                record, fields = rounds[0], fields.union(*rounds)
                task = join_rounds(tuple(reader.task_of(entry, index) for entry in rounds))
                if (earlier := numbers.setdefault(task.id, index + 1)) != index + 1:
                    why = (
                        f"{path}: records {earlier} and {index + 1}, field 'id': both are "
                        f"{task.id!r}; give each its own, or leave ids out to count from 0"
                    )
                else:
                    tasks.append(task)
            except DataError as error:
                why = f"{where}: {error}"
        if why:
            bad.append((record, index, why))
    if not tasks:
        raise DataError(bad[0][2] if bad else f"{path}: holds no records")
    for name in reader.gold_fields:
        if name not in {*fields, "gold"}:
            raise UsageError(
                f"{path}: no record has the gold field {name!r}; "
                f"records have {', '.join(sorted(fields))}"
            )
    return tasks, [_unread(*entry, numbers.keys()) for entry in bad]


def _unread(record: object, index: int, why: str, ids: Collection[str]) -> Unread:
    """Return a task for a record that cannot be read, with an id that no other task has."""
    id = getattr(record, "id", None)
    if isinstance(record, dict):
        id = record.get("id")
    id = str(index if id is None else id)
    if id in ids:  # the task of another record has this id
        id = f"{id} (left out)"
    return Task(id, query="", gold=""), TaskIssue(why, "unreadable")


# ── one record becomes one task ───────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class RecordForm:
    """The meaning of the fields of records. Errors of the methods do not name the record: the
    caller does.

    `preprocess` gets each raw record and returns the one to use: rename columns, build a gold, and
    the like. A record without `gold` that has all the fields of one of `layouts` is then converted
    by it. `gold_fields` name the fields of that record that hold golds; a record may leave some of
    them empty, and all of them if it has one of the fields `decided_by`, whose tests decide.
    `judged_by` are the fields `order_counts` and `answer_form` that decide here, and `unread` those
    of `DECIDING` that nothing reads; `round_fields` are those that a round may have, empty: any.
    `gold_pattern` matches what can be a gold without tests; None: any text. `between` joins the
    parts of a gold that is a list. `names` are other names of `query`, `id` and `db`:
    ``{"query": "question"}``.
    """

    preprocess: Preprocess | None = None
    layouts: Sequence[Layout] = ()
    gold_fields: Sequence[str] = ("gold",)
    names: Mapping[str, str] = field(default_factory=dict)
    decided_by: Sequence[str] = ()
    judged_by: Sequence[str] = ()
    gold_pattern: re.Pattern[str] | None = None
    unread: Sequence[str] = ()
    round_fields: Collection[str] = ()
    between: str = ";\n"

    def __post_init__(self) -> None:
        query_field = self.names.get("query", "query")
        if query_field in self.gold_fields:
            raise UsageError(
                f"the field {query_field!r} cannot be both a gold and the query; "
                "name the one with the query by --query-field"
            )

    def converted(self, record: Any, where: str) -> Record:
        """Return the record that `preprocess`, or else the function of a layout, makes of one."""
        if not isinstance(record, dict):
            raise DataError(f"expected an object with query and gold, found {kind_of(record)}")
        if self.preprocess is not None:
            try:
                record = self.preprocess(record)
            except DataError:
                raise
            except Exception as error:
                raise UsageError(f"{where}: preprocess raised {describe_error(error)}") from error
            if not isinstance(record, dict):
                raise UsageError(
                    f"{where}: preprocess returned {kind_of(record)}; "
                    "it must return the record as a dict"
                )
        for columns, convert in self.layouts:
            if "gold" not in record and record.keys() >= set(columns):
                try:
                    return convert(record)
                except (TypeError, ValueError, LookupError, AttributeError) as error:
                    raise DataError(
                        f"has the fields of a published layout ({', '.join(columns)}), but "
                        f"not their form ({describe_error(error)})"
                    ) from error
        return record

    def task_of(self, record: Record, index: int) -> Task:
        """Return the task of a converted record. Raises `DataError` for a malformed one."""
        for name in self.unread:
            if record.get(name, "") not in _EMPTY:
                raise DataError(
                    f"field {name!r} affects scoring, but nothing here reads it; "
                    "write it as tests that this environment knows, or remove it"
                )
        fields = {}
        for name, value in record.items():
            try:
                json.dumps((name, value), ensure_ascii=False, skipkeys=True, default=str).encode()
            except UnicodeEncodeError as error:  # such a text can neither be executed nor stored
                raise DataError(f"field {name!r} holds half a surrogate pair; remove it") from error
            if value is not None and not (isinstance(value, float) and math.isnan(value)):
                fields[name] = value
        has_tests = not record.keys().isdisjoint(self.decided_by)
        self._require_fields(fields, record, has_tests)
        golds = self._golds(fields, optional=has_tests)
        for ours, name in self.names.items():
            fields[ours] = fields.pop(name)
        for name in (*_JUDGING, "files_count"):
            if fields.get(name) == "":  # an empty cell
                del fields[name]
        for name, use in _JUDGING.items():
            if name in fields and name not in self.judged_by:
                raise DataError(f"field {name!r} has no effect here: {use}")
        for name in {"general", "order_counts", "files_count"} & fields.keys():
            word = str(fields[name]).strip().lower()
            if word not in _TRUE | _FALSE:
                raise DataError(f"field {name!r} is {fields[name]!r}; write true or false")
            fields[name] = word in _TRUE
        if fields.get("answer_form", "any") not in ANSWER_FORMS:
            forms = ", ".join(map(repr, ANSWER_FORMS))
            raise DataError(f"field 'answer_form' is {fields['answer_form']!r}; write {forms}")
        id = fields.pop("id", "")
        if id == "":
            id = index
        if type(id) is int:
            id = str(id)
        task = Task(
            id=_text(id, "id"),
            query=_text(fields.pop("query"), "query"),
            gold=golds[0] if golds else "",
            extra=fields,
            golds=tuple(golds),
        )
        facets_of(fields)
        lookups_of(fields)
        return task

    def _require_fields(self, fields: Record, record: Record, has_tests: bool) -> None:
        """Raise a `DataError` for missing fields. It says what to do: to name the fields, where
        that makes the record playable."""
        lacking = {}
        golds = [*self.gold_fields, "golds"]
        has_gold = golds[0] in fields or any(fields.get(name, "") != "" for name in golds)
        if not has_tests and not has_gold:
            lacking["gold"] = golds[0]
        for ours, name in {"query": "query", **self.names}.items():
            if name not in fields:
                lacking[ours] = name
        if not lacking:
            return
        names = " and ".join(map(repr, lacking.values()))
        what = f"field {names} is" if len(lacking) == 1 else f"fields {names} are"
        why = f"{what} missing; the record has {', '.join(map(str, record))}"
        texts = [name for name, value in record.items() if name != "id" and isinstance(value, str)]
        advice = [
            f"the one with its {name} by --{name}-field" for name in lacking if name != "gold"
        ]
        if "gold" in lacking:
            golds = texts[1:]
            if self.gold_pattern is not None:
                golds = [name for name in texts if self.gold_pattern.match(record[name])]
                if "query" in golds:
                    advice.append("the one with its query by --query-field")
            if not 0 < len(golds) < len(texts):
                raise DataError(
                    f"{why}: none of these can be its gold, and it has no tests; "
                    "--preprocess FILE:FUNCTION converts other layouts"
                )
            advice.insert(0, "the one with its gold by --gold-fields")
        raise DataError(f"{why}: name {', '.join(advice)}")

    def _golds(self, fields: Record, *, optional: bool) -> list[str]:
        """Remove the golds from the fields and return them: those of the fields `gold_fields` that
        are not empty, then the list `golds`."""
        more = fields.pop("golds", [])
        if not isinstance(more, list):
            raise DataError(f"field 'golds' is {kind_of(more)}; write a list of golds")
        named = [(name, fields.pop(name, None)) for name in self.gold_fields]
        pairs = [(name, gold) for name, gold in named if gold not in (None, "")]
        pairs += [("golds", gold) for gold in more]
        golds = []
        for name, gold in pairs if pairs or optional else named[:1]:
            if optional and is_comment(gold):
                continue
            if isinstance(gold, list):
                gold = self.between.join(_text(part, name) for part in gold)
            golds.append(_text(gold, name))
        return golds


def near_fields(
    tasks: Iterable[Task], known: Iterable[str], columns: Collection[str] = ()
) -> list[str]:
    """Return a sentence for each field that is neither `known` nor in a layout's `columns`, and is
    within one edit of a known one, which its task lacks: `verfy`, but not `test` if the task has
    `tests`."""
    read = [name for name in (*ALL_READ, *known) if len(name) > _SHORT]
    near: dict[str, list[str]] = {name: [] for name in (*read, *columns)}
    sentences = dict[tuple[str, str], str]()
    for task in tasks:
        present_names = {"query", *task.extra}
        if task.gold:
            present_names |= {"gold", "golds"}
        for name in map(str, task.extra):
            if name not in near:
                near[name] = [other for other in read if _is_near(name, other)]
            for other in near[name]:
                if other not in present_names:
                    sentences.setdefault(
                        (name, other),
                        f"the field {name!r} (task {task.id}) is not read; did you mean {other!r}?",
                    )
    return list(sentences.values())


def _is_near(word: str, other: str) -> bool:
    """Return whether one edit leads from a word to the other: a letter more, less or changed, or
    two neighbours exchanged."""
    while word and word[0] == other[:1]:
        word, other = word[1:], other[1:]
    exchanged = word[1::-1] + word[2:]
    return word[1:] in (other[1:], other) or word == other[1:] or exchanged == other


def is_comment(gold: object) -> bool:
    """Return whether a gold consists of comments, as in a solution that is to be written."""
    if not isinstance(gold, str):
        return False
    lines = list(map(str.strip, gold.splitlines()))
    return bool(lines) and all(line.startswith("#") for line in lines if line)


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise DataError(f"field {field!r} is {kind_of(value)}; write it as text, in quotes")
    if not value.strip():
        elsewhere = "; some sets have golds in another file: merge both"
        if field == "query":
            elsewhere = ""
        raise DataError(f"field {field!r} is empty; every record needs query and gold{elsewhere}")
    if "\0" in value:
        raise DataError(
            f"field {field!r} contains a NUL character, which no command can carry; remove it"
        )
    return value
