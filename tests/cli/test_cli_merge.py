"""Shards of a run, played apart, and merged."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

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


def test_merged_shards_are_the_run_of_one_machine(cli: Any, box: Path, tmp_path: Path) -> None:
    cli(*EVAL, "--data", box, "--out", "whole", "--workers", 1)
    clone = shutil.copytree(box, tmp_path / "clone" / box.name)
    os.utime(clone / "tree" / "box" / "a", (1, 1))  # every clone has times of its own
    for number in range(1, 8):
        cli(*EVAL, "--data", clone, "--shard", f"{number}/7", "--out", f"part{number}")
    parts = [tmp_path / f"part{number}" for number in range(1, 8)]
    assert sum(len(lines(part)) for part in parts) == len(lines(tmp_path / "whole")) == 15
    done = cli("merge", *parts[::-1], "--out", "merged", "--json")
    assert (done.status, done.json["episodes"], done.json["run"]) == (0, 15, "merged")
    assert lines(tmp_path / "merged") == lines(tmp_path / "whole")
    assert settings(tmp_path / "merged") | {"data_from": None} == settings(tmp_path / "whole") | {
        "data_from": None
    }


def test_missing_episodes_are_named_and_a_resumed_run_plays_them(
    cli: Any, box: Path, tmp_path: Path
) -> None:
    parts = [f"part{number}" for number in (1, 2, 3)]
    for number, part in enumerate(parts, 1):
        cli(*EVAL, "--data", box, "--shard", f"{number}/3", "--out", part)
    torn = tmp_path / "part2" / "episodes.jsonl"  # as a kill leaves it
    torn.write_bytes(torn.read_bytes()[:-20])
    done = cli("merge", *parts, "--out", "merged")
    assert done.status == 1
    assert "1 episode is missing: " in done.err
    assert cli("eval", "--resume", "merged", "--json").json["episodes"] == 15
    cli("eval", "--resume", "part2")
    assert cli("merge", *parts, "--out", "again").status == 0


def test_runs_that_are_no_shards_of_one_are_refused(cli: Any, box: Path, tmp_path: Path) -> None:
    for number, seed in ((1, 3), (2, 4)):
        cli(
            "eval",
            "bash",
            "--data",
            box,
            "--agent",
            "gold",
            "--seed",
            seed,
            "--shard",
            f"{number}/2",
            "--out",
            f"part{number}",
        )
    for words, why in [
        (("part1", "part2"), "are not shards of one run (seed: 3 → 4)"),
        (("part1", "part1"), "was played in part1 and in part1"),
    ]:
        done = cli("merge", *words, "--out", "merged")
        assert (done.status, why in done.err) == (2, True), done.err
        assert not (tmp_path / "merged").exists()
    assert "'4/3' is not a shard" in cli("eval", "bash", "--shard", "4/3").err
