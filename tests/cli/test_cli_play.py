"""`intercode play` in a real terminal: a person solves tasks, looks back, changes their mind, and
leaves."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import families
import pytest
from cli_words import INTERCODE
from kept import needs_bwrap
from terminal import CTRL_C, CTRL_D, UP, Terminal

pytestmark = pytest.mark.slow
PROMPT = "bash> "
HOSTILE = r"printf '\033]0;owned\007\033[2J\r\302\2332J\342\200\256'"


@pytest.fixture
def sit_down(tmp_path: Path, box: Path) -> Iterator[Callable[..., Terminal]]:
    """Opens a terminal with `intercode play bash` on the small data set."""
    needs_bwrap()
    if shutil.which("setsid") is None:
        pytest.skip("setsid (util-linux) is not installed")
    with ExitStack() as stack:

        def sit(*words: object, **variables: str) -> Terminal:
            command = [INTERCODE, "play", "bash", "--data", str(box), *map(str, words)]
            return stack.enter_context(
                Terminal(command, cwd=tmp_path, env={**os.environ, **variables})
            )

        yield sit


def talk(terminal: Terminal, *exchanges: tuple[str, str]) -> None:
    """At each prompt these keys, to which this is shown."""
    for keys, answer in exchanges:
        terminal.expect(PROMPT)
        terminal.press(keys)
        terminal.expect(answer)


def episodes(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]


def test_a_task_is_solved_in_a_terminal_and_the_episode_replays(
    sit_down: Any, cli: Any, tmp_path: Path
) -> None:
    terminal = sit_down("--out", "run", "--limit", 1)
    terminal.expect("How many entries does /box have?")
    talk(
        terminal,
        ("ls /box\n", "a\nb\nc\n"),
        (HOSTILE + "\n", r"\x1b]0;owned\x07\x1b[2J\r\x9b2J\u202e"),
        ("echo 'got'-it\n", "\ngot-it\n"),
        (UP + "\n", "\ngot-it\n"),
        ("```\necho 'f\nenced'\n```\n", "f\nenced\n"),
        ("```\nsubmit <<'E'\n3\nE\n```\n", "solved\x1b[0m\nreference solution: ls /box | wc -l"),
    )
    assert terminal.ends() == 0
    assert not [
        sign for sign in ("\x1b]0;", "\x07", "\x1b[2J", "\x9b", "\u202e") if sign in terminal.shown
    ]
    (episode,) = episodes(tmp_path / "run")
    assert (episode["success"], episode["ended"]) == (True, "submit")
    typed = [
        "ls /box",
        HOSTILE,
        "echo 'got'-it",
        "echo 'got'-it",
        "echo 'f\nenced'",
        "submit <<'E'\n3\nE",
    ]
    assert [turn["action"] for turn in episode["turns"]] == typed
    assert json.loads((tmp_path / "run" / "run.json").read_text())["agent"] == "human"
    found = cli("replay", "run", "--json").json
    assert (found["turns"], found["agreement"], found["observations_equal"]) == (6, 1.0, 6)


def test_tasks_are_listed_skipped_and_chosen_and_unknown_orders_are_no_actions(
    sit_down: Any, tmp_path: Path
) -> None:
    terminal = sit_down("--out", "run")
    talk(
        terminal,
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
    )
    assert terminal.ends() == 0
    assert [(each["task"], len(each["turns"])) for each in episodes(tmp_path / "run")] == [
        ("last", 2)
    ]
    again = sit_down("--resume", "run")
    again.expect("task count, 4 left")
    again.expect(PROMPT)
    again.press(CTRL_D)
    assert again.ends() == 0


def test_ctrl_c_clears_the_line_and_ends_an_action(sit_down: Any, tmp_path: Path) -> None:
    terminal = sit_down("--out", "run")
    talk(terminal, ("echo half", "echo half"))
    terminal.press(CTRL_C)
    terminal.expect("Ctrl-D or :quit leaves")
    terminal.expect(PROMPT)
    terminal.press("echo w'h'ole; x=kept\n")
    assert "half" not in terminal.expect("\nwhole\n")
    terminal.expect(PROMPT)
    spaces = families.spaces(terminal.process.pid)
    assert spaces
    terminal.press("echo a''wake; sleep 600\n")
    terminal.expect("sleep 600\n")
    time.sleep(1)
    terminal.press(CTRL_C)
    assert "awake" in terminal.expect("[timed out")
    talk(terminal, ("echo still $x\n", "still kept"))
    terminal.expect(PROMPT)
    terminal.press(CTRL_D)
    terminal.expect("`intercode play --resume run`")
    assert terminal.ends() == 0
    assert "Traceback" not in terminal.shown
    assert families.left_in(spaces) == set()
    assert episodes(tmp_path / "run") == []


def test_the_live_score_changes_nothing_and_nothing_goes_on_when_the_window_is_closed(
    sit_down: Any, tmp_path: Path
) -> None:
    terminal = sit_down("--out", "run", "--show-score")
    talk(
        terminal,
        (":skip touch\n", "Make"),
        ("touch /box/new\n", "[score 1.00]"),
        ("rm /box/new\n", "[score 0."),
        ("submit\n", "not solved"),
    )
    terminal.expect(PROMPT)
    assert [turn["score"] is None for turn in episodes(tmp_path / "run")[0]["turns"]] == [
        True,
        True,
        False,
    ]
    spaces = families.spaces(terminal.process.pid)
    assert spaces
    terminal.hang_up()
    terminal.process.wait(20)
    assert families.left_in(spaces) == set()


def test_texts_wrap_at_words_a_full_screen_program_costs_no_turn_and_the_gold_follows_the_verdict(
    sit_down: Any, tmp_path: Path
) -> None:
    terminal = sit_down("--out", "run", "--task", "first", COLUMNS="30")
    terminal.expect("Print what /box/a holds, here\nand elsewhere.")
    talk(
        terminal,
        ("vim /box/a\n", "vim needs a terminal, and the\nsandbox has none."),
        ("ls /box|less -R\n", "less needs a terminal"),
        (
            "echo 'a; vi b' more words than one line of it holds\n",
            "\na; vi b more words than one line of it holds\n",
        ),
        ("submit\n", "not solved: 0"),
    )
    terminal.expect("reference solution: cat /box/a")
    assert terminal.ends() == 0
    assert len(episodes(tmp_path / "run")[0]["turns"]) == 2


@pytest.mark.parametrize("protocol", ["submit", "paper"])
def test_without_a_terminal_piped_lines_are_played(
    box: Path, tmp_path: Path, protocol: str
) -> None:
    words = ["play", "bash", "--data", box, "--limit", "1", "--out", "run", "--protocol", protocol]
    keys = b"\xff\xfe\necho \xc3\xa9\nls /box\nsubmit\n"
    env = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(
        [INTERCODE, *words], cwd=tmp_path, env=env, input=keys, capture_output=True, check=False
    )
    assert (done.returncode, b"that is not UTF-8" in done.stdout) == (0, True), done.stderr
    (episode,) = episodes(tmp_path / "run")
    assert [turn["action"] for turn in episode["turns"]][:2] == ["echo é", "ls /box"]
    assert episode["ended"] == ("submit" if protocol == "submit" else "stopped")


def test_each_round_is_asked_and_the_golds_of_all_follow(tmp_path: Path) -> None:
    needs_bwrap()
    rounds = [{"query": f"Print {number}.", "gold": f"echo {number}"} for number in (1, 2)]
    (tmp_path / "tasks.jsonl").write_text(json.dumps({"rounds": rounds}))
    words = ["play", "bash", "--data", "tasks.jsonl", "--out", "run"]
    keys = "echo 1\nsubmit\necho 3\nsubmit\n"
    done = subprocess.run(
        [INTERCODE, *words], cwd=tmp_path, input=keys, capture_output=True, check=False, text=True
    )
    asked, _, end = done.stdout.partition("not solved: 0.50")
    assert "The user goes on:\n\nPrint 2." in asked
    assert end.count("reference solution: ") == 2
    assert "reference solution: echo 1\nreference solution: echo 2\n" in end
