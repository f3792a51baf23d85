"""The other commands: help, report, data, doctor, image."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_words import EVAL_KEYS

pytestmark = pytest.mark.slow

COMMANDS = [
    [], ["eval"], ["check"], ["attack"], ["replay"], ["report"], ["data"], ["data", "list"], ["data", "get"], ["image"],
    ["image", "build"], ["image", "export"], ["doctor"],
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_itself(cli: Any, command: list[str]) -> None:
    long, short = cli(*command, "--help"), cli(*command, "-h")
    assert (long.status, long.err) == (0, "")
    assert long.out == short.out
    assert f"Usage: intercode {' '.join(command)}".strip() in long.out
    assert len(long.out.splitlines()) > 4


def test_the_version_is_the_packages(cli: Any) -> None:
    from intercode import __version__

    assert cli("--version").out == f"intercode, version {__version__}\n"


def test_help_imports_nothing_heavy() -> None:
    script = "import click, sys; before = set(sys.modules); import intercode.cli; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    extra = {name.partition(".")[0] for name in done.stdout.split()} - {"intercode", "importlib", "locale", "_locale"}
    assert extra == set()


def test_an_unknown_command_is_wrong_usage(cli: Any) -> None:
    done = cli("evaluate")
    assert (done.status, done.out) == (2, "")
    assert "evaluate" in done.err


@pytest.fixture
def two_runs(cli: Any, box: Path) -> None:
    for agent in ("gold", "noop"):
        assert cli("eval", "bash", "--data", box, "--agent", agent, "--out", agent, "--json").status == 0


@pytest.mark.usefixtures("two_runs")
def test_report_repeats_what_eval_said_and_puts_runs_side_by_side(cli: Any, tmp_path: Path) -> None:
    one = cli("report", "gold", "--json")
    assert (one.status, set(one.json)) == (0, EVAL_KEYS | {"analysis"})
    both = cli("report", "noop", "gold", "--json").json
    assert set(both) == {"runs", "comparison"}
    assert (both["comparison"]["difference"], both["comparison"]["lost"]) == (1.0, [])
    assert [(run["run"], run["success_rate"]) for run in both["runs"]] == [("noop", 0.0), ("gold", 1.0)]
    assert both["runs"][1] == one.json
    table = cli("report", "noop", "gold")
    assert (table.status, table.err) == (0, "")
    assert table.out.index("100.0") < table.out.index("noop"), "the best comes first"


@pytest.mark.usefixtures("two_runs")
def test_runs_from_different_userlands_are_not_compared_without_force(cli: Any, tmp_path: Path) -> None:
    file = tmp_path / "noop" / "run.json"
    config = json.loads(file.read_text())
    config["userland"]["bash"] = "4.2.1"
    file.write_text(json.dumps(config))
    refused = cli("report", "gold", "noop", "--json")
    assert (refused.status, refused.out) == (2, "")
    assert "userland" in refused.err
    assert "--force" in refused.err
    assert len(cli("report", "gold", "noop", "--json", "--force").json["runs"]) == 2
    assert cli("report", "noop").status == 0


def test_a_run_that_is_being_written_can_be_reported(cli: Any, box: Path, tmp_path: Path) -> None:
    whole = cli("eval", "bash", "--data", box, "--agent", "gold", "--out", "run", "--json").json
    with (tmp_path / "run" / "episodes.jsonl").open("a") as file:
        file.write('{"schema": 1, "task": "torn')
    reported = cli("report", "run", "--json").json
    assert {key: reported[key] for key in whole} == whole


def test_what_is_no_run_is_named(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "run.json").write_text("{")
    (tmp_path / "nameless").mkdir()
    (tmp_path / "nameless" / "run.json").write_text('{"env": "bash"}')
    for words, status, blamed in (
        (["folder"], 2, "holds no run"),
        (["nowhere"], 2, "nowhere"),
        ([], 2, "RUN"),
        (["damaged"], 3, "damaged"),
        (["nameless"], 3, "nameless/run.json is damaged: agent, reward must be there, as text"),
    ):
        done = cli("report", *words, "--json")
        assert (done.status, done.out) == (status, "")
        assert blamed in done.err


def test_data_sets_are_listed_one_a_line(cli: Any) -> None:
    done = cli("data", "list")
    assert (done.status, done.err) == (0, "")
    names = [line.split()[0] for line in done.out.splitlines()]
    assert {"nl2bash_fs_1", "spider", "mbpp"} <= set(names)
    assert len(set(names)) == len(names)


def test_an_unknown_data_set_is_wrong_usage_and_the_known_ones_are_named(cli: Any) -> None:
    done = cli("data", "get", "nosuch")
    assert (done.status, done.out) == (2, "")
    assert "nl2bash_fs_1" in done.err


def test_a_data_set_that_was_not_fetched_says_how(cli: Any) -> None:
    done = cli("eval", "bash", "--agent", "gold", "--data", "nl2bash_fs_1")
    assert done.status == 2
    assert "intercode data get nl2bash_fs_1" in done.err
    wrong = cli("eval", "bash", "--agent", "gold", "--data", "spider")
    assert wrong.status == 2
    assert "'sql'" in wrong.err


def test_doctor_says_that_this_machine_can_run_sandboxes(cli: Any) -> None:
    found = cli("doctor", "--json")
    findings = found.json["findings"]
    assert (found.status, found.err) == (0, "")
    assert all(set(finding) == {"what", "ok", "detail", "mend"} for finding in findings)
    assert not any(finding["ok"] is False for finding in findings)
    words = cli("doctor")
    assert words.status == 0
    assert all(finding["what"] in words.out for finding in findings)


def test_doctor_names_the_line_that_mends_a_missing_bubblewrap(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    done = cli("doctor", PATH=str(tmp_path / "bin"))
    assert done.status == 1
    assert "apt-get install bubblewrap" in done.out


def test_eval_names_it_too_and_ends_with_3(cli: Any, box: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tar").symlink_to(shutil.which("tar") or "")
    done = cli("eval", "bash", "--agent", "gold", "--limit", 1, "--data", box, "--json", PATH=str(tmp_path / "bin"))
    assert (done.status, done.out) == (3, "")
    assert "apt-get install bubblewrap" in done.err


@pytest.mark.parametrize("name", ["a/b", "", "..", "UPPER CASE"])
def test_an_image_needs_a_plain_name(cli: Any, name: str) -> None:
    done = cli("image", "build", name)
    assert (done.status, done.out) == (2, "")
    assert "name" in done.err


def test_an_image_that_is_not_there_says_how_to_make_it(cli: Any, box: Path) -> None:
    done = cli("check", "bash", "--data", box, "--image", "nosuch")
    assert done.status == 2
    assert "intercode image build nosuch" in done.err


def test_building_an_image_without_mmdebstrap_names_the_package(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    done = cli("image", "build", "some", PATH=str(tmp_path / "bin"))
    assert done.status == 3
    assert "apt-get install mmdebstrap" in done.err
