"""`open_data` finds starter sets, folders, files and fetched data sets, and says what to do where there is none."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from ordinary import error_of_an_ordinary_user

from intercode.errors import DataError, UsageError
from intercode.tasks import Entry, dataset, list_entries, open_data

LINE = '{"query": "q", "gold": "g"}\n'
CATALOG = f"""
[[entry]]
name = "tiny"
env = "bash"
description = "d"
count = 1
licence = "MIT"
checked = true
files = [
    {{ as = "tasks.jsonl", url = "http://127.0.0.1:9/t", bytes = {len(LINE)}, sha256 = "{
    hashlib.sha256(LINE.encode()).hexdigest()
}" }},
    {{ as = "tree.tar", url = "http://127.0.0.1:9/f", bytes = 0, sha256 = "{hashlib.sha256(b"").hexdigest()}" }},
]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "tasks.jsonl").write_text(LINE * 2)
    return folder


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    path = tmp_path / "catalog.toml"
    path.write_text(CATALOG)
    return path


def test_a_folder_needs_only_a_task_file(folder: Path) -> None:
    data = open_data(str(folder), env="bash")
    assert (data.name, len(data.tasks)) == ("mine", 2)
    assert (data.tree, data.setup, data.second_tree, data.second_setup) == (None, None, None, None)


def test_a_folder_brings_its_trees_and_scripts(folder: Path) -> None:
    (folder / "tree").mkdir()
    (folder / "second").mkdir()
    for name in ("setup.sh", "second.sh"):
        (folder / name).write_text("true\n")
    data = open_data(folder, env="bash")
    assert (data.tree, data.setup) == (folder / "tree", folder / "setup.sh")
    assert (data.second_tree, data.second_setup) == (folder / "second", folder / "second.sh")


def test_trees_may_be_archives(folder: Path) -> None:
    (folder / "tree.tar").touch()
    (folder / "second.tar").touch()
    data = open_data(folder, env="bash")
    assert (data.tree, data.second_tree) == (folder / "tree.tar", folder / "second.tar")


def test_the_folder_may_be_the_current_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert open_data(".", env="bash").name == "mine"


@pytest.mark.parametrize(("suffix", "text"), [(".json", f"[{LINE}]"), (".csv", "query,gold\nq,g\n")])
def test_the_task_file_of_a_folder_may_have_any_format(folder: Path, suffix: str, text: str) -> None:
    (folder / "tasks.jsonl").unlink()
    (folder / f"tasks{suffix}").write_text(text)
    assert open_data(folder, env="bash").tasks[0].gold == "g"


def test_a_file_comes_alone(folder: Path) -> None:
    (folder / "tree").mkdir()
    data = open_data(folder / "tasks.jsonl", env="bash")
    assert (data.name, len(data.tasks), data.tree) == ("tasks", 2, None)


def test_the_digest_is_that_of_the_whole_task_file(folder: Path) -> None:
    whole, first = open_data(folder, env="bash"), open_data(folder, env="bash", limit=1)
    assert len(first.tasks) == 1
    assert whole.digest == first.digest == hashlib.sha256((LINE * 2).encode()).hexdigest()


def test_preprocess_reaches_the_records(folder: Path) -> None:
    data = open_data(folder, env="bash", preprocess=lambda record: {**record, "gold": "new"})
    assert [task.gold for task in data.tasks] == ["new", "new"]


def test_a_folder_without_a_task_file_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no task file; call it tasks\.jsonl"):
        open_data(tmp_path, env="bash")


def test_a_folder_with_two_task_files_is_ambiguous(folder: Path) -> None:
    (folder / "tasks.csv").touch()
    with pytest.raises(DataError, match=r"tasks\.jsonl and tasks\.csv; keep one"):
        open_data(folder, env="bash")


def test_the_starter_set_is_what_comes_without_a_source(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "STARTER", folder.parent)
    data = open_data(None, env="mine")
    assert (data.name, len(data.tasks)) == ("mine-starter", 2)


def test_an_environment_without_starter_tasks_asks_for_data() -> None:
    with pytest.raises(UsageError, match=r"no starter tasks are shipped for 'my\.module:Env'.*--data"):
        open_data(None, env="my.module:Env")


def test_an_unknown_name_lists_the_data_sets_and_the_command() -> None:
    with pytest.raises(UsageError, match=r"'spidre'.*`intercode data get NAME`.*nl2bash_fs_1.*spider"):
        open_data("spidre", env="sql")


def test_a_data_set_that_was_not_fetched_names_the_command(tmp_path: Path, catalog: Path) -> None:
    with pytest.raises(UsageError, match="run `intercode data get tiny` first"):
        open_data("tiny", env="bash", cache=tmp_path, catalog=catalog)


def test_a_fetched_data_set_opens_by_name(tmp_path: Path, catalog: Path) -> None:
    place = tmp_path / "data" / "tiny"
    place.mkdir(parents=True)
    (place / "tasks.jsonl").write_text(LINE)
    (place / "tree.tar").touch()
    data = open_data("tiny", env="bash", cache=tmp_path, catalog=catalog)
    assert (data.name, data.tree) == ("tiny", place / "tree.tar")


def test_a_spoilt_data_set_is_not_opened(tmp_path: Path, catalog: Path) -> None:
    place = tmp_path / "data" / "tiny"
    place.mkdir(parents=True)
    (place / "tasks.jsonl").write_text(LINE * 2)
    (place / "tree.tar").touch()
    with pytest.raises(UsageError, match="not all of it"):
        open_data("tiny", env="bash", cache=tmp_path, catalog=catalog)


def test_tasks_of_another_environment_are_refused(tmp_path: Path, catalog: Path) -> None:
    with pytest.raises(UsageError, match="are for 'bash', not for 'sql'"):
        open_data("tiny", env="sql", cache=tmp_path, catalog=catalog)


PUBLIC = Path(os.environ.get("INTERCODE_DATA") or Path(__file__).parents[3] / "shared" / "data")


@pytest.mark.fidelity
@pytest.mark.skipif(not PUBLIC.is_dir(), reason=f"no public data at {PUBLIC}; set INTERCODE_DATA")
@pytest.mark.parametrize("entry", list_entries(), ids=lambda entry: entry.name)
def test_the_catalog_describes_the_published_files(tmp_path: Path, entry: Entry) -> None:
    """Puts local copies in the cache by their hashes; then every data set opens with the announced count."""
    local = {hashlib.sha256(path.read_bytes()).hexdigest(): path for path in PUBLIC.rglob("*") if path.is_file()}
    for file in entry.files:
        target = tmp_path / "data" / entry.name / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(local[file.sha256], target)
        assert target.stat().st_size == file.bytes
    assert len(open_data(entry.name, env=entry.env, cache=tmp_path).tasks) == entry.count


@pytest.mark.parametrize("inside", [".", "tasks.jsonl"])
def test_a_folder_that_may_not_be_entered_is_named(inside: str) -> None:
    with tempfile.TemporaryDirectory() as place:  # pytest's own folders are closed to others already
        os.chmod(place, 0o755)
        folder = Path(place, "mine")
        folder.mkdir()
        (folder / "tasks.jsonl").write_text(LINE)
        folder.chmod(0)
        said = error_of_an_ordinary_user(lambda: open_data(folder / inside, env="bash"))
        folder.chmod(0o755)
        assert said == f"UsageError: {folder / inside}: cannot be read (Permission denied)"
