"""Task files of all four formats, and the malformed ones that people write."""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import intercode
from intercode.envs import environment_class
from intercode.errors import DataError, UsageError
from intercode.tasks import load_tasks
from intercode.types import Task
from intercode.validate.check import check_texts

RECORDS: list[dict[str, Any]] = [
    {"query": "count files", "gold": "ls | wc -l", "level": "easy"},
    {"query": 'größte, "erste"\nZeile', "gold": "head -1", "level": "hard"},
]


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    """Writes the records in the format of the suffix."""
    if path.suffix == ".json":
        path.write_text(json.dumps(records), encoding="utf-8")
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    elif path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(records[0]))
            writer.writeheader()
            writer.writerows(records)
    else:
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), path)
    return path


def load_text(tmp_path: Path, suffix: str, text: str | bytes) -> list[Task]:
    path = tmp_path / f"tasks{suffix}"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_tasks(path)


# ── what loads ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".csv", ".parquet"])
def test_every_format_gives_the_same_tasks(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"tasks{suffix}", RECORDS)
    tasks = [
        Task("0", "count files", "ls | wc -l", {"level": "easy"}),
        Task("1", 'größte, "erste"\nZeile', "head -1", {"level": "hard"}),
    ]
    assert load_tasks(path) == tasks
    assert load_tasks(str(path), limit=1) == tasks[:1]
    if suffix != ".parquet":
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
        assert load_tasks(path) == tasks, "a byte order mark"
    records = [{"id": "b", **RECORDS[0]}, {"id": "a", **RECORDS[1]}]
    assert [task.id for task in load_tasks(write(tmp_path / f"ids{suffix}", records))] == ["b", "a"]


EXTRA = {"tests": ["assert f(1)"], "hard": True, "n": 3, "tables": {"a": ["b"]}, "note": ""}
FIELDS: list[tuple[dict[str, Any], Task]] = [
    ({"id": 17}, Task("17", "q", "g")),
    ({"gold": ["cd /tmp", "ls"]}, Task("0", "q", "cd /tmp;\nls")),
    ({"query": " q\n", "gold": "\tprintf x\r\n"}, Task("0", " q\n", "\tprintf x\r\n")),
    (EXTRA, Task("0", "q", "g", EXTRA)),
]


@pytest.mark.parametrize(("fields", "task"), FIELDS)
def test_fields_keep_their_types_and_are_not_stripped(
    tmp_path: Path, fields: dict[str, Any], task: Task
) -> None:
    assert load_tasks(write(tmp_path / "t.json", [{"query": "q", "gold": "g", **fields}])) == [task]


GOLDS: list[tuple[dict[str, Any], list[str], tuple[str, ...]]] = [
    ({"gold": "a", "golds": ["b", "a", ["c", "d"]]}, ["gold"], ("a", "b", "c;\nd")),
    ({"golds": ["b", "a"]}, ["gold"], ("b", "a")),
    ({"gold": "a", "gold2": "b", "gold3": ""}, ["gold2", "gold", "gold3"], ("b", "a")),
]


@pytest.mark.parametrize(("fields", "names", "golds"), GOLDS)
def test_a_record_may_have_alternative_golds(
    tmp_path: Path, fields: dict[str, Any], names: list[str], golds: tuple[str, ...]
) -> None:
    (task,) = load_tasks(write(tmp_path / "t.json", [{"query": "q", **fields}]), gold_fields=names)
    assert (task.gold, task.golds, task.extra) == (golds[0], golds, {})


def test_comments_are_no_gold_where_tests_decide(tmp_path: Path) -> None:
    record = {"query": "q", "gold": "# to be written\n\n  # here", "verify": "true"}
    path = write(tmp_path / "t.json", [record])
    assert load_tasks(path, decided_by=["verify"])[0].golds == ()
    assert load_tasks(path)[0].golds == (record["gold"],)


def test_golds_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    for fields, names, error, words in [
        ({"golds": "a"}, ["gold"], DataError, "'golds' is a text; write a list of golds"),
        (
            {"gold": "a"},
            ["gold", "gold2"],
            UsageError,
            "no record has the gold field 'gold2'; records have gold, query",
        ),
    ]:
        with pytest.raises(error, match=words):
            load_tasks(write(tmp_path / "t.json", [{"query": "q", **fields}]), gold_fields=names)


def test_line_ends_and_blank_lines_of_any_editor_are_read(tmp_path: Path) -> None:
    line = json.dumps({"query": "a\u2028b\u0085c", "gold": "g"}, ensure_ascii=False)
    assert load_text(tmp_path, ".jsonl", f"\r\n{line}\r\n\n  \n{line}") == [
        Task(n, "a\u2028b\u0085c", "g") for n in "01"
    ]
    assert load_text(tmp_path, ".csv", "\nquery,gold\r\n\nq,g\r\n\nq,g\n") == [
        Task(n, "q", "g") for n in "01"
    ]


