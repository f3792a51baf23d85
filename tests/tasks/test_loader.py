"""Task files of all four formats, and every malformed one that we could think of."""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import intercode
from intercode.errors import DataError, UsageError
from intercode.tasks import load_tasks
from intercode.types import Task

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


def load_one(tmp_path: Path, **fields: Any) -> Task:
    return load_text(tmp_path, ".json", json.dumps([{"query": "q", "gold": "g", **fields}]))[0]


SUFFIXES = [".json", ".jsonl", ".csv", ".parquet"]

# ── what loads ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_gives_the_same_tasks(tmp_path: Path, suffix: str) -> None:
    tasks = load_tasks(write(tmp_path / f"tasks{suffix}", RECORDS))
    assert tasks == [
        Task("0", "count files", "ls | wc -l", {"level": "easy"}),
        Task("1", 'größte, "erste"\nZeile', "head -1", {"level": "hard"}),
    ]


def test_the_suffix_may_be_in_capitals_and_the_path_a_string(tmp_path: Path) -> None:
    path = tmp_path / "TASKS.JSON"
    path.write_text(json.dumps(RECORDS))
    assert len(load_tasks(str(path))) == 2


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_ids_are_taken_from_the_records(tmp_path: Path, suffix: str) -> None:
    records = [{"id": "b", **RECORDS[0]}, {"id": "a", **RECORDS[1]}]
    assert [task.id for task in load_tasks(write(tmp_path / f"t{suffix}", records))] == ["b", "a"]


def test_a_whole_number_is_an_id(tmp_path: Path) -> None:
    assert load_one(tmp_path, id=17).id == "17"


def test_a_list_of_golds_is_joined_by_semicolons(tmp_path: Path) -> None:
    assert load_one(tmp_path, gold=["cd /tmp", "ls"]).gold == "cd /tmp;ls"
    records: list[dict[str, Any]] = [{"query": "q", "gold": ["cd /tmp", "ls"]}]
    assert load_tasks(write(tmp_path / "t.parquet", records))[0].gold == "cd /tmp;ls"


GOLDS: list[tuple[dict[str, Any], list[str], tuple[str, ...]]] = [
    ({"gold": "a", "golds": ["b", "a", ["c", "d"]]}, ["gold"], ("a", "b", "c;d")),
    ({"golds": ["b", "a"]}, ["gold"], ("b", "a")),
    ({"gold": "a", "gold2": "b", "gold3": ""}, ["gold2", "gold", "gold3"], ("b", "a")),
    ({"gold2": None, "gold3": "c", "golds": ["d"]}, ["gold2", "gold3"], ("c", "d")),
]


@pytest.mark.parametrize(("fields", "names", "golds"), GOLDS)
def test_a_record_may_have_alternative_golds(
    tmp_path: Path, fields: dict[str, Any], names: list[str], golds: tuple[str, ...]
) -> None:
    (task,) = load_tasks(write(tmp_path / "t.json", [{"query": "q", **fields}]), gold_fields=names)
    assert (task.gold, task.golds, task.extra) == (golds[0], golds, {})


def test_golds_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    for fields, names, error, words in [
        ({"golds": "a"}, ["gold"], DataError, "'golds' is a text; write a list of golds"),
        ({"gold": "a", "golds": [3]}, ["gold"], DataError, "'golds' is a value of type int"),
        ({"gold2": ""}, ["gold2"], DataError, "'gold2' is empty"),
        ({"gold": "a"}, ["gold", "gold2"], UsageError, "no record has the gold field 'gold2'; records have gold, query"),
    ]:
        with pytest.raises(error, match=words):
            load_tasks(write(tmp_path / "t.json", [{"query": "q", **fields}]), gold_fields=names)


def test_other_fields_keep_their_types(tmp_path: Path) -> None:
    extra = {"tests": ["assert f(1)"], "hard": True, "n": 3, "tables": {"a": ["b"]}, "note": ""}
    assert load_one(tmp_path, **extra).extra == extra


def test_queries_and_golds_are_not_stripped(tmp_path: Path) -> None:
    task = load_one(tmp_path, query=" q\n", gold="\tprintf x\r\n")
    assert (task.query, task.gold) == (" q\n", "\tprintf x\r\n")


