"""The exact Bash reward on labelled pairs: gold and agent are really executed on the same small tree, then compared.

Each row of `SAME` solves the task in another way; each row of `OTHER` is a near miss. In commands and queries `@` stands for
the root of the tree, which both see as `/`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from intercode.rewards.exact import bash_exact
from intercode.types import Change, Outcome, Score, Task

TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link"}
FILES = {
    "docs/a.txt": "apple\nbanana\n\nhello world\n",
    "docs/b.txt": "Hello there\nkiwi\n",
    "docs/deep/c.txt": "cherry\nhello again\n",
    "docs/deep/d.md": "# title\n\n\ntext  with   blanks\n\tindented\n",
    "src/main.c": "int main(void)\n{\n    return 0;\n}\n",
    "src/util.c": "/* hello */\nint util;\n",
    "src/run.sh": "#!/bin/sh\necho hello\n",
    "logs/app.log": "10:01 ERROR disk\n10:02 INFO ok\n10:03 ERROR net\n10:04 WARN slow\n10:05 INFO ok\n10:06 INFO bye\n",
    "logs/old.log": "",
    "data/n.csv": "id,name,score\n1,ann,30\n2,bob,7\n3,cy,30\n4,dee,12\n",
    "data/words": "pear\nfig\nfig\npear\nfig\nplum\ndate\n",
}

SAME = [
    # the answer in another way
    ("Count the lines of @/docs/a.txt", "wc -l @/docs/a.txt", "wc -l < @/docs/a.txt"),
    ("Count the lines of @/docs/a.txt", "wc -l < @/docs/a.txt", "wc -l @/docs/a.txt"),
    ("Count the lines of @/docs/a.txt", "cat @/docs/a.txt | wc -l", "awk 'END{print NR}' @/docs/a.txt"),
    ("Count the lines of @/docs/a.txt", "grep -c '' @/docs/a.txt", "grep -Hc '' @/docs/a.txt"),
    ("Count the lines of @/docs/a.txt", "wc -l @/docs/a.txt", "printf '     %s\\n\\n' 4"),
    ("How large is @/docs/b.txt in bytes?", "stat -c %s @/docs/b.txt", "wc -c @/docs/b.txt"),
    ("Compute the md5 of @/docs/b.txt", "md5sum < @/docs/b.txt", "md5sum @/docs/b.txt | cut -d' ' -f1"),
    ("Compute the md5 of @/docs/b.txt", "md5sum @/docs/b.txt", "md5sum < @/docs/b.txt"),
    ("Compute the md5 of @/docs/b.txt", "md5sum @/docs/b.txt", "cd @/docs && md5sum b.txt"),
    ("List all text files in @/docs", "find @/docs -name '*.txt'", "cd @/docs; find . -name '*.txt' | sort -r"),
    ("List all text files in @/docs", "find @/docs -name '*.txt'", "find docs -name '*.txt'"),
    ("List all text files in @/docs", "find @/docs/ -name '*.txt'", "find @/docs// -name '*.txt'"),
    ("List all text files in @/docs", "find @/docs -name '*.txt'", "ls @/docs/*.txt @/docs/*/*.txt"),
    ("List all text files", "find . -name '*.txt'", "find @ -name '*.txt'"),
    ("List all text files below docs", "find docs -name '*.txt'", "cd docs && find . -name '*.txt'"),
    ("List the folders at the top", "find @ -maxdepth 1 -mindepth 1 -type d", "ls -d @/*/"),
    ("Sort the lines of @/docs/deep/d.md", "sort docs/deep/d.md", "LC_ALL=C sort < docs/deep/d.md"),
    ("Delete the logs", "find logs -name '*.log' -print -delete", "rm logs/*.log; echo done"),
    ("Delete the log files below @/logs", "rm -v logs/*.log", "rm logs/*.log; echo gone"),
    ("Make all sources private", "for f in src/*.c; do chmod -v 600 $f; done", "chmod 600 src/*.c; echo done"),
    ("List what is in @/docs", "ls @/docs", "ls -1 @/docs | sort -r"),
    ("List what is in @/docs", "ls @/docs", "find @/docs -mindepth 1 -maxdepth 1"),
    ("List what is in @/docs in colour or not", "ls @/docs", "ls --color=always @/docs"),
    ("List what is in @/docs sorted by name", "ls @/docs", "ls -a @/docs | grep -v '^\\.' | sort"),
    ("Find the files that contain hello", "grep -rl hello @/docs @/src", "grep -rl hello docs src | sort"),
    ("Find the files in @/src that contain hello", "grep -rl hello @/src", "cd @/src; grep -l hello *"),
    ("Find the lines with hello in @/docs", "grep -rn hello @/docs", "cd @/docs; grep -rn hello . | sort"),
    ("Find the lines with hello in @/docs", "grep -rn hello @/docs", "grep -n hello @/docs/*; grep -n hello @/docs/deep/*"),
    ("Find the lines with ERROR in @/logs/app.log", "grep ERROR @/logs/app.log", "awk '/ERROR/' @/logs/app.log"),
    (
        "Find the lines with ERROR and their numbers in app.log",
        "grep -n ERROR logs/app.log",
        "awk '/ERROR/{print NR\": \"$0}' logs/app.log",
    ),
    ("Which words are in @/data/words? Each once.", "sort -u @/data/words", "awk '!seen[$0]++' @/data/words"),
    ("How often does each word occur in @/data/words?", "sort @/data/words | uniq -c", "sort data/words | uniq -c | sort -rn"),
    (
        "Rank the words in @/data/words by how often they occur",
        "sort @/data/words | uniq -c | sort -rn",
        "awk '{n[$0]++} END {for (w in n) print n[w], w}' data/words | sort -k1,1nr -k2",
    ),
    (
        "Count the words in @/data/words",
        "awk '{n[$0]++} END {for (w in n) print n[w], w}' @/data/words",
        "sort @/data/words | uniq -c",
    ),
    (
        "Print the two most frequent words in @/data/words",
        "sort data/words | uniq -c | sort -rn | head -2",
        "sort data/words | uniq -c | sort -nr | head -n2",
    ),
    ("Print the names sorted", "cut -d, -f2 data/n.csv | tail -n +2 | sort", "awk -F, 'NR>1{print $2}' data/n.csv | sort"),
    ("Print the names", "awk -F, 'NR>1{print $2}' data/n.csv", "tail -n +2 data/n.csv | cut -f2 -d,"),
    ("Print @/src/main.c", "cat @/src/main.c", "sed -n p @/src/main.c"),
    ("Print @/src/main.c with line numbers", "cat -n @/src/main.c", "nl -ba @/src/main.c"),
    ("Print @/src/main.c with line numbers", "cat -n @/src/main.c", "awk '{print NR, $0}' src/main.c"),
    ("Print the third line of @/docs/b.txt or nothing", "sed -n 3p docs/b.txt", "head -3 docs/b.txt | tail -n +3"),
    ("Print the last line of @/docs/b.txt", "tail -n 1 docs/b.txt", "tail -n 1 docs/b.txt | tr -d '\\n'"),
    ("Show disk usage of the folders in @/docs", "du -s @/docs/*", "cd @/docs; du -s *"),
    ("Find empty files", "find @ -type f -empty", "find . -type f -size 0"),
    ("Find files named core", "find @ -name core", "ls | grep '^core$'"),
    ("Find files named core", "find @ -name core", "echo 'find: /root/x: Permission denied'"),
    ("Find hello in @/docs", "grep -s hello @/docs/a.txt", "grep -h hello @/docs/a.txt @/docs/deep"),
    ("Squeeze the blanks of d.md", "tr -s ' ' < docs/deep/d.md", "sed 's/  */ /g' docs/deep/d.md"),
    (
        "Show the last three ERROR or INFO lines",
        "grep -E 'ERROR|INFO' logs/app.log | tail -3",
        "grep -e ERROR -e INFO logs/app.log | tail -n 3",
    ),
    (
        "Find the largest file in @/docs",
        "find docs -type f -printf '%s %p\\n' | sort -rn | head -1",
        "find @/docs -type f -printf '%s %p\\n' | sort -n | tail -1",
    ),
    # the effect in another way
    ("Delete the logs", "rm @/logs/*.log", "find @/logs -name '*.log' -delete"),
    ("Delete empty logs", "find @/logs -size 0 -delete", "rm logs/old.log; ls logs"),
    ("Create an empty file @/new", "touch @/new", ": > @/new; echo done"),
    ("Create the folders @/x/y/z", "mkdir -p @/x/y/z", "mkdir @/x @/x/y && mkdir @/x/y/z"),
    ("Rename @/docs/a.txt to z.txt", "mv @/docs/a.txt @/docs/z.txt", "cd docs; cp -p a.txt z.txt && rm a.txt"),
    ("Make run.sh executable", "chmod +x @/src/run.sh", "chmod 755 src/run.sh"),
    (
        "Replace hello by bye in run.sh",
        "sed -i s/hello/bye/ src/run.sh",
        "perl -pi -e s/hello/bye/ src/run.sh && cat src/run.sh",
    ),
    ("Link @/cur to docs", "ln -s docs @/cur", "ln -s ./docs/ cur"),
    ("Link @/cur to docs", "ln -s docs @/cur", "cd logs; ln -s ../docs ../x; mv ../x ../cur; ln -sfn docs ../cur"),
    ("Write the sorted words to @/out", "sort @/data/words > @/out", "cat data/words | sort | tee out"),
    ("Append x to b.txt", "echo x | tee -a @/docs/b.txt", "echo x >> @/docs/b.txt"),
    ("Copy the C files to @/bak", "mkdir bak; cp -v src/*.c bak", "mkdir bak && find src -name '*.c' -exec cp {} bak \\;"),
    (
        "Delete the logs and print how many there were",
        "ls logs | wc -l; rm logs/*",
        "n=$(ls logs | wc -l); rm -r logs/*; echo $n",
    ),
    ("Write the number of words to @/out and show it", "wc -l < data/words | tee out", "wc -l < data/words > out; cat out"),
    ("Count the lines of @/data/words", "wc -l < data/words", "mkdir -p tmp; cp data/words tmp/scratch; wc -l < tmp/scratch"),
    (
        "Count the lines of @/data/words",
        "wc -l < data/words",
        "echo 'wc' > .bash_history; mkdir -p .cache; touch .cache/x; wc -l data/words",
    ),
    (
        "Put the words into @/tmp/out",
        "mkdir -p tmp; sort data/words > tmp/out",
        "mkdir -p tmp; sort data/words > tmp/s; cp tmp/s tmp/out",
    ),
]

OTHER = [
    # another answer
    ("Count the lines of @/docs/a.txt", "wc -l @/docs/a.txt", "wc -w < @/docs/b.txt"),
    ("Count the lines of @/docs/a.txt", "wc -l @/docs/a.txt", "grep -c . @/docs/a.txt"),
    ("Count the lines of @/docs/b.txt", "wc -l @/docs/b.txt", "sed -n '$=' docs/b.txt; echo 3"),
    ("Count the lines of @/docs/b.txt", "wc -l @/docs/b.txt", "wc -l @/docs/deep/c.txt"),
    ("Print only the number of lines of @/docs/a.txt", "wc -l < @/docs/a.txt", "wc -l @/docs/a.txt"),
    ("Count the lines of @/docs/a.txt", "wc -l @/docs/a.txt", "cat docs/a.txt"),
    ("Count the lines of @/docs/a.txt", "wc -l < @/docs/a.txt", "echo 4.5"),
    ("Count the lines of @/docs/a.txt", "wc -l < @/docs/a.txt", "wc @/docs/a.txt"),
    ("Count the lines of @/docs/a.txt", "wc -l < @/docs/a.txt", ""),
    ("Compute the md5 of @/docs/b.txt", "md5sum @/docs/b.txt", "md5sum @/docs/a.txt"),
    ("Compute the md5 of @/docs/b.txt", "md5sum @/docs/b.txt", "sha1sum @/docs/b.txt"),
    ("List all text files in @/docs", "find @/docs -name '*.txt'", "ls @/docs/*.txt"),
    ("List all text files in @/docs", "find @/docs -name '*.txt'", "find @/docs -type f"),
    ("List all text files in @/docs", "find @/docs -name '*.txt'", "find @/docs -name '*.txt' -exec basename {} \\;"),
    ("List the absolute paths of the text files in @/docs", "find @/docs -name '*.txt'", "cd @/docs; find . -name '*.txt'"),
    ("List only the names of the files in @/src", "ls @/src", "find @/src -type f"),
    (
        "Print the names of C files without their folders",
        "find src -name '*.c' -exec basename {} \\;",
        "find @/src -name '*.c'",
    ),
    ("List what is in @/docs", "ls @/docs", "ls -a @/docs"),
    ("List what is in @/docs sorted by name", "ls @/docs", "ls -r @/docs"),
    ("List files of @/docs by size, largest first", "ls -S @/docs", "ls -Sr @/docs"),
    ("Print the path of the folder with a.txt", "dirname @/docs/a.txt", "echo docs"),
    ("Sort the lines of @/docs/deep/d.md", "sort docs/deep/d.md", "grep . docs/deep/d.md | sort"),
    ("Sort the lines of @/docs/deep/d.md, each once", "sort -u docs/deep/d.md", "grep . docs/deep/d.md | sort -u"),
    ("Delete the logs and print their paths", "find logs -name '*.log' -print -delete", "rm logs/*.log; echo done"),
    ("Find the files that contain hello", "grep -rl hello @/docs @/src", "grep -ril hello @/docs @/src"),
    ("Find the lines with hello in @/docs", "grep -rn hello @/docs", "grep -r hello @/docs"),
    ("Find the lines with hello in @/docs", "grep -rn hello @/docs", "grep -rnh hello @/docs"),
    ("Which words are in @/data/words? Each once.", "sort -u @/data/words", "sort @/data/words"),
    (
        "Print the words of @/data/words in alphabetical order, each once",
        "sort -u @/data/words",
        "awk '!seen[$0]++' data/words",
    ),
    ("How often does each word occur in @/data/words?", "sort @/data/words | uniq -c", "uniq -c data/words"),
    (
        "Rank the words in @/data/words by how often they occur",
        "sort data/words | uniq -c | sort -rn",
        "sort data/words | uniq -c | sort -n",
    ),
    (
        "Rank the words in @/data/words by how often they occur",
        "sort data/words | uniq -c | sort -rn",
        "sort data/words | uniq -c",
    ),
    (
        "Print the two most frequent words",
        "sort data/words | uniq -c | sort -rn | head -2",
        "sort data/words | uniq -c | sort -n | head -2",
    ),
    (
        "Print the scores, highest first",
        "tail -n +2 data/n.csv | cut -d, -f3 | sort -rn",
        "tail -n +2 data/n.csv | cut -d, -f3 | sort -r",
    ),
    ("Print the names", "awk -F, 'NR>1{print $2}' data/n.csv", "awk -F, '{print $2}' data/n.csv"),
    ("Print @/data/words in reverse", "tac data/words", "cat data/words"),
    ("Print @/data/words", "cat data/words", "sort data/words"),
    ("Print @/data/words in upper case", "tr a-z A-Z < data/words", "cat data/words"),
    ("Print @/docs/a.txt", "cat docs/a.txt", "grep . docs/a.txt"),
    ("Print d.md without blank lines", "grep -v '^$' docs/deep/d.md", "cat docs/deep/d.md"),
    ("Squeeze repeated spaces of d.md", "tr -s ' ' < docs/deep/d.md", "cat docs/deep/d.md"),
    ("Remove leading and trailing spaces from '  hi '", "echo '  hi ' | xargs", "echo '  hi '"),
    ("Convert tabs to spaces in d.md", "expand docs/deep/d.md", "cat docs/deep/d.md"),
    ("Print the first two lines of app.log", "head -2 logs/app.log", "head -3 logs/app.log"),
    ("Print the last two lines of app.log", "tail -2 logs/app.log", "tail -2 logs/app.log | tac"),
    ("Find ERROR lines in app.log", "grep ERROR logs/app.log", "grep -v ERROR logs/app.log"),
    ("What is the average score?", "awk -F, 'NR>1{s+=$3}END{print s/(NR-1)}' data/n.csv", "echo 19"),
    ("What is the average score, to two decimal places?", "echo 19.75", "echo 19.8"),
    ("What version is it?", "echo 3.10", "echo 3.1"),
    ("Count the lines of the C files and the total", "wc -l src/*.c", "for f in src/*.c; do wc -l $f; done"),
    ("Find files named core", "find @ -name core", "find @ -name 'c*'"),
    ("Find files named core", "find @ -name core", "ls core"),
    ("Show what is wrong with @/none", "cat @/none", "true"),
    ("Show the names on one line separated by blanks", "echo src/*.c", "ls src/*.c"),
    ("Print the part after the last slash of '/a/b'", "echo /a/b | awk -F/ '{print $NF}'", "echo /b"),
    ("Show disk usage of the folders in @/docs", "du -s @/docs/*", "ls @/docs"),
    (
        "Find the two largest files in @/docs",
        "find docs -type f -printf '%s %p\\n' | sort -rn | head -2",
        "ls -Sr docs/*.* | head -2",
    ),
    ("Print the size of the largest file", "du -b docs/deep/d.md", "echo docs/deep/d.md"),
    ("List @ and mark folders with a slash", "ls -p", "ls"),
    ("Create a relative link @/cur to docs", "ln -s docs cur", "ln -s @/docs cur"),
    # another effect
    ("Delete the logs", "rm @/logs/*.log", "rm -r @/logs"),
    ("Delete empty logs", "find @/logs -size 0 -delete", "rm logs/*"),
    ("Delete empty logs", "find @/logs -size 0 -delete", "find @/logs -size 0"),
    ("Create an empty file @/new", "touch @/new", "echo > @/new"),
    ("Create an empty file @/new", "touch @/new", "mkdir @/new"),
    ("Create the folders @/x/y/z", "mkdir -p @/x/y/z", "mkdir -p @/x/y"),
    ("Rename @/docs/a.txt to z.txt", "mv docs/a.txt docs/z.txt", "cp docs/a.txt docs/z.txt"),
    ("Make run.sh executable", "chmod +x src/run.sh", "chmod 777 src/run.sh"),
    ("Make run.sh executable", "chmod +x src/run.sh", "chmod +x src/*"),
    ("Replace hello by bye in run.sh", "sed -i s/hello/bye/ src/run.sh", "sed s/hello/bye/ src/run.sh"),
    ("Replace hello by bye in run.sh", "sed -i s/hello/bye/ src/run.sh", "sed -i.bak s/hello/bye/ src/run.sh"),
    ("Link @/cur to docs", "ln -s docs @/cur", "ln -s ../docs @/src/cur"),
    ("Link @/cur to docs", "ln -s docs @/cur", "cp -r docs cur"),
    ("Write the sorted words to @/out", "sort data/words > out", "sort -r data/words > out"),
    ("Write the sorted words to @/out", "sort data/words > out", "sort data/words"),
    ("Write the sorted words to @/out and show it", "sort data/words | tee out", "sort data/words > out"),
    ("Delete the logs and print how many there were", "ls logs | wc -l; rm logs/*", "rm logs/*; ls logs | wc -l"),
    ("Count the lines of @/data/words", "wc -l < data/words", "sort data/words -o data/words; wc -l < data/words"),
    ("Count the lines of @/data/words", "wc -l < data/words", "wc -l < data/words | tee count"),
    ("Put the words into @/tmp/out", "mkdir -p tmp; sort data/words > tmp/out", "mkdir -p tmp; cp data/words tmp/out"),
    ("Delete the caches", "rm -r src/__pycache__", "true"),
    ("Delete the files in @/tmp", "rm tmp/kept", "true"),
    ("List the files", "ls", "rm tmp/kept; ls"),
]


def state(path: Path) -> Change:
    info = path.lstat()
    kind = TYPES.get(stat.S_IFMT(info.st_mode), "other")
    digest = hashlib.sha256(path.read_bytes()).hexdigest() if kind == "file" else None
    target = os.readlink(path) if kind == "link" else None
    return Change("added", kind, stat.S_IMODE(info.st_mode), digest, target)  # type: ignore[arg-type]


def snapshot(top: Path) -> dict[str, Change]:
    return {"/" + str(path.relative_to(top)): state(path) for path in top.rglob("*")}


def changed(before: dict[str, Change], after: dict[str, Change]) -> dict[str, Change]:
    removed = {path: Change("removed", old.type) for path, old in before.items() if path not in after}
    return removed | {path: now for path, now in after.items() if before.get(path) != now}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("tree")
    for name, content in {**FILES, "tmp/kept": "k\n", "src/__pycache__/m.pyc": "m"}.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(0o644)
    return top


def execute(command: str, template: Path, top: Path) -> Outcome:
    """What a command does to a copy of the tree at `top`, told as if `top` were `/`."""
    shutil.copytree(template, top, symlinks=True)
    before = snapshot(top)
    environment = {"PATH": os.environ["PATH"], "HOME": str(top), "LC_ALL": "C"}
    script = command.replace("@", str(top))
    done = subprocess.run(
        ["bash", "-c", script], cwd=top, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20
    )
    output = done.stdout.decode().replace(str(top) + "/", "/").replace(str(top), "/")
    outcome = Outcome(output, changed(before, snapshot(top)))
    shutil.rmtree(top)
    return outcome


def score(row: tuple[str, str, str], template: Path, place: Path) -> Score:
    query, gold, action = row
    task = Task("t", query.replace("@", ""), gold.replace("@", ""))
    return bash_exact(execute(action, template, place / "root"), execute(gold, template, place / "root"), task)


@pytest.mark.parametrize("row", SAME, ids=lambda row: row[2])
def test_another_way_to_the_same_outcome_is_solved(row: tuple[str, str, str], template: Path, tmp_path: Path) -> None:
    assert score(row, template, tmp_path) == Score(1.0, True, {"effects": 1.0, "answer": 1.0})


@pytest.mark.parametrize("row", OTHER, ids=lambda row: row[2])
def test_a_near_miss_is_not_solved(row: tuple[str, str, str], template: Path, tmp_path: Path) -> None:
    assert score(row, template, tmp_path).reward == 0.0


def test_every_gold_solves_its_own_task(template: Path, tmp_path: Path) -> None:
    for query, gold, _ in SAME + OTHER:
        assert score((query, gold, gold), template, tmp_path).success, gold


def test_doing_nothing_solves_none_of_the_tasks_that_have_something_to_show(template: Path, tmp_path: Path) -> None:
    for query, gold, _ in SAME + OTHER:
        outcome = execute(gold, template, tmp_path / "root")
        if outcome.changes or outcome.output.strip():
            assert not bash_exact(Outcome(""), outcome, Task("t", query, gold)).success, gold


def test_one_wrong_letter_and_one_line_more_or_less_are_never_noise(template: Path, tmp_path: Path) -> None:
    for query, gold, _ in SAME + OTHER:
        outcome, task = execute(gold, template, tmp_path / "root"), Task("t", query.replace("@", ""), gold.replace("@", ""))
        lines = outcome.output.splitlines(keepends=True)
        if not lines or outcome.changes or "average" in query or "total" in outcome.output:
            continue
        for index, letter in enumerate(outcome.output):
            wrong = outcome.output[:index] + ("x" if letter != "x" else "y") + outcome.output[index + 1 :]
            assert not letter.isalnum() or not bash_exact(Outcome(wrong), outcome, task).success, (gold, wrong)
        for index, line in enumerate(lines):
            fewer, more = lines[:index] + lines[index + 1 :], [*lines[:index], line, *lines[index:]]
            wrong_ones = [Outcome("".join(some)) for some in (fewer, more) if line.strip()]
            assert not any(bash_exact(wrong, outcome, task).success for wrong in wrong_ones), (gold, line)


def test_outputs_beyond_the_limit_are_compared_by_digest() -> None:
    task = Task("t", "print it", "yes")
    long = Outcome("y\n", overflow="d1")
    assert bash_exact(Outcome("z\n", overflow="d1"), long, task).success
    assert not bash_exact(Outcome("y\n", overflow="d2"), long, task).success
    assert not bash_exact(Outcome("y\n"), long, task).success