def test_nulls_in_parquet_count_as_absent(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {"id": None, "query": "q", "gold": ["g"], "hint": None, "weight": math.nan},
        {"id": "x", "query": "q", "gold": ["g"], "hint": "h", "weight": 1.0},
    ]
    tasks = load_tasks(write(tmp_path / "t.parquet", records))
    assert [(task.id, task.extra) for task in tasks] == [
        ("0", {}),
        ("x", {"hint": "h", "weight": 1.0}),
    ]
    with pytest.raises(DataError, match=r"t\.parquet: record 2: field 'query' is missing"):
        load_tasks(write(tmp_path / "t.parquet", [records[0], {**records[1], "query": None}]))


@pytest.mark.parametrize(
    ("word", "general"), [("true", True), ("False", False), ("0", False), ("", False)]
)
def test_general_is_a_truth_value_even_in_csv(tmp_path: Path, word: str, general: bool) -> None:
    assert load_text(tmp_path, ".csv", f"query,gold,general\nq,g,{word}\n")[0].general is general


# ── what does not, and how it says so ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["gone.json", "folder", "tasks.log"])
def test_a_path_that_is_no_task_file_is_wrong_usage(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "tasks.log").write_text("x")
    with pytest.raises(UsageError, match=rf"{name}: (no such file|is a folder|.*must end in)"):
        load_tasks(tmp_path / name)


def test_a_limit_below_one_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="limit"):
        load_tasks(write(tmp_path / "t.json", RECORDS), limit=0)


FIELD = [
    ({"gold": "g"}, "field 'query' is missing"),
    ({"query": "q", "gold": None}, "field 'gold' is missing"),
    ({"query": "", "gold": "g"}, "field 'query' is empty"),
    ({"query": "q", "gold": ["a", ""]}, "field 'gold' is empty"),
    ({"query": "q", "gold": ["a", 1]}, "field 'gold' is a value of type int"),
    ({"query": "q", "gold": 42}, "field 'gold' is a value of type int; write it as text"),
    ({"query": "q", "gold": {"a": 1}}, "field 'gold' is an object"),
    ({"query": "q", "gold": "a\0b"}, "field 'gold' contains a NUL"),
    (
        {"query": "q", "gold": "g", "cases": {"inputs": [{"\ud83d": 1}]}},
        "field 'cases' holds half a surrogate pair",
    ),
    ({"query": "q", "gold": "g", "id": True}, "field 'id' is a truth value"),
    (
        {"query": "q", "gold": "g", "general": "maybe"},
        "field 'general' is 'maybe'; write true or false",
    ),
]


@pytest.mark.parametrize(("record", "message"), FIELD)
def test_a_malformed_field_is_named_with_its_place(
    tmp_path: Path, record: dict[str, Any], message: str
) -> None:
    records = [RECORDS[0], record]
    with pytest.raises(DataError, match=rf"tasks\.json: record 2: {message}"):
        load_text(tmp_path, ".json", json.dumps(records))
    with pytest.raises(DataError, match=rf"tasks\.jsonl: line 3: {message}"):
        load_text(tmp_path, ".jsonl", "\n\n".join(map(json.dumps, records)))


MALFORMED: list[tuple[str, str | bytes, str]] = [
    (".json", "", r"tasks\.json: holds no records"),
    (".json", "[]", "holds no records"),
    (".jsonl", " \n\n", "holds no records"),
    (".csv", "query,gold\n", "holds no records"),
    (
        ".json",
        json.dumps(RECORDS, indent=1)[:-20],
        r"tasks\.json: line \d+, column \d+: is not JSON .*cut short",
    ),
    (
        ".jsonl",
        json.dumps(RECORDS[0]) + '\n{"query": "q", "go',
        r"tasks\.jsonl: line 2, column \d+: is not JSON",
    ),
    (".json", "[" * 200_000, r"tasks\.json: .*JSON"),
    (".json", '{"data": []}', r"tasks\.json: record 1: fields 'gold' and 'query' are missing"),
    (".jsonl", '"a"', "line 1: expected an object with query and gold, found a text"),
    (".csv", 'query,gold\n"two\nlines",g\nq,\n', r"tasks\.csv: line 4: field 'gold' is missing"),
    (".csv", "query,gold\nq,g\nq,g,more\n", r"line 3: \d fields where the header has 2"),
    (".csv", 'query,gold\nq,g\n"open,g\nq,g\nq,g\n', r"line 3: .*quote left open"),
    (
        ".csv",
        b"query,gold\n" + b"x" * (2**24 + 1) + b",g\n",
        r"line 2: .*field larger than field limit",
    ),
    (".csv", "query,gold,gold\nq,g,h\n", "line 1: the header names 'gold' more than once"),
    (".csv", "one\nfür".encode("latin-1"), r"tasks\.csv: line 2: byte 0xfc is not UTF-8; save"),
    (".json", "one\nfür".encode("utf-16"), r"tasks\.json: line 1: byte 0xff is not UTF-8; save"),
    (".parquet", b"PAR1" + b"x" * 100 + b"PAR1", r"tasks\.parquet: is not a readable parquet file"),
]