def test_limit_stops_before_the_malformed_rest(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(RECORDS[0]) + "\nbroken")
    assert len(load_tasks(path, limit=1)) == 1
    with pytest.raises(DataError):
        load_tasks(path, limit=2)


def test_a_limit_beyond_the_end_gives_all(tmp_path: Path) -> None:
    assert len(load_tasks(write(tmp_path / "t.json", RECORDS), limit=99)) == 2


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".csv"])
def test_a_byte_order_mark_is_skipped(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"t{suffix}", RECORDS)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert load_tasks(path)[0].query == "count files"


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".csv"])
def test_windows_line_ends_are_line_ends(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"t{suffix}", RECORDS[:1] * 1)
    path.write_bytes(path.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"))
    assert load_tasks(path) == [Task("0", "count files", "ls | wc -l", {"level": "easy"})]


def test_blank_lines_are_skipped_and_do_not_count_as_records(tmp_path: Path) -> None:
    line = json.dumps(RECORDS[0])
    assert [task.id for task in load_text(tmp_path, ".jsonl", f"\n{line}\n\n  \n{line}")] == ["0", "1"]
    assert [task.id for task in load_text(tmp_path, ".csv", "\nquery,gold\n\nq,g\n\nq,g\n")] == ["0", "1"]


def test_unicode_line_separators_do_not_split_a_json_line(tmp_path: Path) -> None:
    line = json.dumps({"query": "a\u2028b\u0085c", "gold": "g"}, ensure_ascii=False)
    assert load_text(tmp_path, ".jsonl", line)[0].query == "a\u2028b\u0085c"


def test_a_csv_field_may_be_huge(tmp_path: Path) -> None:
    query = "x" * 1_000_000
    assert load_text(tmp_path, ".csv", f"query,gold\n{query},g\n")[0].query == query


def test_nulls_in_parquet_count_as_absent(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {"id": None, "query": "q", "gold": "g", "hint": None, "weight": math.nan},
        {"id": "x", "query": "q", "gold": "g", "hint": "h", "weight": 1.0},
    ]
    tasks = load_tasks(write(tmp_path / "t.parquet", records))
    assert [(task.id, task.extra) for task in tasks] == [("0", {}), ("x", {"hint": "h", "weight": 1.0})]


@pytest.mark.parametrize(("word", "general"), [("true", True), ("False", False), ("1", True), ("0", False), ("", False)])
def test_general_is_a_truth_value_even_in_csv(tmp_path: Path, word: str, general: bool) -> None:
    assert load_text(tmp_path, ".csv", f"query,gold,general\nq,g,{word}\n")[0].general is general


def test_preprocess_can_rename_and_build_fields(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"nl": "count", "bash": "wc"}\n')
    tasks = load_tasks(path, preprocess=lambda record: {"query": record["nl"], "gold": record["bash"]})
    assert tasks == [Task("0", "count", "wc")]


# ── what does not, and how it says so ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["gone.json", "folder", "tasks.txt", "tasks"])
def test_a_path_that_is_no_task_file_is_wrong_usage(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    for plain in ("tasks.txt", "tasks"):
        (tmp_path / plain).write_text("x")
    with pytest.raises(UsageError, match=rf"{name}: (no such file|is a folder|.*must end in)"):
        load_tasks(tmp_path / name)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_wrong_usage(tmp_path: Path, limit: int) -> None:
    with pytest.raises(UsageError, match="limit"):
        load_tasks(write(tmp_path / "t.json", RECORDS), limit=limit)


@pytest.mark.parametrize("text", ["", " \n\n", "\ufeff"])
@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".csv"])
def test_an_empty_file_holds_no_records(tmp_path: Path, suffix: str, text: str) -> None:
    if suffix == ".csv":
        text = text.replace(" ", "")
    with pytest.raises(DataError, match=rf"tasks{suffix}: holds no records"):
        load_text(tmp_path, suffix, text)


@pytest.mark.parametrize(("suffix", "text"), [(".json", "[]"), (".csv", "query,gold\n")])
def test_a_file_of_no_records_is_refused(tmp_path: Path, suffix: str, text: str) -> None:
    with pytest.raises(DataError, match="holds no records"):
        load_text(tmp_path, suffix, text)


