"""Files as people and hubs publish them, and field names that the caller gives."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from cli_words import INTERCODE

from intercode.errors import DataError, UsageError
from intercode.tasks import load_tasks, open_data

ONE, TWO = ("Print 1.", "echo 1"), ("Print 2.", "echo 2")
LINES = "".join(json.dumps({"query": query, "gold": gold}) + "\n" for query, gold in (ONE, TWO))
QUOTED = 'query,gold,n\n"Is it "old" here?","select 1",a\n"He said ""no"", twice","2",b\n'
FILES: list[tuple[str, str, list[tuple[str, str]]]] = [
    ("tasks.ndjson", LINES, [ONE, TWO]),
    ("tasks.jsonl.gz", LINES, [ONE, TWO]),
    ("tasks.JSON.gz", json.dumps([{"query": ONE[0], "gold": ONE[1]}]), [ONE]),
    ("lines.json", LINES, [ONE, TWO]),
    ("by_id.json", json.dumps({"b": {"query": "q", "gold": "g"}}), [("q", "g")]),
    ("tasks.tsv", "query\tgold\nPrint 1.\techo 1\n", [ONE]),
    ("lazy.csv", QUOTED, [('Is it "old" here?', "select 1"), ('He said "no", twice', "2")]),
    ("pairs.nl", "Print 1.\nPrint 2.\n", [ONE, TWO]),
]


def texts(path: Path) -> list[tuple[str, str]]:
    return [(task.query, task.gold) for task in load_tasks(path)]


@pytest.mark.parametrize(("name", "text", "tasks"), FILES, ids=[name for name, *_ in FILES])
def test_files_are_read_by_their_suffix(
    tmp_path: Path, name: str, text: str, tasks: list[tuple[str, str]]
) -> None:
    (tmp_path / "pairs.cm").write_text("echo 1\necho 2\n")
    content = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert texts(tmp_path / name) == tasks


def test_an_object_of_records_gives_their_ids(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('{"b": {"query": "q", "gold": "g"}}')
    assert [task.id for task in load_tasks(tmp_path / "t.json")] == ["b"]


def test_an_empty_cell_of_a_table_is_an_absent_field(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("query,gold,setup,image\nq,g,,\nr,g,echo hi,\n")
    assert [task.extra for task in load_tasks(tmp_path / "t.csv")] == [{}, {"setup": "echo hi"}]


BAD: list[tuple[str, bytes, type[Exception], str]] = [
    ("t.jsonl.gz", b"not gzip", DataError, "is not a whole gzip file"),
    (
        "t.jsonl.gz",
        gzip.compress(LINES.encode(), mtime=0)[:-9],
        DataError,
        "is not a whole gzip file",
    ),
    ("alone.nl", b"Print 1.\n", UsageError, r"there is no alone\.cm with their golds"),
    ("t.csv", b'query,gold\n"a "b" c,g\n', DataError, "line 2: .*quote left open"),
    ("t.csv", b"query;gold\nq;g\n", DataError, "line 1: .* separated by semicolons; .* commas"),
    ("t.xlsx", b"PK", UsageError, r"is a spreadsheet; save its sheet as CSV, in a \.csv"),
    ("t.yml", b"- a", UsageError, r"is YAML; write its records as JSON lines, in a \.jsonl"),
    ("t.txt", b"SELECT 1\tpets\nSELECT 2\n", DataError, "line 2: has no tab before the name"),
    (
        "t.json",
        b'{"train": [{"query": "q", "gold": "g"}], "test": [{"query": "q", "gold": "g"}]}',
        DataError,
        "record 1: fields 'gold' and 'query' are missing; the record has train, test",
    ),
]


@pytest.mark.parametrize(("name", "content", "error", "words"), BAD)
def test_a_file_that_is_no_such_format_says_so(
    tmp_path: Path, name: str, content: bytes, error: type[Exception], words: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=words):
        load_tasks(tmp_path / name)


def test_fields_of_any_name_are_named_by_the_caller(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(
        '[{"key": 7, "question": "Which?", "query": "select 1", "base": "shop", "n": 1}]'
    )
    names = {"query": "question", "id": "key", "db": "base"}
    (task,) = load_tasks(tmp_path / "t.json", gold_fields=["query"], names=names)
    assert (task.id, task.query, task.gold) == ("7", "Which?", "select 1")
    assert task.extra == {"db": "shop", "n": 1}


SELECT = re.compile("select", re.I)
ADVISED: list[tuple[dict[str, Any], re.Pattern[str] | None, str]] = [
    ({"query": "q", "answer": "3"}, None, "by --gold-fields$"),
    ({"query": "select 1", "question": "Which?"}, SELECT, "--gold-fields, .* by --query-field$"),
    ({"query": "q"}, None, r"none of these can be its gold, and it has no tests; "),
    ({"question": "Which?", "db": "a", "sql": {"sel": 1}}, SELECT, "none of these can be its gold"),
    ({"1": "select 1", "2": "select 2"}, SELECT, "none of these can be its gold"),
]


@pytest.mark.parametrize(("record", "pattern", "words"), ADVISED)
def test_a_field_of_the_gold_is_asked_for_where_that_helps(
    tmp_path: Path, record: dict[str, Any], pattern: re.Pattern[str] | None, words: str
) -> None:
    (tmp_path / "t.jsonl").write_text(json.dumps(record))
    with pytest.raises(DataError, match=f"'gold'.* missing; the record has .*{words}"):
        load_tasks(tmp_path / "t.jsonl", gold_pattern=pattern, decided_by=["verify"])


def test_one_field_is_not_both_query_and_gold(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"question": "Which?", "query": "select 1"}')
    with pytest.raises(UsageError, match="'query' cannot be both a gold and the query"):
        load_tasks(tmp_path / "t.jsonl", gold_fields=["query"])


WHOLE: list[tuple[str, str, list[str]]] = [
    ("t.json", '{"version": "1", "samples": [{"query": "q", "gold": "g"}], "tags": ["a"]}', ["q"]),
    ("t.json", '{"query": "q", "gold": "g", "steps": [{"query": "r", "gold": "g"}]}', ["q"]),
    ("t.json", '{"query": "q", "labels": ["easy"], "gold": "g"}', ["q"]),
    ("t.txt", "SELECT 1\tpets\nSELECT 2\tpets\n", ["line 1", "line 2"]),
]


@pytest.mark.parametrize(("name", "text", "queries"), WHOLE)
def test_the_only_list_of_objects_one_object_and_a_text_of_golds_are_read(
    tmp_path: Path, name: str, text: str, queries: list[str]
) -> None:
    (tmp_path / name).write_text(text)
    tasks = load_tasks(tmp_path / name)
    assert len(tasks) == len(queries)
    assert all(query in task.query for query, task in zip(queries, tasks, strict=True))


UNNAMED: list[tuple[dict[str, str], str]] = [
    ({}, "field 'query' is missing; the record has question, sql: .* by --query-field$"),
    ({"query": "q"}, "field 'q' is missing; the record has question, sql: .* --query-field$"),
    ({"query": "question", "id": "k"}, "field 'k' is missing; .* by --id-field$"),
]


@pytest.mark.parametrize(("names", "words"), UNNAMED)
def test_a_missing_field_lists_the_others_and_names_the_option(
    tmp_path: Path, names: dict[str, str], words: str
) -> None:
    (tmp_path / "t.json").write_text('[{"question": "Which?", "sql": "select 1"}]')
    with pytest.raises(DataError, match=words):
        load_tasks(tmp_path / "t.json", gold_fields=["sql"], names=names)
    with pytest.raises(DataError, match=r"field 'gold' is missing; .* by --gold-fields$"):
        load_tasks(tmp_path / "t.json", names={"query": "question"})
    both = r"fields 'gold' and 'query' are missing; .* by --gold-fields, .* by --query-field$"
    with pytest.raises(DataError, match=both):
        load_tasks(tmp_path / "t.json")


# -- data sets as a hub publishes them -------------------------------------------------------------

SHA = "a1" * 20


@contextmanager
def hub(files: dict[str, bytes]) -> Iterator[str]:
    """Serve a data set `someone/some` as the Hugging Face hub does; yield the server's address."""

    class Hub(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/api/datasets/someone/some/revision/main":
                self.reply({"id": "someone/some", "sha": SHA})
            elif path.removesuffix(SHA).removesuffix("main") == "/api/datasets/someone/some/tree/":
                self.reply(
                    [
                        {"type": "file", "path": name, "size": len(content), "oid": SHA}
                        for name, content in files.items()
                    ]
                )
            elif (name := path.removeprefix(f"/datasets/someone/some/resolve/{SHA}/")) in files:
                tag = hashlib.sha1(files[name]).hexdigest()
                self.reply(files[name], {"ETag": f'"{tag}"', "X-Repo-Commit": SHA})
            else:
                self.reply({"error": "not found"}, status=404)

        def reply(
            self, data: Any, headers: dict[str, str] | None = None, status: int = 200
        ) -> None:
            body = data if isinstance(data, bytes) else json.dumps(data).encode()
            self.send_response(status)
            for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.slow
def test_a_hubs_data_set_is_fetched_and_later_read_without_a_connection(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    files = {
        "README.md": b"---\nlicense: mit\n---\n",
        "dataset_infos.json": b"{}",
        "plain/test-00000-of-00002.jsonl": LINES.encode(),
        "plain/test-00001-of-00002.jsonl": b'{"query": "Print 3.", "gold": "echo 3"}\n',
        "plain/train.jsonl": LINES.encode(),
    }

    def check(data: str) -> subprocess.CompletedProcess[str]:
        words = (INTERCODE, "check", "bash", "--static", "--json", "--data", data)
        place = {"HF_HOME": str(tmp_path / "hf"), "HF_ENDPOINT": address}
        return subprocess.run(
            words, env={**os.environ, **place}, capture_output=True, text=True, check=False
        )

    with hub(files) as address:
        assert json.loads(check("hf:someone/some:test").stdout)["tasks"] == 3
        several = check("hf:someone/some")
        assert "plain/test.jsonl, plain/train.jsonl; choose one with a word" in several.stderr
        absent = check("hf:someone/other")
        assert (absent.returncode, "hf:someone/other: cannot be fetched" in absent.stderr) == (
            2,
            True,
        )
    assert json.loads(check("hf:someone/some:test").stdout)["tasks"] == 3


def test_a_copy_on_disk_is_read_as_its_publisher_saved_it(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    split = datasets.Dataset.from_list([{"query": "q", "gold": "g"}])
    datasets.DatasetDict({"test": split, "train": split}).save_to_disk(tmp_path / "saved")
    (tmp_path / "snapshot").mkdir()
    split.to_parquet(tmp_path / "snapshot" / "test-00000-of-00001.parquet")
    (tmp_path / "snapshot" / "dataset_infos.json").write_text("{}")
    for source in (f"hf:{tmp_path}/saved:test", tmp_path / "saved/test", tmp_path / "snapshot"):
        data = open_data(str(source), env="bash")
        assert [(task.query, task.gold) for task in data.tasks] == [("q", "g")]
    with pytest.raises(UsageError, match=r"holds 2 sets of records: test/.*, train/"):
        open_data(tmp_path / "saved", env="bash")
    with pytest.raises(UsageError, match=r"has 'dev' in its path; there are test/.*, train/"):
        open_data(f"hf:{tmp_path}/saved:dev", env="bash")
