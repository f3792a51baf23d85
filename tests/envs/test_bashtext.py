"""Status 1 of a gold is the answer of its last command, or a failure."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from intercode.envs.bash.golds import ends_in_failure

ANSWERS = [
    "grep zzz notes", "grep 'z;z' notes", "grep -q 'a|b' notes 2>&1",
    "LC_ALL=C A='b c' grep zzz notes", "[ -e nosuch ]", "# don't\ngrep zzz notes # a; cat b",
    "cat notes | sort | egrep -v host", "cd sub && /bin/grep zzz a", "! true", "((0))",
    "grep a notes; diff notes sub/a", "(cd sub; grep zzz a)", "{ grep zzz notes; } > out",
    "diff <(ls .) <(ls sub)", "grep zzz notes &>/dev/null", "[[ a == b ]]", "cmp -s notes sub/a",
    "test a = b", "cat notes |\n  grep zzz", "expr 2 - 2", "cat nosuch | grep zzz",
    "rm nosuch; [ -e nosuch ]", "echo 'cat: denied' > log; cat log; grep -q fatal log", "let 0",
]  # fmt: skip
FAILURES = [
    "cat nosuch", "mkdir a/b", "rm $(grep -l zzz notes) 2> /dev/null", "cat nosuch $(diff a b)",
    "grep a notes && cat nosuch", "grep x < nosuch", "grep -c host notes > nosuch/x",
    "grep -q host notes && rmdir sub", "cat notes; cd nosuch", "cat `grep zzz notes` nosuch",
    "grep -q zzz notes || cat nosuch", "cd nosuch && grep host notes", "let 1/0",
]  # fmt: skip


@pytest.mark.parametrize("gold", [*ANSWERS, *FAILURES])
def test_status_1_is_an_answer_of_the_last_command_where_nothing_complains(
    gold: str, tmp_path: Path
) -> None:
    (tmp_path / "notes").write_text("a host\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a").write_text("other\n")
    done = subprocess.run(
        ["bash", "-c", f"exec 2>&1\n{gold}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=10,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 1
    assert ends_in_failure(1, gold, done.stdout) == (gold in FAILURES), done.stdout


def test_other_statuses() -> None:
    assert [ends_in_failure(status, "grep x f", "") for status in (0, 2, None)] == [
        False,
        True,
        False,
    ]
