"""`intercode play` in a real terminal: a person solves tasks, looks back, changes their mind, and leaves."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import survivors
from cli_words import INTERCODE
from kept import needs_bwrap
from terminal import CTRL_C, CTRL_D, UP, Terminal

pytestmark = pytest.mark.slow
PROMPT = "bash> "
HOSTILE = r"printf '\033]0;owned\007\033[2J\r\302\2332J\342\200\256'"


@pytest.fixture
def sit_down(tmp_path: Path, module_cache: Path, box: Path) -> Iterator[Callable[..., Terminal]]:
    """Opens a terminal with `intercode play bash` on the small data set."""
    needs_bwrap()
    if shutil.which("setsid") is None:
        pytest.skip("setsid (util-linux) is not installed")
    with ExitStack() as stack:

        def sit(*words: object) -> Terminal:
            command = [INTERCODE, "play", "bash", "--data", str(box), *map(str, words)]
            return stack.enter_context(Terminal(command, cwd=tmp_path, env=os.environ))

        yield sit


def episodes(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]


def test_a_task_is_solved_in_a_terminal_and_the_episode_replays(sit_down: Any, cli: Any, box: Path, tmp_path: Path) -> None:
    terminal = sit_down("--out", "run", "--limit", 1)
    terminal.expect("How many entries does /box have?")
    terminal.expect(PROMPT)
    terminal.press("ls /box\n")
    terminal.expect("a\nb\nc\n")
    terminal.expect(PROMPT)
    terminal.press("ls /box | wc -l\n")
    terminal.expect("3\n")
    terminal.expect(PROMPT)
    terminal.press("submit\n")
    terminal.expect("solved")
    assert terminal.ends() == 0
    (episode,) = episodes(tmp_path / "run")
    assert (episode["success"], episode["ended"]) == (True, "submit")
    assert [turn["action"] for turn in episode["turns"]] == ["ls /box", "ls /box | wc -l", "submit"]
    assert json.loads((tmp_path / "run" / "run.json").read_text())["agent"] == "human"
    found = cli("replay", "run", "--env", "bash", "--data", box, "--json").json
    assert (found["turns"], found["agreement"], found["observations_equal"]) == (3, 1.0, 3)
    assert cli("report", "run", "--json").json["success_rate"] == 1.0


def test_the_arrow_brings_back_what_was_typed_and_fences_hold_one_action(sit_down: Any, tmp_path: Path) -> None:
    terminal = sit_down("--out", "run", "--limit", 1)
    submission = "submit <<'E'\n3\nE"
    for keys, answer in (
        ("echo 'got'-it\n", "\ngot-it\n"),
        (UP + "\n", "\ngot-it\n"),
        ("```\necho 'f\nenced'\n```\n", "f\nenced\n"),
    ):
        terminal.expect(PROMPT)
        terminal.press(keys)
        terminal.expect(answer)
    terminal.press(f"```\n{submission}\n```\n")
    terminal.expect("solved")
    assert terminal.ends() == 0
    typed = ["echo 'got'-it", "echo 'got'-it", "echo 'f\nenced'", submission]
    assert [turn["action"] for turn in episodes(tmp_path / "run")[0]["turns"]] == typed


def test_a_named_task_is_the_only_one(sit_down: Any) -> None:
    terminal = sit_down("--out", "run", "--task", "last")
    terminal.expect("task last, 1 left")
    terminal.expect(PROMPT)
    terminal.press(CTRL_D)
    assert terminal.ends() == 0


def test_tasks_are_listed_skipped_and_chosen_and_unknown_orders_are_no_actions(sit_down: Any, tmp_path: Path) -> None:
    terminal = sit_down("--out", "run")
    for keys, answer in (
        (":tasks\n", "now     count"),
        (":skip\n", "Make the empty file /box/new."),
        (":skip nowhere\n", "no task nowhere is left"),
        (":skip last\n", "Print what /box/c holds."),
        (":score\n", "there is no :score"),
        (":help\n", "`submit ANSWER`"),
        ("cat /box/c\n", "plum\n"),
        ("submit\n", "solved"),
        (":tasks\n", "solved  last"),
        (":quit\n", "`intercode play --resume run`"),
    ):
        terminal.expect(PROMPT)
        terminal.press(keys)
        terminal.expect(answer)
    assert terminal.ends() == 0
    assert [(each["task"], len(each["turns"])) for each in episodes(tmp_path / "run")] == [("last", 2)]
    again = sit_down("--resume", "run")
    again.expect("task count, 4 left")
    again.expect(PROMPT)
    again.press(CTRL_D)
    assert again.ends() == 0


def test_ctrl_c_clears_the_line_and_during_an_action_leaves_with_nothing_recorded_and_nothing_running(
    sit_down: Any, tmp_path: Path
) -> None:
    terminal = sit_down("--out", "run")
    terminal.expect(PROMPT)
    terminal.press("echo half")
    terminal.expect("echo half")
    terminal.press(CTRL_C)
    terminal.expect("Ctrl-D or :quit leaves")
    terminal.expect(PROMPT)
    terminal.press("echo w'h'ole\n")
    assert "half" not in terminal.expect("\nwhole\n")
    terminal.expect(PROMPT)
    spaces = survivors.spaces(terminal.process.pid)
    assert spaces
    terminal.press("sleep 8\n")
    terminal.expect("sleep 8\n")
    terminal.press(CTRL_C)
    terminal.expect("go on with `intercode play --resume run`")
    assert terminal.ends() == 130
    assert "Traceback" not in terminal.shown
    assert survivors.left_in(spaces) == []
    assert episodes(tmp_path / "run") == []


def test_nothing_goes_on_when_the_window_is_closed(sit_down: Any) -> None:
    terminal = sit_down("--out", "run")
    terminal.expect(PROMPT)
    spaces = survivors.spaces(terminal.process.pid)
    assert spaces
    terminal.hang_up()
    terminal.process.wait(20)
    assert survivors.left_in(spaces) == []


def test_what_the_sandbox_prints_cannot_steer_the_terminal(sit_down: Any) -> None:
    terminal = sit_down("--out", "run")
    terminal.expect(PROMPT)
    terminal.press(HOSTILE + "\n")
    terminal.expect(r"\x1b]0;owned\x07\x1b[2J\r\x9b2J\u202e")
    for sign in ("\x1b]0;", "\x07", "\x1b[2J", "\x9b", "\u202e"):
        assert sign not in terminal.shown


def test_the_live_score_is_shown_and_changes_nothing(sit_down: Any, tmp_path: Path) -> None:
    terminal = sit_down("--out", "run", "--score")
    for keys, answer in ((":skip touch\n", "Make"), ("touch /box/new\n", "[score 1.00]"), ("rm /box/new\n", "[score 0.")):
        terminal.expect(PROMPT)
        terminal.press(keys)
        terminal.expect(answer)
    terminal.press("submit\n")
    terminal.expect("not solved")
    terminal.expect(PROMPT)
    terminal.press(CTRL_D)
    assert terminal.ends() == 0
    assert [turn["score"] is None for turn in episodes(tmp_path / "run")[0]["turns"]] == [True, True, False]


def test_without_a_terminal_piped_lines_are_played(cli: Any, box: Path, tmp_path: Path) -> None:
    keys = "touch /box/new\nls /box\nls /box | wc -l\nsubmit\n"
    done = subprocess.run(
        [INTERCODE, "play", "bash", "--data", box, "--limit", "1", "--out", "run", "--protocol", "paper"],
        cwd=tmp_path, input=keys, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "run: run\n" if done.stderr else "")
    (episode,) = episodes(tmp_path / "run")
    assert episode["ended"] == "turns"
    assert 0 < episode["reward"] == max(turn["score"] or 0 for turn in episode["turns"]) < 1


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_bytes_that_are_no_text_cost_no_turn(cli: Any, box: Path, tmp_path: Path, locale: str) -> None:
    done = subprocess.run(
        [INTERCODE, "play", "bash", "--data", box, "--limit", "1", "--out", "run"], cwd=tmp_path,
        env={**os.environ, "LC_ALL": locale}, input=b"\xff\xfe\necho \xc3\xa9\nsubmit\n",
        capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, b"that is not UTF-8" in done.stdout) == (0, True), done.stderr
    assert [turn["action"] for turn in episodes(tmp_path / "run")[0]["turns"]] == ["echo é", "submit"]


def test_a_human_is_no_agent_for_eval(cli: Any, box: Path) -> None:
    done = cli("eval", "bash", "--data", box, "--agent", "human")
    assert (done.status, done.out) == (2, "")
    assert "intercode play bash" in done.err
