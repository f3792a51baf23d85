"""Shards of a run, played apart, and merged."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

PARTS = ("part1", "part2", "part3")
EVAL = ("eval", "bash", "--agent", "retrieval", "--epochs", 3, "--seed", 3)


def lines(run: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]
    for episode in found:
        for turn in episode["turns"]:
            turn["seconds"] = 0
    return found


def settings(run: Path) -> dict[str, Any]:
    config = json.loads((run / "run.json").read_text())
    return {
        key: value
        for key, value in config.items()
        if key not in ("run", "created", "options", "workers", "signature")
    }


@pytest.fixture(scope="module")
def parts(box: Path, run_once: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with part1, part2 and part3, played where the data lie elsewhere."""
    clone = Path(shutil.copytree(box, tmp_path_factory.mktemp("clone") / box.name))
    os.utime(clone / "tree" / "box" / "a", (1, 1))  # every clone has times of its own
    for number in (1, 2, 3):
        run_once(*EVAL, "--data", clone, "--shard", f"{number}/3", "--out", f"part{number}")
    return Path(run_once("report", "part1"))


@pytest.fixture(autouse=True)
def copied(parts: Path, tmp_path: Path) -> None:
    shutil.copytree(parts, tmp_path, dirs_exist_ok=True)


def test_merged_shards_are_the_run_of_one_machine(cli: Any, box: Path, tmp_path: Path) -> None:
    cli(*EVAL, "--data", box, "--out", "whole", "--workers", 1)
    assert sum(len(lines(tmp_path / part)) for part in PARTS) == 15
    done = cli("merge", *reversed(PARTS), "--out", "merged", "--json")
    assert (done.status, done.json["episodes"], done.json["run"]) == (0, 15, "merged")
    assert lines(tmp_path / "merged") == lines(tmp_path / "whole")
    assert settings(tmp_path / "merged") | {"data_from": None} == settings(tmp_path / "whole") | {
        "data_from": None
    }


def test_missing_episodes_are_named_and_a_resumed_run_plays_them(cli: Any, tmp_path: Path) -> None:
    torn = tmp_path / "part2" / "episodes.jsonl"  # as a kill leaves it
    torn.write_bytes(torn.read_bytes()[:-20])
    done = cli("merge", *PARTS, "--out", "merged")
    assert done.status == 1
    assert "1 episode is missing: " in done.err
    assert cli("eval", "--resume", "merged", "--json").json["episodes"] == 15
    cli("eval", "--resume", "part2")
    assert cli("merge", *PARTS, "--out", "again").status == 0


def test_runs_that_are_no_shards_of_one_are_refused(cli: Any, box: Path, tmp_path: Path) -> None:
    words = (*EVAL, "--data", box, "--shard", "2/3", "--seed", 4)
    assert cli(*words, "--out", "other").status == 0
    for words, why in [
        (("part1", "other"), "are not shards of one run (seed: 3 → 4)"),
        (("part1", "part1"), "was played in part1 and in part1"),
    ]:
        done = cli("merge", *words, "--out", "merged")
        assert (done.status, why in done.err) == (2, True), done.err
        assert not (tmp_path / "merged").exists()
    assert "'4/3' is not a shard" in cli("eval", "bash", "--shard", "4/3").err
