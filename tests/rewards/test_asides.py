"""What stands beside an answer and is no part of it, and what only looks so."""

from __future__ import annotations

import pytest
from asked import Asked, solved

from intercode.rewards import bash_exact
from intercode.types import Change, Outcome, Task

LINES = ("How many lines has /yard/b.txt?", "wc -l < /yard/b.txt", "42")
SIZES = ("How many bytes has each text file of /yard?", "stat -c '%s %n' /yard/*.txt", "6 /yard/a.txt\n117 /yard/b.txt")
LONG = (
    "List /yard at length.",
    "ls -l /yard | sed 1d",
    "-rw-r--r-- 1 ann ann 6 May 1 2024 a\n-rw-r--r-- 1 ann ann 9 May 1 2024 b",
)
FOUND = ("Which files below /yard hold the word oak?", "grep -rl oak /yard", "/yard/a.txt\n/yard/sub/c.txt")
LARGER = ("Which is larger, /yard/a.txt or /yard/b.txt?", "ls -S /yard/a.txt /yard/b.txt | sed -n 1p", "/yard/b.txt")
MEAN = ("What is the average of the lengths?", "awk '{ s += $1 } END { print s / NR }' /yard/n", "1.50")
CUT = ("What is the average of the lengths?", "echo 'scale=2; 19.759/1' | bc", "19.75")
VARIABLES = ("Which variables are in the environment?", "env", "TZ=UTC\nSHLVL=1\n_=/usr/bin/env")
EXPORTED = ("Which variables are exported?", "export -p", 'declare -x SHLVL="1"\ndeclare -x TZ="UTC"')
LEVEL = ("How deep is the shell?", "env | grep ^SHLVL", "SHLVL=1")
TREE = ("List all that is below /yard, itself too.", "find /yard", "/yard\n/yard/a.txt")


@pytest.mark.parametrize(
    ("asked", "ours"),
    [
        (FOUND, "grep: /yard/shut: Permission denied\n/yard/a.txt\n/yard/sub/c.txt"),
        (FOUND, "find: ‘/yard/shut’: Permission denied\n/yard/a.txt\n/yard/sub/c.txt"),
        (FOUND, "/yard/a.txt\n/yard/sub/c.txt\ngrep: sub: Is a directory"),
        (LINES, "ls: cannot open directory '/root/x': Permission denied\n42"),
        (LINES, "bash: line 1: /root/x: Permission denied\n42"),
        (LINES, "\x1b[31m42\x1b[0m"),
        (LINES, "\x1b[01;31m\x1b[K4\x1b[m\x1b[K2"),
        (TREE, ".\n./a.txt"),
        (VARIABLES, "SHLVL=2\nTZ=UTC\n_=/usr/bin/printenv"),
        (VARIABLES, "TZ=UTC"),
        (EXPORTED, 'declare -x SHLVL="2"\ndeclare -x TZ="UTC"'),
    ],
)
def test_complaints_colours_and_the_shells_own_variables_are_noise(asked: Asked, ours: str) -> None:
    assert solved(asked, ours)


@pytest.mark.parametrize(
    ("asked", "ours"),
    [
        (LINES, "42\n43: or 44: Permission denied"),
        (LINES, "42\ngrep: 44: Permission denied"),
        (LINES, "note: warning: the right answer is 41\n42"),
        (LINES, "42\nfind: warning: it may be 41"),
        (LINES, "4\x1b[0m2"),
        (LINES, "\x1b[8m42\x1b[0m"),
        (LINES, "42\x1b[2K"),
        (LINES, "41\r42"),
        (LINES, "42\v"),
        (LINES, "4\u200b2"),
        (LINES, "42\ntotal 41"),
        (("How many lines have all C files?", "wc -l *.c | tail -n 1", "42 total"), ""),
        (SIZES, "6 /yard/a.txt\n117 /yard/b.txt\n999 total"),
        (SIZES, "6 /yard/a.txt\n117 /yard/b.txt\ntotal 5"),
        (LARGER, "."),
        (FOUND, ".\n."),
        (MEAN, "1.491"),
        (MEAN, "1.509"),
        (VARIABLES, "TZ=UTC\nPS1=x"),
        (VARIABLES, "SHLVL=1\n_=/usr/bin/env"),
        (LEVEL, "SHLVL=2"),
    ],
)
def test_what_only_looks_like_noise_is_an_answer(asked: Asked, ours: str) -> None:
    assert not solved(asked, ours)


