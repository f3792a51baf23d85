"""Types of `make`, `prepare` and `evaluate`: a type checker finds each wrong option."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "option_types.py"
CALLS = """
from pathlib import Path
from typing import Any
import intercode
from intercode import BashEnv, Limits, Run, SqlEnv
bash: BashEnv = intercode.make("bash", limit=3, image="debian", limits=Limits(memory=1 << 28))
sql: SqlEnv = intercode.make("sql", engine="mariadb", robust=True, databases=Path("data"))
python = intercode.make("python", submits=2, tell='case')
ctf = intercode.make("ctf", assets="files", submits=None, render_mode="ansi")
harbor = intercode.prepare("harbor", data="tasks", everything=True, allow_host_network=True)
mine = intercode.prepare("own.py:Env", data="tasks.jsonl", session="stateless")
options: dict[str, Any] = {"level": 3}
more = intercode.prepare("own.py:Env", **options)
run: Run = intercode.evaluate("bash", agent="gold", epochs=2, out=Path("runs"), task=["a", "b"])
asked = intercode.evaluate("sql", model="m", request={"top_p": 0.9}, price=(0.1, 0.2), resume=True)
length: int = len(intercode.prepare("bash", setup="make.sh").tasks)
intercode.make("bash", taks="files")  # unknown
intercode.make("bash", limt=3)  # misspelt
intercode.make("bash", limit="3")  # wrong type
intercode.make()  # missing
intercode.make("bash", engine="mysql")  # another environment's
intercode.make("sql", tree="files")  # a sandbox's
intercode.evaluate("sql", price=(0.1, "free"))  # nested
intercode.evaluate("sql", task=["a", 3])  # nested in a list
intercode.make("bash", agent="gold")  # of runs alone
intercode.prepare("python", tell="everything")  # no such word
wrong: SqlEnv = intercode.make("bash")  # another class
"""


@pytest.mark.slow
def test_each_wrong_call_is_an_error_and_no_right_one(tmp_path: Path) -> None:
    (tmp_path / "calls.py").write_text(CALLS)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "calls.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    lines = CALLS.splitlines()
    wrong = {number for number, line in enumerate(lines, start=1) if "  # " in line}
    assert len(wrong) == 11
    assert {int(number) for number in re.findall(r"^calls.py:(\d+): error", done.stdout, re.M)} == (
        wrong
    ), done.stdout[-3000:]


def test_the_types_are_those_of_the_declared_options() -> None:
    assert subprocess.run([sys.executable, SCRIPT, "--check"], check=False).returncode == 0
