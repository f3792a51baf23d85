"""Data sets by name, fetched from a real local server into a cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from loopback import Quiet, Server, serving
from repository import write_catalog, write_files

from intercode.envs.ctf.challenges import survey
from intercode.errors import DataError, UsageError
from intercode.tasks import catalog
from intercode.types import Task
from intercode_sandbox.cache import root_path


class Handler(Quiet, SimpleHTTPRequestHandler):
    """Serves the files below the folder that the server was given."""

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        self.directory = str(self.server.folder)
        super().do_GET()


@pytest.fixture(autouse=True)
def own_catalog_and_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERCODE_CATALOG", str(tmp_path / "c.toml"))
    monkeypatch.setenv("INTERCODE_CACHE", str(tmp_path))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Any]:
    with serving(Server(Handler)) as running:
        running.folder = tmp_path / "served"
        yield running


FILES = {
    "tasks.jsonl": b'{"query": "q", "gold": "g"}\n',
    "assets/1/flag": b"flag",
    "tree.tar": b"t" * 200_000,
}


@pytest.fixture
def tiny(server: Any, tmp_path: Path) -> Path:
    """The path of a catalog with one data set called `tiny`, whose files the server has."""
    write_files(server.folder, {f"sets/1/{name}": content for name, content in FILES.items()})
    return write_catalog(tmp_path / "c.toml", server.url, server.folder, {"./": "sets/1/"})


def test_a_data_set_arrives_as_a_folder_and_only_what_is_missing_is_fetched_again(
    server: Any, tiny: Path
) -> None:
    calls: list[tuple[int, int]] = []
    folder = catalog.get("tiny", progress=lambda done, total: calls.append((done, total)))
    assert {name: (folder / name).read_bytes() for name in FILES} == FILES
    assert catalog.downloaded("tiny") == folder
    assert calls == sorted(calls)
    assert calls[-1][0] == calls[-1][1]
    (folder / "tree.tar").unlink()
    assert catalog.downloaded("tiny") is None
    catalog.get("tiny")
    assert len(server.requests) == len(FILES) + 1


@pytest.mark.parametrize("by_clone", [False, True])
def test_a_missing_asset_is_noted_for_its_task_and_another_file_is_an_error(
    server: Any, tiny: Path, by_clone: bool
) -> None:
    source = str(server.folder) if by_clone else None
    asset, tree = (server.folder / "sets" / "1" / name for name in ("assets/1/flag", "tree.tar"))
    asset.unlink()
    folder = catalog.get("tiny", source=source)
    assert catalog.downloaded("tiny") == folder
    (challenge,) = survey([Task("1", "Find it in 0x41.", "f{1}")], folder / "assets").values()
    assert challenge.file == "its file flag is not in the repository"
    asset.write_bytes(FILES["assets/1/flag"])
    assert not list(catalog.get("tiny", source=source).rglob("*.missing"))
    tree.unlink()
    (folder / "tree.tar").unlink()
    with pytest.raises((DataError, UsageError), match=r"tree\.tar"):
        catalog.get("tiny", source=source)


def test_a_catalog_cannot_write_outside_its_folder(server: Any, tiny: Path) -> None:
    for name, source in (("../escaped", "sets/1/tree.tar"), ("/tmp/", "sets/1/")):
        write_catalog(tiny, server.url, server.folder, {name: source})
        with pytest.raises(DataError, match="leaves the data set's folder"):
            catalog.get("tiny")


def test_a_malformed_catalog_and_an_unknown_name_are_told(tiny: Path) -> None:
    with pytest.raises(UsageError, match=r"no data set is called 'spidre'.*tiny"):
        catalog.get("spidre")
    for content in ("", "[[entry]]\nname = 'x'", "not toml"):
        tiny.write_text(content)
        with pytest.raises(DataError, match=r"c\.toml: is not a catalog"):
            catalog.list_entries()


def test_there_is_one_cache_and_it_is_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("INTERCODE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    roots = Path("/var/cache/intercode") if os.getuid() == 0 else None
    assert root_path() == (roots or tmp_path / ".cache" / "intercode")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert root_path() == (roots or tmp_path / "xdg" / "intercode")
    monkeypatch.setenv("INTERCODE_CACHE", str(tmp_path / "own"))
    assert root_path() == tmp_path / "own"
