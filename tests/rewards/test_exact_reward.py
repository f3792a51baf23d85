"""The exact Bash reward on labelled actions: gold and agent are really executed on the same small
tree, then compared.

In commands and queries `@` stands for the root of the tree, which both see as `/`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from trees import changed, snapshot

from intercode.envs.bash.compare import bash_exact
from intercode.types import Change, Outcome, Score, Task

FILES = {
    "docs/a.txt": "apple\nbanana\n\nhello world\n",
    "docs/b.txt": "Hello there\nkiwi\n",
    "docs/deep/c.txt": "cherry\nhello again\n",
    "docs/deep/d.md": "# title\n\n\ntext  with   blanks\n\tindented\n",
    "src/main.c": "int main(void)\n{\n    return 0;\n}\n",
    "src/util.c": "/* hello */\nint util;\n",
    "src/run.sh": "#!/bin/sh\necho hello\n",
    "src/__pycache__/m.pyc": "m",
    "logs/app.log": (
        "10:01 ERROR disk\n10:02 INFO ok\n10:03 ERROR net\n10:04 WARN slow\n10:05 INFO ok\n10:06"
        " INFO bye\n"
    ),
    "logs/old.log": "",
    "data/words": "pear\nfig\nfig\npear\nfig\nplum\ndate\n",
    "tmp/kept": "k\n",
}

TASKS: list[tuple[str, str, list[str], list[str]]] = [
    (
        "Count the lines of @/docs/a.txt",
        "wc -l < @/docs/a.txt",
        [
            "wc -l @/docs/a.txt",
            "awk 'END{print NR}' docs/a.txt",
            "printf '     %s\\n\\n' 4",
            "mkdir -p tmp; cp docs/a.txt tmp/x; wc -l < tmp/x",
            "mkdir -p .cache; touch .cache/x .bash_history; echo 4",
        ],
        [
            "wc -w < @/docs/b.txt",
            "grep -c . @/docs/a.txt",
            "cat docs/a.txt",
            "echo 4.5",
            "true",
            "wc -l docs/a.txt | tee n",
        ],
    ),
    (
        "Compute the md5 of @/docs/b.txt",
        "md5sum docs/b.txt | cut -d' ' -f1",
        ["md5sum < @/docs/b.txt", "cd @/docs && md5sum b.txt", "md5sum @/docs/b.txt"],
        ["md5sum @/docs/a.txt", "sha1sum @/docs/b.txt"],
    ),
    (
        "List all text files in @/docs",
        "find @/docs -name '*.txt'",
        [
            "cd @/docs; find . -name '*.txt' | sort -r",
            "find docs/ -name '*.txt'",
            "ls @/docs/*.txt @/docs/*/*.txt",
        ],
        [
            "ls @/docs/*.txt",
            "find @/docs -type f",
            "find @/docs -name '*.txt' -exec basename {} \\;",
        ],
    ),
    (
        "List what is in @/docs",
        "ls @/docs",
        [
            "ls -1 @/docs | sort -r",
            "find @/docs -mindepth 1 -maxdepth 1",
            "cd docs && echo *",
            "ls --color=always @/docs",
        ],
        ["ls -a @/docs", "ls @/src"],
    ),
    (
        "Find the lines with hello in @/docs",
        "grep -rn hello @/docs",
        [
            "cd @/docs; grep -rn hello . | sort",
            "grep -n -d skip hello docs/*; grep -n hello docs/deep/*",
        ],
        ["grep -r hello @/docs", "grep -rnh hello @/docs", "grep -rni hello @/docs"],
    ),
    (
        "Count the lines of each C file",
        "for f in src/*.c; do wc -l $f; done",
        ["wc -l @/src/*.c | head -n 2"],
        ["cat src/*.c | wc -l", "wc -c src/*.c"],
    ),
    (
        "Rank the words in @/data/words by how often they occur",
        "sort @/data/words | uniq -c | sort -rn",
        ["awk '{n[$0]++} END {for (w in n) print n[w], w}' data/words | sort -k1,1nr -k2r"],
        ["sort data/words | uniq -c | sort -n", "sort data/words | uniq -c", "uniq -c data/words"],
    ),
    (
        "Print @/data/words",
        "cat data/words",
        ["sed '' data/words"],
        ["sort data/words", "tac data/words"],
    ),
    (
        "Delete the logs and print their paths",
        "find logs -type f -print -delete",
        ["ls logs/*; rm logs/*"],
        ["rm logs/*"],
    ),
    (
        "Delete the logs",
        "rm -v @/logs/*.log",
        ["find @/logs -name '*.log' -delete", "rm logs/*; echo ok"],
        ["rm -r @/logs"],
    ),
    (
        "Delete all logs, name each",
        "find logs -type f -print -delete",
        ["ls logs/*; rm logs/*"],
        ["rm logs/*; echo"],
    ),
    (
        "Delete empty logs",
        "find @/logs -size 0 -delete",
        ["rm logs/old.log; ls logs"],
        ["rm logs/*", "find logs -size 0"],
    ),
    (
        "Create an empty file @/new",
        "touch @/new",
        [": > @/new; echo done"],
        ["echo > @/new", "mkdir @/new"],
    ),
    (
        "Rename @/docs/a.txt to z.txt",
        "mv @/docs/a.txt @/docs/z.txt",
        ["cd docs; cp -p a.txt z.txt && rm a.txt"],
        ["cp docs/a.txt docs/z.txt", "mv docs/b.txt docs/z.txt"],
    ),
    (
        "Make run.sh executable",
        "chmod +x @/src/run.sh",
        ["chmod 755 src/run.sh"],
        ["chmod 777 src/run.sh", "chmod +x src/*"],
    ),
    (
        "Replace hello by bye in run.sh",
        "sed -i s/hello/bye/ src/run.sh",
        ["perl -pi -e s/hello/bye/ src/run.sh && cat src/run.sh"],
        ["sed s/hello/bye/ src/run.sh", "sed -i.bak s/hello/bye/ src/run.sh"],
    ),
    (
        "Link @/cur to docs",
        "ln -s docs @/cur",
        ["ln -s ./docs/ cur"],
        ["ln -s ../docs src/cur", "ln -s no/../docs cur"],
    ),
    (
        "Create a relative link @/cur to docs",
        "ln -s docs cur",
        ["ln -s docs @/cur"],
        ["ln -s @/docs cur"],
    ),
    (
        "Write the sorted words to @/out and show it",
        "sort data/words | tee out",
        ["sort data/words > out; cat out"],
        ["sort data/words > out", "sort data/words", "sort -r data/words | tee out"],
    ),
    (
        "Delete the logs and print how many there were",
        "ls logs | wc -l; rm logs/*",
        ["n=$(ls logs | wc -l); rm -r logs/*; echo $n"],
        ["rm logs/*; ls logs | wc -l"],
    ),
    (
        # new files in /tmp count only where the gold makes them too
        "Put the words into @/tmp/out",
        "mkdir -p tmp; sort data/words > tmp/out",
        ["sort data/words > tmp/s; cp tmp/s tmp/out"],
        ["cp data/words tmp/out", "rm tmp/kept; sort data/words > tmp/out"],
    ),
    ("List the files", "ls", ["ls -1"], ["rm tmp/kept; ls"]),
]


@pytest.fixture(scope="module")
def execute(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Outcome]:
    """What a command does to a copy of the tree, told as if its top were `/`."""
    folder = tmp_path_factory.mktemp("trees")
    template, top = folder / "template", folder / "root"
    for name, content in FILES.items():
        path = template / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(0o644)
    environment = {"PATH": os.environ["PATH"], "HOME": str(top), "LC_ALL": "C"}

    @cache
    def outcome(command: str) -> Outcome:
        shutil.copytree(template, top, symlinks=True)
        before, script = snapshot(top), command.replace("@", str(top))
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=top,
            env=environment,
            stdout=-1,
            stderr=subprocess.STDOUT,
            timeout=20,
        )
        changes = changed(before, snapshot(top))
        shutil.rmtree(top)
        return Outcome(done.stdout.decode().replace(f"{top}/", "/").replace(str(top), "/"), changes)

    return outcome


@pytest.mark.parametrize(("query", "gold", "right", "wrong"), TASKS, ids=[row[0] for row in TASKS])
def test_another_way_to_the_same_outcome_is_solved_and_a_near_miss_is_not(
    query: str, gold: str, right: list[str], wrong: list[str], execute: Callable[[str], Outcome]
) -> None:
    task = Task("t", query.replace("@", ""), gold.replace("@", ""))
    for action in [gold, *right]:
        score = bash_exact(execute(action), execute(gold), task)
        assert score == Score(1.0, True, {"files": 1.0, "answer": 1.0}), action
    for action in [*wrong, ": nothing"]:
        assert bash_exact(execute(action), execute(gold), task).reward == 0, action


def test_one_wrong_letter_and_one_line_more_or_less_are_never_noise(
    execute: Callable[[str], Outcome],
) -> None:
    for query, gold, _, _ in TASKS:
        outcome, task = execute(gold), Task("t", query.replace("@", ""), gold.replace("@", ""))
        lines = outcome.output.splitlines(keepends=True)
        if not lines or outcome.changes or "total" in outcome.output:
            continue
        for index, letter in enumerate(outcome.output):
            wrong = (
                outcome.output[:index]
                + ("x" if letter != "x" else "y")
                + outcome.output[index + 1 :]
            )
            assert not letter.isalnum() or not bash_exact(Outcome(wrong), outcome, task).success, (
                gold,
                wrong,
            )
        for index, line in enumerate(lines):
            fewer, more = lines[:index] + lines[index + 1 :], [*lines[:index], line, *lines[index:]]
            wrong_ones = [Outcome("".join(some)) for some in (fewer, more) if line.strip()]
            assert not any(bash_exact(wrong, outcome, task).success for wrong in wrong_ones), (
                gold,
                line,
            )


def test_outputs_beyond_the_limit_are_compared_by_digest() -> None:
    task = Task("t", "print it", "yes")
    long = Outcome("y\n", overflow="d1")
    assert bash_exact(Outcome("z\n", overflow="d1"), long, task).success
    assert not bash_exact(Outcome("y\n", overflow="d2"), long, task).success
    assert not bash_exact(Outcome("y\n"), long, task).success


NEW = Change("added", "file", 0o644, "00")
OTHER = Change("added", "file", 0o644, "09")
GONE = Change("removed", "file")
FOLDER, EDITED = Change("added", "dir", 0o755), Change("changed", "file", 0o644, "01")
LINK = Change("added", "link", target="/c")
SECRET = {"/yard/secret": GONE}


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        ({"/root/.cache": FOLDER, "/root/.cache/x": NEW}, {}, True),
        ({"/home/ann/.bash_history": NEW}, {}, True),
        ({"/yard/__pycache__": FOLDER, "/yard/__pycache__/m.cpython-311.pyc": NEW}, {}, True),
        ({"/yard/.pytest_cache/CACHEDIR.TAG": NEW, "/yard/.pytest_cache/v": NEW}, {}, True),
        ({"/yard/.cache/x": NEW}, {}, False),
        ({"/root/.cache/x": GONE}, {}, False),
        ({**SECRET, "/root/.rnd": NEW}, SECRET, False),  # it could be hidden there
        ({}, {"/root/.cache/x": NEW}, True),
        ({"/yard/__pycache__/m.pyc": OTHER}, {"/yard/__pycache__/m.pyc": NEW}, True),
        ({"/yard/__pycache__/m.pyc": GONE}, {"/yard/__pycache__/m.pyc": EDITED}, False),
        ({}, {"/yard/__pycache__/notes": NEW}, False),
    ],
)
def test_a_cache_is_free_where_tools_leave_it_and_nothing_is_hidden(
    ours: dict[str, Change], theirs: dict[str, Change], same: bool
) -> None:
    score = bash_exact(
        Outcome("", ours),
        Outcome("", theirs),
        Task("1", "Delete /yard/secret.", "rm -f /yard/secret"),
    )
    assert bool(score.parts["files"]) is same


@pytest.mark.parametrize(
    ("ours", "theirs", "rule"),
    [
        ({}, {}, "same output"),
        ({"/a": NEW}, {"/a": NEW}, "no answer asked for"),
        ({}, {"/a": NEW}, "a file that should have changed"),
        ({"/a": NEW}, {}, "a file that should not have changed"),
        ({"/a": NEW}, {"/a": OTHER}, "other content"),
        ({"/a": GONE}, {"/a": EDITED}, "another type of file"),
        ({"/a": FOLDER}, {"/a": NEW}, "another type of file"),
        ({"/a": NEW}, {"/a": replace(NEW, mode=0o600)}, "other permissions"),
        ({"/a": LINK}, {"/a": replace(LINK, target="/b")}, "another target"),
    ],
)
def test_files_are_refused_by_a_rule_with_a_name(
    ours: dict[str, Change], theirs: dict[str, Change], rule: str
) -> None:
    score = bash_exact(Outcome("", ours), Outcome("", theirs), Task("1", "Write /a.", "x"))
    assert score.rule == rule
    assert bool(score.parts["files"]) is (ours == theirs)


@pytest.mark.parametrize(
    ("query", "asks"),
    [
        ("Unpack /yard/p.tar and give the names of the entries.", True),
        ("Unpack /yard/p.tar and print the names.", True),
        ("Unpack /yard/p.tar, and name each file after its folder.", False),
        ("Unpack /yard/p.tar and give the owner the right to write.", False),
    ],
)
def test_the_talk_of_a_tool_is_an_answer_where_the_query_asks_for_it(
    query: str, asks: bool
) -> None:
    task, made = Task("1", query, "tar xvf /yard/p.tar"), {"/yard/a": NEW}
    assert bash_exact(Outcome("a\n", made), Outcome("a\n", made), task).success
    assert bash_exact(Outcome("", made), Outcome("a\n", made), task).success is not asks


@pytest.mark.parametrize(
    ("said", "probe", "changes", "ambiguous"),
    [
        ("Among others I found /a/b.iso and /a/c.iso.", "", {}, True),
        ("/a/b.iso (largest)\n/a/d.iso", "", {}, True),
        ("The large files are /a/b.iso and /a/c.iso.", "", {}, False),  # solved
        ("/x/d.txt", "", {}, False),
        ("Among others I found /a/b.iso and /a/c.iso.", "off", {}, False),
        ("Among others I found /a/b.iso and /a/c.iso.", "", {"/a/x": NEW}, False),
    ],
)
def test_it_is_unsure_where_only_the_answer_differs_and_most_of_it_is_there(
    said: str, probe: str, changes: dict[str, Change], ambiguous: bool
) -> None:
    task = Task("1", "Which files are large?", "find / -size +1M")
    assert (
        bash_exact(
            Outcome(said, changes, probe=probe), Outcome("/a/b.iso\n/a/c.iso\n"), task
        ).ambiguous
        is ambiguous
    )
