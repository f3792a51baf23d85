"""All data sets of the catalog from a stand-in of InterCode v1's repository: a folder, and a real
local server. The files are ours; their names and places are the catalog's."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap
from loopback import Quiet, Server, serving
from repository import write_files, write_table

import intercode
from intercode.errors import DataError, UsageError
from intercode.tasks import Entry, get, list_entries, open_data
from intercode.tasks.catalog import CATALOG, downloaded

ENTRIES = [entry.name for entry in list_entries()]
RECORDS = {
    "sql": {"query": "How many pears are there?", "gold": "SELECT count(*) FROM pear", "db": "d"},
    "python": {"query": "Add one.", "gold": "def f(x):\n    return x + 1", "tests": ["f(1) == 2"]},
    "ctf": {"query": "Open the file.", "gold": "picoCTF{pear}"},
}


class Handler(Quiet, SimpleHTTPRequestHandler):
    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, directory=str(words[2].folder), **options)


def content_of(entry: Entry, source: str) -> bytes:
    if not source.endswith(".json"):
        # a setup script of NL2Bash, a dump, an asset of a challenge
        return f"mkdir -p /orchard && echo {Path(source).stem} > /orchard/name\n".encode()
    task = {"query": "Print the name in /orchard.", "gold": "cat /orchard/name"}
    return json.dumps([RECORDS.get(entry.env, task)] * (entry.count or 3)).encode()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the repository's layout, which the catalog describes."""
    folder = tmp_path_factory.mktemp("clone")
    for entry in list_entries():
        files = {file.source: content_of(entry, file.source) for file in entry.files}
        write_files(folder, files)
    write_files(folder, {"data/ctf/task_assets/0/solution/README.md": b"picoCTF{pear}"})
    home = tmp_path_factory.mktemp("catalog")
    shutil.copy(CATALOG, home)
    write_table(home / "catalog.tsv", folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INTERCODE_CATALOG", str(home / "catalog.toml"))
        yield folder


@pytest.fixture(autouse=True)
def own_cache(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERCODE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def mirror(repository: Path) -> Iterator[Any]:
    server = Server(Handler)
    server.folder = repository  # type: ignore[attr-defined]
    with serving(server) as running:
        yield running


@pytest.mark.parametrize("name", ENTRIES)
def test_every_data_set_comes_from_a_clone_and_from_a_mirror(
    repository: Path, mirror: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = next(entry for entry in list_entries() if entry.name == name)
    assert downloaded(name) is None
    folder = get(name, source=str(repository))
    assert downloaded(name) == folder
    data = open_data(name, env=entry.env)
    assert len(data.tasks) == (entry.count or 3)
    monkeypatch.setenv("INTERCODE_CACHE", str(tmp_path / "second"))
    monkeypatch.setenv("INTERCODE_MIRROR", f"{mirror.url}/")
    assert get(name) != folder
    assert open_data(name, env=entry.env).digest == data.digest
    first, second = (
        {str(path.relative_to(place)) for path in place.rglob("*")} for place in (folder, get(name))
    )
    assert first == second


@pytest.mark.rest
def test_a_wrong_or_missing_file_is_refused_from_a_clone_and_from_a_mirror(
    repository: Path, mirror: Any, tmp_path: Path
) -> None:
    mirror.folder = clone = tmp_path / "other"
    shutil.copytree(repository, clone)
    for name, kind in (
        ("data/python/mbpp/ic_mbpp.json", "mbpp"),
        ("data/python/apps/ic_apps.json", "apps"),
    ):
        content = (clone / name).read_bytes()
        (clone / name).write_bytes(content.replace(b"one", b"two"))
        for source in (str(clone), mirror.url):
            with pytest.raises(
                DataError, match=rf"{Path(name).name}: the (SHA-256|git blob id) of"
            ):
                get(kind, source=source)
        (clone / name).unlink()
        with pytest.raises(UsageError, match=rf"{Path(name).name}: no such file; name a clone"):
            get(kind, source=str(clone))
        assert downloaded(kind) is None
        (clone / name).write_bytes(content)
        assert get(kind, source=str(clone)) == downloaded(kind)


def test_joined_tasks_play_each_on_the_file_system_of_its_part(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_bwrap()
    folder = get("nl2bash", source=str(repository))
    (part := folder.parent / "nl2bash_fs_3" / "setup.sh").write_bytes(part.read_bytes() + b"#")
    assert downloaded("nl2bash") is None
    get("nl2bash", source=str(repository))
    assert downloaded("nl2bash") == folder
    monkeypatch.undo()  # sandboxes cannot enter this cache
    with intercode.make("bash", data=str(folder)) as env:
        for task in ("fs_1-0", "fs_1-59", "fs_4-26", "fs_2-52"):
            env.reset(options={"task": task})
            file_system = task.partition("-")[0]
            assert env.step("cat /orchard/name")[0] == f"setup_nl2b_{file_system}\n"
            assert env.step("submit")[1] == 1.0


def test_challenges_play_without_their_solutions(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_bwrap()
    folder = get("ctf", source=str(repository))
    monkeypatch.undo()
    tasks, assets = str(folder / "tasks.json"), str(repository / "data" / "ctf" / "task_assets")
    for how in ({"data": str(folder)}, {"data": tasks, "assets": assets}):
        with intercode.make("ctf", **how) as env:
            env.reset(options={"task": "0"})
            assert env.step("find . -type f")[0] == "./unpackme.flag.py\n"
            assert env.step("submit picoCTF{pear}")[1] == 1.0
            env.reset(options={"task": "71"})
            assert env.step("ls")[0] == "Forensics is fun.pptm\n"