NEW, GONE = Change("added", "file", 0o644, "00"), Change("removed", "file")
SECRET = {"/yard/secret": GONE}


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        ({"/root/.cache": Change("added", "dir", 0o755), "/root/.cache/x": NEW}, {}, True),
        ({"/home/ann/.bash_history": NEW}, {}, True),
        ({"/yard/__pycache__": Change("added", "dir", 0o755), "/yard/__pycache__/m.cpython-311.pyc": NEW}, {}, True),
        ({"/yard/.pytest_cache/CACHEDIR.TAG": NEW, "/yard/.pytest_cache/v": NEW}, {}, True),
        ({"/yard/.cache/x": NEW}, {}, False),
        ({"/yard/.rnd": NEW}, {}, False),
        ({"/yard/__pycache__/left": NEW}, {}, False),
        ({"/yard/.pytest_cache/v": NEW}, {}, False),
        ({"/root/.cache/x": GONE}, {}, False),
        ({"/root/.bash_history": Change("changed", "file", 0o644, "01")}, {}, False),
        (SECRET, SECRET, True),
        ({**SECRET, "/root/.rnd": NEW}, SECRET, False),
    ],
)
def test_a_cache_is_free_where_tools_leave_it_and_nothing_is_hidden(
    ours: dict[str, Change], theirs: dict[str, Change], same: bool
) -> None:
    score = bash_exact(Outcome("", ours), Outcome("", theirs), Task("1", "Delete /yard/secret.", "rm -f /yard/secret"))
    assert bool(score.parts["effects"]) is same


MODE, EDITED, OTHER = (
    Change("changed", "dir", 0o700),
    Change("changed", "file", 0o644, "01"),
    Change("added", "file", 0o644, "09"),
)


@pytest.mark.parametrize(
    ("path", "ours", "theirs", "same"),
    [
        ("/yard/.cache/x", None, EDITED, False),
        ("/yard/.cache/x", None, NEW, False),
        ("/yard/.cache/x", OTHER, NEW, False),
        ("/root/.cache/x", None, EDITED, False),
        ("/yard/__pycache__", None, MODE, False),
        ("/yard/__pycache__/notes", None, NEW, False),
        ("/yard/.pytest_cache/v", GONE, EDITED, False),
        ("/yard/.wget-hsts", None, EDITED, False),
        ("/yard/__pycache__/m.cpython-311.pyc", GONE, EDITED, False),
        ("/yard/.pytest_cache/v", None, NEW, True),
        ("/yard/.pytest_cache/v", None, EDITED, True),
        ("/root/.wget-hsts", EDITED, EDITED, True),
        ("/yard/__pycache__/m.cpython-311.pyc", None, EDITED, True),
        ("/yard/__pycache__/m.cpython-311.pyc", OTHER, NEW, True),
        ("/root/.cache/x", None, NEW, True),
    ],
)
def test_what_the_gold_does_to_a_cache_counts_unless_a_tool_leaves_it(
    path: str, ours: Change | None, theirs: Change, same: bool
) -> None:
    task = Task("1", "Bring the yard in order.", "./tidy")
    score = bash_exact(Outcome("", {path: ours} if ours else {}), Outcome("", {path: theirs}), task)
    assert bool(score.parts["effects"]) is same


@pytest.mark.parametrize(
    ("query", "asks"),
    [
        ("Unpack /yard/p.tar and give the names of the entries.", True),
        ("Unpack /yard/p.tar and state the number of the entries.", True),
        ("Unpack /yard/p.tar and print the names.", True),
        ("Unpack /yard/p.tar, and name each file after its folder.", False),
        ("Unpack /yard/p.tar, and give the names in it a prefix.", False),
        ("Unpack /yard/p.tar, and name the folder `out`.", False),
        ("Unpack /yard/p.tar and give the owner the right to write.", False),
        ("Bring the files of /yard/p.tar back to the state that they had.", False),
    ],
)
def test_the_talk_of_a_tool_is_an_answer_where_the_query_asks_for_it(query: str, asks: bool) -> None:
    made = {"/yard/a": NEW}
    task = Task("1", query, "tar xvf /yard/p.tar")
    assert bash_exact(Outcome("a\n", made), Outcome("a\n", made), task).success
    assert bash_exact(Outcome("", made), Outcome("a\n", made), task).success is not asks
