"""`open_data` finds starter sets, folders, files and fetched data sets, and says what to do where
there is none."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from repository import write_catalog, write_files

from intercode.envs.ctf.challenges import survey
from intercode.errors import DataError, UsageError
from intercode.tasks import Entry, list_entries, load_tasks, open_data

LINE = '{"query": "q", "gold": "g"}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "tasks.jsonl").write_text(LINE * 2)
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERCODE_CACHE", str(tmp_path))


@pytest.fixture
def tiny(tmp_path: Path, cache: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog has the data set `tiny` alone."""
    write_files(tmp_path / "repository", {"tasks.jsonl": LINE.encode(), "tree.tar": b""})
    files = {"tasks.jsonl": "tasks.jsonl", "tree.tar": "tree.tar"}
    path = write_catalog(tmp_path / "c.toml", "http://127.0.0.1:9", tmp_path / "repository", files)
    monkeypatch.setenv("INTERCODE_CATALOG", str(path))


def test_a_folder_brings_its_tasks_trees_and_scripts(folder: Path) -> None:
    data = open_data(str(folder), env="bash")
    assert (data.name, len(data.tasks)) == ("mine", 2)
    assert (data.tree, data.setup, data.second_tree, data.second_setup) == (None, None, None, None)
    assert (
        data.digest
        == open_data(folder, env="bash", limit=1).digest
        == hashlib.sha256((LINE * 2).encode()).hexdigest()
    )
    (folder / "tree").mkdir()
    for name in ("setup.sh", "second.sh", "second.tar"):
        (folder / name).write_text("true\n")
    data = open_data(folder, env="bash")
    assert (data.tree, data.setup) == (folder / "tree", folder / "setup.sh")
    assert (data.second_tree, data.second_setup) == (folder / "second.tar", folder / "second.sh")
    alone = open_data(folder / "tasks.jsonl", env="bash")
    assert (alone.name, len(alone.tasks), alone.tree) == ("tasks", 2, None)


@pytest.mark.usefixtures("tiny")
def test_a_fetched_data_set_opens_by_name_unless_it_is_spoilt(tmp_path: Path) -> None:
    place = tmp_path / "data" / "tiny"
    place.mkdir(parents=True)
    (place / "tasks.jsonl").write_text(LINE)
    (place / "tree.tar").touch()
    data = open_data("tiny", env="bash")
    assert (data.name, data.tree) == ("tiny", place / "tree.tar")
    (place / "tasks.jsonl").write_text(LINE * 2)
    with pytest.raises(UsageError, match="not all of it"):
        open_data("tiny", env="bash")


@pytest.mark.parametrize(
    ("source", "env", "error", "told"),
    [
        ("nothing", "bash", UsageError, r"has no task file; call it tasks\.jsonl"),
        ("two", "bash", DataError, r"tasks\.jsonl and tasks\.csv; keep one"),
        (
            None,
            "my.module:Env",
            UsageError,
            r"no starter tasks are shipped for 'my\.module:Env'.*--data",
        ),
        ("spidre", "sql", UsageError, r"'spidre'.*`intercode data get NAME`.*tiny"),
        ("tiny", "bash", UsageError, "run `intercode data get tiny` first"),
        ("tiny", "sql", UsageError, "are for 'bash', not for 'sql'"),
    ],
)
@pytest.mark.usefixtures("tiny")
def test_what_cannot_be_opened_says_what_to_do(
    tmp_path: Path, source: str | None, env: str, error: type[Exception], told: str
) -> None:
    for name in ("nothing/note", "two/tasks.jsonl", "two/tasks.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    place = tmp_path / source if source in ("nothing", "two") else source
    with pytest.raises(error, match=told):
        open_data(place, env=env)


PUBLIC = Path(os.environ.get("INTERCODE_DATA") or Path(__file__).parents[3] / "shared" / "data")


@pytest.mark.fidelity
@pytest.mark.may_skip  # the folder holds some of the files
@pytest.mark.skipif(not PUBLIC.is_dir(), reason=f"no public data at {PUBLIC}; set INTERCODE_DATA")
@pytest.mark.parametrize("entry", list_entries(), ids=lambda entry: entry.name)
def test_the_catalog_describes_the_published_files(entry: Entry) -> None:
    """Every file of an entry that is here by its hash has the announced size, and its tasks the
    announced count."""
    local = {
        hashlib.sha256(path.read_bytes()).hexdigest(): path
        for path in PUBLIC.rglob("*")
        if path.is_file()
    }
    files = [file for file in entry.files if file.digest in local]
    if not files or entry.count is None:
        pytest.skip(f"{PUBLIC} has no file of {entry.name}")
    for file in files:
        assert local[file.digest].stat().st_size == file.bytes
    assert [file.path for file in files].count("tasks.json") == 1
    (tasks,) = (local[file.digest] for file in files if file.path == "tasks.json")
    assert len(load_tasks(tasks)) == entry.count


@pytest.mark.fidelity
@pytest.mark.skipif(not PUBLIC.is_dir(), reason=f"no public data at {PUBLIC}; set INTERCODE_DATA")
def test_77_published_challenges_can_be_played_with_all_assets(tmp_path: Path) -> None:
    """By the names of their assets; the contents are stand-ins."""
    (ctf,) = (entry for entry in list_entries() if entry.name == "ctf")
    write_files(tmp_path, {file.path: b"x" for file in ctf.files})
    tasks = PUBLIC / "ctf" / "ic_ctf.json"
    challenges = survey(load_tasks(tasks), tmp_path / "assets", tasks)
    assert sum(not challenge.issues for challenge in challenges.values()) == 77