@pytest.mark.parametrize(
    ("suffix", "text", "message"), MALFORMED, ids=[message for *_, message in MALFORMED]
)
def test_a_malformed_file_says_where_and_why(
    tmp_path: Path, suffix: str, text: str | bytes, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        load_text(tmp_path, suffix, text)


def test_equal_ids_are_refused_and_both_records_named(tmp_path: Path) -> None:
    records = [{"id": "a", **RECORDS[0]}, RECORDS[1], {"id": "a", **RECORDS[1]}]
    with pytest.raises(DataError, match="records 1 and 3, field 'id': both are 'a'"):
        load_tasks(write(tmp_path / "t.json", records))
    with pytest.raises(DataError, match="records 1 and 2, field 'id': both are '1'"):
        load_tasks(write(tmp_path / "t.json", [{"id": 1, **RECORDS[0]}, RECORDS[1]]))


def test_without_pyarrow_the_error_says_what_to_install(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", RECORDS)
    source = Path(intercode.__file__).parents[1]
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from intercode.tasks import load_tasks; "
        "load_tasks(sys.argv[2])"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, source, path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "UsageError" in done.stderr
    assert "pip install pyarrow" in done.stderr


def test_preprocess_builds_records_and_is_named_where_it_fails(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", [{"nl": "count", "bash": "wc"}])
    assert load_tasks(
        path, preprocess=lambda record: {"query": record["nl"], "gold": record["bash"]}
    ) == [Task("0", "count", "wc")]
    wrong: list[tuple[Callable[..., Any], str]] = [
        (
            lambda record: {"query": record["q"]},
            r"t\.json: record 1: preprocess raised KeyError: 'q' \(test_loader\.py, line",
        ),
        (
            lambda *, nothing: {},
            r"preprocess raised TypeError: .*lambda>\(\) takes 0 positional.*given$",
        ),
        (lambda record: None, "record 1: preprocess returned null"),
    ]
    for preprocess, said in wrong:
        with pytest.raises(UsageError, match=said):
            load_tasks(path, preprocess=preprocess)


UNREAD: list[tuple[str, dict[str, Any], str]] = [
    ("bash", {"test_cases": ["def test_case(): pass"]}, "field 'test_cases' affects scoring"),
    ("bash", {"preprocess_sql": ["DROP TABLE t"]}, "field 'preprocess_sql' affects"),
    ("sql", {"verify": "test -f x"}, "field 'verify' affects"),
    ("bash", {"tests": ["assert x"]}, "field 'tests' affects"),
]


@pytest.mark.parametrize(("env", "fields", "words"), UNREAD)
def test_a_field_that_decides_and_that_nothing_reads_is_refused(
    tmp_path: Path, env: str, fields: dict[str, Any], words: str
) -> None:
    read = environment_class(env).read_data
    path = write(tmp_path / "t.json", [{"query": "q", "gold": "g", **fields}])
    with pytest.raises(DataError, match=words):
        read(environment_class(env).Options(data=path))
    own = environment_class(env).Options(data=path, reward=lambda *_: None)
    assert read(own).tasks[0].extra == fields
    empty = [{"query": "q", "gold": "g", **dict.fromkeys(fields, empty)} for empty in ([], "[]")]
    read(environment_class(env).Options(data=write(tmp_path / "t.json", empty)))


def test_a_misspelt_field_is_warned_of_once(tmp_path: Path) -> None:
    misspelt = [
        {"query": "q", "gold": "g", "verfy": "true", "hint": "h", "version": "1"},
        {"query": "q", "gold": "g", "verfy": "true", "seutp": "true", "set": "dev"},
        {"query": "q", "gold": "g", "verify": "true", "verfy": "true"},
    ]
    path = write(tmp_path / "t.json", misspelt)
    with pytest.warns(RuntimeWarning) as warned:
        findings = check_texts("bash", data=path)
    (text,) = (str(warning.message) for warning in warned)
    assert text == f"t: {'; '.join(findings['misspelt'])}"
    assert "'verfy' (task 0) is not read; did you mean 'verify'?" in findings["misspelt"][0]
    assert "'seutp' (task 1) is not read; did you mean 'setup'?" in findings["misspelt"][1]
    assert len(findings["misspelt"]) == 2


def test_nl2sh_has_two_golds_in_its_test_set(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("nl,bash,bash2,difficulty\nPrint 1.,echo 1,printf '1\\n',0\n")
    bash = environment_class("bash")
    (task,) = bash.read_data(bash.Options(data=tmp_path / "t.csv")).tasks
    assert (task.query, task.golds) == ("Print 1.", ("echo 1", "printf '1\\n'"))
    (tmp_path / "t.csv").write_text("nl,bash\nPrint 1.,echo 1\n")
    (task,) = bash.read_data(bash.Options(data=tmp_path / "t.csv")).tasks
    assert task.golds == ("echo 1",)
