"""The line that shows how `intercode eval` goes, on a terminal and elsewhere, while a real model
server hangs or fails."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

import pytest
from chat_server import serving
from cli_words import INTERCODE, TASKS
from kept import needs_bwrap
from terminal import CTRL_C, Terminal

pytestmark = [pytest.mark.slow, pytest.mark.rest]


def test_a_server_that_hangs_is_seen_on_a_terminal_and_in_a_file_and_a_resumed_run_counts_on(
    box: Path, tmp_path: Path
) -> None:
    needs_bwrap()
    if shutil.which("setsid") is None:
        pytest.skip("setsid (util-linux) is not installed")
    first, mended = TASKS[0]["query"], threading.Event()
    command = [
        INTERCODE,
        "eval",
        "bash",
        "--data",
        str(box),
        "--model",
        "tiny",
        "--price",
        "10,100",
        "--out",
    ]
    with serving({task["query"]: task["gold"] for task in TASKS}) as server:
        server.before_answer = lambda request: (
            request["messages"][1]["content"] != first and mended.wait(60)
        )
        env = {**os.environ, **server.variables, "COLUMNS": "200"}
        printing = subprocess.Popen(
            [*command, "printed"], cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True
        )
        with Terminal([*command, "run"], cwd=tmp_path, env=env) as terminal:
            finished = r"1 of 5 · success 100\.0 % \(20\.7–100\.0\) · 220 tokens · \$0\.0040 · "
            assert re.search(
                finished + r"[\d.]+ episodes/min",
                terminal.expect("2 replies awaited, the oldest for 6 s"),
            )
            terminal.expect("the oldest for 7 s")
            terminal.press(CTRL_C)
            terminal.press(CTRL_C)
            assert terminal.ends() == 130
        assert printing.stderr
        assert printing.stderr.readline() == "run: printed\n"
        line = printing.stderr.readline()
        assert re.fullmatch(
            finished + r"[\d.]+ episodes/min · 2 replies awaited, the oldest for \d+ s\n", line
        )
        server.dropping = True
        with Terminal([*command[:2], "--resume", "run"], cwd=tmp_path, env=env) as terminal:
            assert re.search(finished + "model server", terminal.expect("the connection failed"))
            terminal.expect("trying again (2)")
            server.dropping = False
            mended.set()
            assert terminal.ends() == 0
        assert printing.communicate(timeout=60)[1] == "", (
            "the second line would come after ten more seconds"
        )
        assert printing.returncode == 0
