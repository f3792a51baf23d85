"""The viewer's index says what the report says, whatever happens to the run's file or to the
processes that update it."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap
from viewing import INTERCODE, SETTINGS, enterable, episode, eval_run, make_run, serving, viewer

import intercode
from intercode.report.analysis import failures
from intercode.report.summary import FIGURES, summary
from intercode.report.transcript import state_of
from intercode.runs.folders import RunFolder
from intercode.runs.index import Index
from intercode.runs.store import read_run
from intercode.types import Episode, Turn, Usage

pytestmark = pytest.mark.slow


def played(count: int, epochs: int) -> list[Episode]:
    """Episodes of every state and category; some are recorded twice, first with a fault."""
    rng, found = random.Random(5), list[Episode]()
    for task in range(count):
        for epoch in range(epochs):
            actions = [rng.choice(("ls", "cat x", "wc")) for _ in range(rng.randrange(5))]
            values = rng.choice(((None,), (None,), (0.0, 0.5), (0.5, 1.0)))
            turns = [
                Turn(
                    action=action,
                    observation=f"{rng.randrange(4)}\n",
                    exit_code=rng.choice((0, 0, 1)),
                    seconds=0.5,
                    timed_out=rng.random() < 0.1,
                    score=rng.choice((None, None, 0.3)),
                    value=rng.choice(values),
                    usage=Usage(10, 2, 0.001),
                )
                for action in actions
            ]
            forced = rng.random() < 0.2
            turns += [Turn(action="submit", score=0.0, forced=forced)] * (rng.random() < 0.6)
            facts: dict[str, Any] = {
                "epoch": epoch,
                "ended": rng.choice(("submit", "turns", "stopped", "limit")),
                "ambiguous": rng.random() < 0.1,
                "parts": {"answer": 0.5, "robust": float(rng.random() < 0.5)},
            }
            if rng.random() < 0.2:
                found.append(
                    Episode(
                        f"t{task}", "q", turns, None, False, None, epoch=epoch, error="model: gone"
                    )
                )
            found.append(
                episode(
                    f"t{task}", *turns or [Turn(reply="no")], solved=rng.random() < 0.4, **facts
                )
            )
    return found


def rows(index: Index) -> list[tuple[Any, ...]]:
    index.update()
    return [
        tuple(v for k, v in row.items() if k != "seen")
        for row in index.rows("SELECT * FROM episodes ORDER BY task, epoch")
    ]


def assert_right(run: Path) -> None:
    """The index has what an index made anew has, and says of each episode what the report says."""
    config, episodes = read_run(run)
    seen, copy = RunFolder(run, "run"), run.parent / "anew"
    shutil.copytree(run, copy, ignore=shutil.ignore_patterns("index.sqlite*"))
    assert rows(seen.index) == rows(Index(copy, config))
    shutil.rmtree(copy)
    states = {
        (row["task"], row["epoch"]): row["state"]
        for row in seen.index.rows("SELECT * FROM episodes")
    }
    assert states == {(each.task, each.epoch): state_of(each) for each in episodes}
    scored = [each for each in episodes if each.reward is not None]
    causes = {row["name"]: row["episodes"] for row in failures(config, scored)}
    assert dict(seen.facets().get("category", [])) == causes
    report, found = summary(config, episodes), seen.figures()
    for one in FIGURES:
        assert found.get(one.key) == pytest.approx(report.get(one.key), abs=0.0011), one.key


@pytest.mark.parametrize("epochs", [1, 3])
def test_the_index_says_what_the_report_says(tmp_path: Path, epochs: int) -> None:
    episodes = played(120, epochs)
    run = make_run(tmp_path / "run", episodes, epochs=epochs, turns=4, robust=True)
    assert_right(run)
    found = Counter(
        row["category"] for row in Index(run, SETTINGS).rows("SELECT category FROM episodes")
    )
    assert (found["had the answer"] > 3) == (epochs > 1)
    assert found["had it and lost it"] > 3


def test_failed_means_the_same_everywhere(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", played(40, 3), epochs=3)
    index = Index(run, {**SETTINGS, "epochs": 3})
    index.update()
    facets = {name: dict(values) for name, values in RunFolder(run, "run").facets().items()}
    table = [row for row in intercode.read_run(run).rows() if row["why"]]
    assert facets["state"]["failed"] == sum(facets["category"].values()) == len(table)
    assert facets["category"] == Counter(row["why"] for row in table)
    assert len(index.find({"state": "failed"})) == len(table)
    ambiguous = len(index.find({"state": "ambiguous"}))
    assert 0 < ambiguous == facets["state"]["ambiguous"] < len(table)


def test_a_file_that_grows_is_torn_or_is_replaced(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", played(60, 2), epochs=2)
    file, whole = run / "episodes.jsonl", (run / "episodes.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    index = Index(run, {**SETTINGS, "epochs": 2})
    other = b"".join(reversed(lines))
    changes = {
        "torn": whole[: len(whole) // 2],
        "whole": whole,
        "shorter": b"".join(lines[:20]),
        "empty": b"",
        "again": whole,
        "as long": other,
        "longer": other + lines[0].replace(b'"task": "t', b'"task": "u'),
        "damaged": b"no record\n" + whole,
        "half": whole[:100],
    }
    for name, content in changes.items():
        file.write_bytes(content)
        index.update()
        kept = content[: content.rfind(b"\n") + 1]
        records = [json.loads(line) for line in kept.splitlines() if line != b"no record"]
        last = {(each["task"], each["epoch"]): each["reward"] for each in records}
        found = {
            (row["task"], row["epoch"]): row["reward"]
            for row in index.rows("SELECT * FROM episodes")
        }
        assert (found, index.covered[:2]) == (last, (len(kept), int(name == "damaged"))), name
    file.unlink()
    assert rows(index) == []
    (run / "index.sqlite").unlink()
    file.write_bytes(whole)
    assert_right(run)


def test_a_folder_that_cannot_be_written_has_a_temporary_index(empty_cache: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("serves as another user")
    run = make_run(empty_cache / "run", played(20, 1))
    for _ in ("no index", "an index that is of another user"):
        with enterable(INTERCODE), viewer(run, user=65534) as address:
            assert (
                "20 of 20 episodes" in urllib.request.urlopen(f"{address}run/run").read().decode()
            )
        Index(run, SETTINGS).update()
        with (run / "episodes.jsonl").open("a") as file:
            file.write((run / "episodes.jsonl").read_text().splitlines(keepends=True)[0])


def test_a_search_finds_what_python_finds(tmp_path: Path) -> None:
    rng = random.Random(3)
    letters = [
        '"',
        "\\",
        "\n",
        ": ",
        '": "',
        "a",
        "é",
        "\u2028",
        "😀",
        "\ud83d",
        "\x00",
        "\x7f",
        "/",
        "u",
        "n",
        "0",
        ", ",
        "{",
        "}",
        "[",
        "\t",
    ]

    def words(most: int = 6) -> str:
        return "".join(rng.choice(letters) for _ in range(rng.randrange(most)))

    def turn() -> Turn:
        asked = ({"role": "user", "content": words(), "action": words()},)
        return Turn(
            asked, reply=words(), thought=words(), action=words() or None, observation=words()
        )

    def outcomes() -> dict[str, Any]:
        return {
            "action": words(),
            "observation": words(),
            words(): {"action": [words()], "": words()},
        }

    episodes = [
        episode(
            f"{n}{words()}",
            *(turn() for _ in range(rng.randrange(4))),
            query=words(),
            outcomes=outcomes(),
        )
        for n in range(400)
    ]
    run = make_run(tmp_path / "run", episodes)
    compact = make_run(tmp_path / "compact", episodes)
    records = [json.loads(line) for line in (run / "episodes.jsonl").read_bytes().splitlines()]
    encoded = [
        json.dumps(each, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
        for each in records
    ]
    (compact / "episodes.jsonl").write_bytes(b"\n".join(encoded) + b"\n")
    for folder in (run, compact):
        index, played = Index(folder, SETTINGS), read_run(folder)[1]
        index.update()
        starts = {
            row["task"]: row["start"] for row in index.rows("SELECT task, start FROM episodes")
        }
        for text in dict.fromkeys(
            [*letters, *(words(4) for _ in range(200)), "action", "observation", "null"]
        ):
            if text:
                hits = [
                    each
                    for each in played
                    if any(text in (t.action or "") or text in t.observation for t in each.turns)
                ]
                assert index.search(text) == {starts[each.task] for each in hits}, (
                    folder.name,
                    text,
                )


def test_a_viewer_that_is_killed_while_it_indexes_leaves_an_index_that_is_right(
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path / "run", played(2000, 1))
    script = (
        "from intercode.runs.index import *\nimport sys\nrun = Path(sys.argv[1])\n"
        "index = Index(run, json.loads((run / 'run.json').read_text()))\n"
        "print(flush=True)\nwhile 1:"
    )
    script += " index.update(0.01)"
    for delay in (0.0, 0.02, 0.1, 0.3, 0.6):
        with subprocess.Popen(
            [sys.executable, "-c", script, run], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
        with sqlite3.connect(run / "index.sqlite") as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        db.close()
    assert_right(run)


def test_eval_and_two_viewers_do_not_harm_each_other_also_when_they_are_killed(
    tmp_path: Path,
) -> None:
    needs_bwrap()
    run, options = tmp_path / "runs" / "live", ("--workers", "4", "--limit", "16")
    process = eval_run(run, "slow", *options)
    while not (run / "run.json").exists():
        time.sleep(0.05)
    with serving(run.parent) as (one, first), viewer(run.parent) as two:

        def look(address: str) -> None:
            assert b"episodes" in urllib.request.urlopen(f"{address}run/live").read()

        for _ in range(12):
            look(one), look(two)
            time.sleep(0.2)
        first.send_signal(signal.SIGKILL)
        process.send_signal(signal.SIGKILL)
        process.wait()
        look(two)
        resumed = subprocess.Popen([*process.args[:2], "--resume", run], stdout=subprocess.DEVNULL)  # type: ignore[index]
        while resumed.poll() is None:
            look(two)
            time.sleep(0.1)
        look(two)
    assert resumed.returncode == 0
    assert len(read_run(run)[1]) == 16
    assert_right(run)
