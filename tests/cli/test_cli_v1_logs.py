"""The files that InterCode v1's classes write to `traj_dir` are recordings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from intercode.envs import BashEnv  # type: ignore[attr-defined]

FILES = [
    {"query": "Count the lines of /box/a", "gold": "wc -l < /box/a"},
    {"query": "Make /box/b", "gold": "touch /box/b"},
]


@pytest.fixture
def box(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "tree" / "box").mkdir(parents=True)
    (tmp_path / "tree" / "box" / "a").write_text("one\ntwo\n")
    (tmp_path / "nl2bash.json").write_text(json.dumps(FILES))
    tree = str(tmp_path / "tree")
    return {"data_path": str(tmp_path / "nl2bash.json"), "tree": tree, "image": None}


@pytest.mark.slow
def test_what_was_written_is_reported_shown_and_replayed(
    box: Any, tmp_path: Path, cli: Any
) -> None:
    env = BashEnv("intercode-bash", traj_dir=str(tmp_path), **box)
    for index, action in ((0, "wc -l < /box/a"), (1, "touch /box/b"), (1, "true")):
        env.reset(index)
        env.step(action)
        env.step("submit")
    env.close()
    folder = tmp_path / "logs_ic_bash"
    figures = cli("report", folder, "--json").json
    assert (figures["env"], figures["episodes"]) == ("bash", 3)
    assert figures["success_rate"] == pytest.approx(2 / 3)
    assert "touch /box/b" in cli("show", folder, "1").out
    options = ("--data", box["data_path"], "--tree", box["tree"])
    replayed = cli("replay", folder, *options, "--json").json
    assert replayed["agree"] == replayed["turns"]
    logs = [json.loads(path.read_text()) for path in folder.iterdir()]
    (tmp_path / "human.json").write_text(json.dumps(dict(enumerate(logs))))
    assert cli("report", tmp_path / "human.json", "--json").json["episodes"] == 3
    words = ("--format", "sft", "--as", "try_again", "--turns", 5, "--out", tmp_path / "sft.jsonl")
    assert cli("export", folder, *words).status == 0
    rows = map(json.loads, (tmp_path / "sft.jsonl").read_text().splitlines())
    replies = [row["completion"][0]["content"] for row in rows]
    assert sum("touch /box/b" in reply for reply in replies) == 1
    assert sum("submit" in reply for reply in replies) == 2
    other = {**logs[0], "query": "Another question"}
    (tmp_path / "two.json").write_text(json.dumps({"a": logs[0], "b": other, "c": logs[0]}))
    shown = cli("show", tmp_path / "two.json", "--json").json["episodes"]
    first = str(logs[0]["query_idx"])
    ids = {(episode["task"], episode["epoch"]) for episode in shown}
    assert ids == {(first, 0), (f"{first}.2", 0), (first, 1)}
    assert {turn["exit_code"] for episode in shown for turn in episode["turns"]} == {None}
    (tmp_path / "none.json").write_text('{"0": {"query": "?"}}')
    assert "has no episode" in cli("report", tmp_path / "none.json").err