FIELD = [
    ({"gold": "g"}, "field 'query' is missing"),
    ({"query": "q"}, "field 'gold' is missing"),
    ({"query": "q", "gold": None}, "field 'gold' is missing"),
    ({"query": "", "gold": "g"}, "field 'query' is empty"),
    ({"query": "q", "gold": " \n"}, "field 'gold' is empty"),
    ({"query": "q", "gold": []}, "field 'gold' is empty"),
    ({"query": "q", "gold": ["a", ""]}, "field 'gold' is empty"),
    ({"query": "q", "gold": ["a", 1]}, "field 'gold' is a value of type int"),
    ({"query": "q", "gold": 42}, "field 'gold' is a value of type int; write it as text"),
    ({"query": 1.5, "gold": "g"}, "field 'query' is a value of type float"),
    ({"query": "q", "gold": True}, "field 'gold' is a truth value"),
    ({"query": "q", "gold": {"a": 1}}, "field 'gold' is an object"),
    ({"query": "q", "gold": "a\0b"}, "field 'gold' contains a NUL"),
    ({"query": "q", "gold": "\ud83d"}, "field 'gold' holds half a surrogate pair"),
    ({"query": "q", "gold": "g", "setup": "echo \ud83d"}, "field 'setup' holds half a surrogate pair"),
    ({"query": "q", "gold": "g", "cases": {"inputs": [{"\ud83d": 1}]}}, "field 'cases' holds half a surrogate pair"),
    ({"query": "q", "gold": "g", "id": 1.5}, "field 'id' is a value of type float"),
    ({"query": "q", "gold": "g", "id": True}, "field 'id' is a truth value"),
    ({"query": "q", "gold": "g", "id": " "}, "field 'id' is empty"),
    ({"query": "q", "gold": "g", "general": "maybe"}, "field 'general' is 'maybe'; write true or false"),
]


@pytest.mark.parametrize(("record", "message"), FIELD)
def test_a_malformed_field_is_named_with_its_place(tmp_path: Path, record: dict[str, Any], message: str) -> None:
    records = [RECORDS[0], record]
    with pytest.raises(DataError, match=rf"tasks\.json: record 2: {message}"):
        load_text(tmp_path, ".json", json.dumps(records))
    with pytest.raises(DataError, match=rf"tasks\.jsonl: line 3: {message}"):
        load_text(tmp_path, ".jsonl", "\n\n".join(map(json.dumps, records)))


def test_parquet_records_are_counted_from_one(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", [RECORDS[0], {**RECORDS[1], "gold": None}])
    with pytest.raises(DataError, match=r"t\.parquet: record 2: field 'gold' is missing"):
        load_tasks(path)


def test_a_csv_error_counts_lines_over_multi_line_fields(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"tasks\.csv: line 4: field 'gold' is empty"):
        load_text(tmp_path, ".csv", 'query,gold\n"two\nlines",g\nq,\n')


@pytest.mark.parametrize("row", ["q", "q,g,more"])
def test_a_csv_row_of_another_width_is_refused(tmp_path: Path, row: str) -> None:
    with pytest.raises(DataError, match=r"line 3: \d fields where the header has 2"):
        load_text(tmp_path, ".csv", f"query,gold\nq,g\n{row}\n")


def test_an_open_quote_in_csv_names_the_line_it_starts_on(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 3: .*quote left open"):
        load_text(tmp_path, ".csv", 'query,gold\nq,g\n"open,g\nq,g\nq,g\n')


def test_a_csv_field_beyond_all_measure_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 2: .*field larger than field limit"):
        load_text(tmp_path, ".csv", b"query,gold\n" + b"x" * (2**24 + 1) + b",g\n")


def test_a_csv_header_that_repeats_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line 1: the header names 'gold' more than once"):
        load_text(tmp_path, ".csv", "query,gold,gold\nq,g,h\n")


def test_truncated_json_is_located(tmp_path: Path) -> None:
    text = json.dumps(RECORDS, indent=1)
    with pytest.raises(DataError, match=r"tasks\.json: line \d+, column \d+: is not JSON .*cut short"):
        load_text(tmp_path, ".json", text[:-20])
    with pytest.raises(DataError, match=r"tasks\.jsonl: line 2, column \d+: is not JSON"):
        load_text(tmp_path, ".jsonl", json.dumps(RECORDS[0]) + '\n{"query": "q", "go')


@pytest.mark.parametrize("text", ["[" * 200_000, "[" + "1" * 5000 + "]"])
def test_json_that_the_parser_gives_up_on_is_the_datas_fault(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"tasks\.json: .*JSON"):
        load_text(tmp_path, ".json", text)


@pytest.mark.parametrize(("text", "kind"), [('{"data": []}', "an object"), ('"x"', "a text"), ("null", "null")])
def test_json_that_is_no_list_says_what_it_is(tmp_path: Path, text: str, kind: str) -> None:
    with pytest.raises(DataError, match=rf"tasks\.json: holds {kind} where a list"):
        load_text(tmp_path, ".json", text)


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_a_record_that_is_no_object_is_refused(tmp_path: Path, suffix: str) -> None:
    text = '["a"]' if suffix == ".json" else '"a"'
    with pytest.raises(DataError, match=r"(record|line) 1: is a text where an object"):
        load_text(tmp_path, suffix, text)


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".csv"])
def test_another_encoding_names_line_and_byte(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(DataError, match=rf"tasks{suffix}: line 2: byte 0xfc is not UTF-8; save"):
        load_text(tmp_path, suffix, "one\nfür".encode("latin-1"))


def test_utf_16_is_told_to_be_saved_as_utf_8(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line 1: byte 0xff is not UTF-8"):
        load_text(tmp_path, ".csv", "query,gold\nq,g\n".encode("utf-16"))


def test_equal_ids_are_refused_and_both_records_named(tmp_path: Path) -> None:
    records = [{"id": "a", **RECORDS[0]}, RECORDS[1], {"id": "a", **RECORDS[1]}]
    with pytest.raises(DataError, match="records 1 and 3, field 'id': both are 'a'"):
        load_tasks(write(tmp_path / "t.json", records))


def test_an_id_may_not_equal_an_index_given_to_another_record(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="records 1 and 2, field 'id': both are '1'"):
        load_tasks(write(tmp_path / "t.json", [{"id": 1, **RECORDS[0]}, RECORDS[1]]))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not parquet at all", b"PAR1" + b"x" * 100 + b"PAR1"])
def test_a_file_that_is_not_parquet_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DataError, match=r"tasks\.parquet: is not a readable Parquet file"):
        load_text(tmp_path, ".parquet", content)


def test_truncated_parquet_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", RECORDS)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataError, match="is not a readable Parquet file"):
        load_tasks(path)


def test_without_pyarrow_the_error_says_what_to_install(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", RECORDS)
    source = Path(intercode.__file__).parents[1]
    code = "import sys; sys.path.insert(0, sys.argv[1]); from intercode.tasks import load_tasks; load_tasks(sys.argv[2])"
    done = subprocess.run([sys.executable, "-S", "-c", code, source, path], capture_output=True, text=True, check=False)
    assert "UsageError" in done.stderr
    assert "pip install 'intercode-gym[parquet]'" in done.stderr


def test_what_preprocess_raises_is_told_with_both_places(tmp_path: Path) -> None:
    said = r"t\.json: record 1: preprocess raised KeyError: 'nl' \(test_loader\.py, line \d+\)$"
    with pytest.raises(UsageError, match=said):
        load_tasks(write(tmp_path / "t.json", RECORDS), preprocess=lambda record: {"query": record["nl"]})


def test_a_preprocess_that_takes_no_record_is_named_by_its_error_alone(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"preprocess raised TypeError: .*lambda>\(\) takes 0 positional.*given$"):
        load_tasks(write(tmp_path / "t.json", RECORDS), preprocess=lambda *, nothing: {})  # type: ignore[arg-type]


def test_preprocess_must_return_a_record(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="record 1: preprocess returned null"):
        load_tasks(write(tmp_path / "t.json", RECORDS), preprocess=lambda record: None)  # type: ignore[arg-type,return-value]
