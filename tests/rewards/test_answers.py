"""Which printed answers `exact` takes for the gold's: each question with what says the same, and
what says something else."""

from __future__ import annotations

import time

import pytest

from intercode.envs.bash.compare import bash_exact
from intercode.types import Outcome, Task

QUESTIONS: list[tuple[str, str, str, list[str], list[str]]] = [
    (
        "How many files are below /depot?",
        "find /depot -type f | wc -l",
        "42",
        ["42 files", "There are 42 files below /depot.", "  42\n\n"],
        [
            "43",
            "42 43",
            "-42",
            "0x2a",
            "",
            ">42",
            "There are >=42 files",
            "one 42",
            "half of 42",
            "There are about 42 files.",
            "There are not 42 files.",
            "42 is not the number of files",
            "None of these is the number:\n42",
            "files != 42",
            "42\n43: or 44: Permission denied",
            "42\ngrep: 44: Permission denied",
            "42\nfind: warning: it may be 41",
            "4\x1b[0m2",
            "\x1b[8m42\x1b[0m",
            "42\x1b[2K",
            "41\r42",
            "42\v",
            "4\u200b2",
            "42\ntotal 41",
            "42 kB",
        ],
    ),
    (
        "Which files are large? Print their paths in any order.",
        "find / -size +1M | sort",
        "/a/b.iso\n/a/c.iso",
        [
            "/a/c.iso\n/a/b.iso",
            "The large files:\n/a/c.iso\n/a/b.iso",
            "1. '/a/b.iso'\n2. '/a/c.iso'",
            "a/b.iso\na/c.iso",
            "-rw-r--r-- 1 root lab 2000000 Jan 15  2024 /a/b.iso\n"
            "-rw-r--r-- 1 root lab 2000001 Jan  5 12:00 /a/c.iso",
            "/a/b.iso, /a/c.iso",
            "The large files are /a/c.iso and /a/b.iso.",
            "/a/c.iso /a/b.iso",
        ],
        [
            "/a/b.iso",
            "/a/b.iso\n/a/c.iso\n/a/d.iso",
            "/a/b.iso /a/d.iso\n/a/c.iso",
            "17\n/a/b.iso\n/a/c.iso",
            ".\n.",
            "README large\n/a/c.iso\n/a/b.iso",
            "/a/b.iso part two\n/a/c.iso",
            "/a/B.iso\n/a/c.iso",
            "/a/b.iso /a/d.iso",
        ],
    ),
    (
        "Print the large files of /a, one a line.",
        "find /a",
        "x.iso\ny.iso",
        ["y.iso\nx.iso"],
        ["x.iso y.iso", "x.iso, y.iso"],
    ),
    (
        "How many files are in /d? Write the number alone.",
        "x",
        "3",
        ["3"],
        ["There are 3 files in /d."],
    ),
    ("Print the text of /a.", "cat /a", "x\n\ny", ["x\n\ny\n"], ["x y", "x\ny", "y\n\nx"]),
    ("Print the names, in any order.", "awk '{ print $1 }' x", "b\na", ["a\nb"], ["a\nc"]),
    (
        # what is said of a file is no demand
        "/d/names holds names in any order. Print them sorted from A to Z.",
        "sort /d/names",
        "anna\nben",
        ["anna\nben"],
        ["ben\nanna"],
    ),
    (
        "/a/b.tsv has columns parted by commas. Print the ids.",
        "cut -d, -f1 /a/b.tsv",
        "1 2\n3 4",
        ["1, 2\n3, 4"],
        ["2 1\n4 3"],
    ),
    ("Print NAME,STATUS.", "cat x", "lee,active", ["lee,active"], ["lee active"]),
    (
        "Print the block of /d/a.yml with its indentation.",
        "x",
        "a:\n    b: 1",
        ["a:\n    b: 1"],
        ["a:\nb: 1"],
    ),
    (
        "Print each month and its number of lines.",
        "cat counts",
        "2024-05 3\n2024-06 4",
        [
            "month number\n2024-05 3\n2024-06 4",
            "2024-05: 3 lines\n2024-06: 4 lines",
            "Lines:\n2024-05, 3\n2024-06, 4",
        ],
        ["2024-05 4\n2024-06 3"],
    ),
    (
        "How many lines has /yard/b.txt, and how many words?",
        "wc -lw < /yard/b.txt",
        "23 322",
        ["23\n322", "lines: 23\nwords: 322", "23 lines, 322 words"],
        ["322\n23", "23", "23 322 9"],
    ),
    (
        "How many files are in /d/a, and how many in /d/b?",
        "ls /d/a | wc -l; ls /d/b | wc -l",
        "3\n5",
        ["a: 3\nb: 5", "/d/a: 3\n/d/b: 5", "3 5"],
        ["5\n3", "a: 5\nb: 3"],
    ),
    (
        "How large are /d/x.txt and /d/y.txt?",
        "stat -c %s /d/x.txt /d/y.txt",
        "10\n20",
        ["10 /d/x.txt\n20 /d/y.txt"],
        ["20\n10", "20 /d/x.txt\n10 /d/y.txt"],
    ),
    (
        "How many bytes has each text file of /yard?",
        "stat -c '%s %n' /yard/*.txt",
        "6 /yard/a.txt\n117 /yard/b.txt",
        ["117 /yard/b.txt\n6 /yard/a.txt", "6 a.txt\n117 b.txt"],
        ["6 /yard/a.txt\n117 /yard/b.txt\n999 total", "6 /yard/a.txt\n117 /yard/b.txt\ntotal 5"],
    ),
    (
        "What is the average of the lengths?",
        "awk '{ s += $1 } END { print s / NR }' /yard/n",
        "1.50",
        ["The average is 1.50."],
        ["1.491", "1.509", "2", "1.6"],
    ),
    (
        "Print the second line of /d/dos.txt.",
        "sed -n 2p /d/dos.txt",
        "beta\r\n",
        ["beta", "beta\n", "beta\r"],
        ["bet\ra", "beta\r\r\n"],
    ),
    (
        "Print lines 2 and 3 of /d/a.",
        "sed -n 2,3p /d/a",
        "beta\n\ngamma\n",
        ["beta\r\n\r\ngamma\r\n", "beta\r\n\ngamma\r"],
        ["beta\r\ngamma\r\n", "beta\rgamma\r\n", "gamma\r\n\r\nbeta\r\n", "alpha\rbeta\n\ngamma"],
    ),
    (
        "Print /d/a, each line with two trailing blanks.",
        "sed 's/$/  /' /d/a",
        "beta  \n",
        ["beta  \r\n"],
        ["beta\r\n"],
    ),
    ("Print the value of ratio in /d/conf.", "cut -d= -f2 /d/conf", "0.3333", ["0.3333"], ["0.33"]),
    (
        "Print the total of /d/n.",
        "paste -sd+ /d/n | bc",
        "9007199254740993",
        ["9007199254740993"],
        ["9007199254740992"],
    ),
    ("Print the id of the item with the highest price.", "x", "007", ["007"], ["7"]),
    ("Print the highest tag in /d/tags.", "sort -V /d/tags | tail -1", "3.10", ["3.10"], ["3.1"]),
    (
        "Show what /d/bill.txt has.",
        "cat /d/bill.txt",
        "10 apples\n5 pears\n15 total",
        ["10 apples\n5 pears\n15 total"],
        ["10 apples\n5 pears"],
    ),
    (
        "Print lines, words and bytes of each file.",
        "for f in *; do wc $f; done",
        "1 2 3 a\n4 5 6 b",
        ["4 5 6 b\n1 2 3 a"],
        ["1 2 3 a\n4 5 6 b\n5 7 9 total"],
    ),
    ("Print the content of /d/n.", "cat /d/n", "1\n2\n3", ["1\n2\n3"], ["3\n2\n1"]),
    ("Show the file /d/n.", "cat /d/n", "1\n2\n3", ["1\n2\n3"], ["3\n2\n1"]),
    (
        "List the entries, with a slash at the end of folders.",
        "ls -p",
        "a/\nb",
        ["b\na/"],
        ["a\nb"],
    ),
    ("Print all lines of /d/a, sorted.", "sort /d/a", "\n\na\nb", ["\n\na\nb\n"], ["a\nb", "b\na"]),
    ("Is /d/a empty? Answer yes/no.", "x", "no", ["no"], ["yes no", "no yes"]),
    ("Which version of httpd is there?", "cut -f2 x", "2.4.57", ["2.4.57"], ["2.4.57 2.4.6"]),
    (
        "How many lines has /d/bill.txt, and how many lines has /d/notes.txt?",
        "wc -l x",
        "3\n1",
        ["bill.txt: 3\nnotes.txt: 1"],
        ["notes.txt: 1\nbill.txt: 3"],
    ),
    ("What is the average, to two decimal places?", "x", "19.75", ["19.75"], ["19.8", "19.750"]),
    (
        "What was the average wind? Print the number.",
        "x",
        "14.0",
        ["14.0"],
        ["14.0 degrees", "14.0 15", "14.04"],
    ),
    ("Which Go does /d/go.mod ask for?", "sed -n 's/^go //p' /d/go.mod", "1.20", ["1.20"], ["1.2"]),
    ("Which version is installed?", "x", "v1.2", ["v1.2"], ["v1.2 1.3", "1.2"]),
    (
        "How many bytes has /depot/a b.txt?",
        "x",
        "2567",
        ["2,567 bytes", "2567 B"],
        ["2567 kB", "2567 lines", "2567 3000B"],
    ),
    ("How many seconds did the job take?", "x", "90", ["90 s", "90 seconds"], ["90 min"]),
    (
        "How many lines has it?",
        "wc -l < /d/notes.txt",
        "3",
        ["3 notes.txt"],
        ["3 not", "3 LICENSE 4"],
    ),
    (
        "Whom must one ask before using moss? Print the mail address.",
        "cat who",
        "mira@lab.example",
        ["One must ask mira@lab.example before using moss."],
        ["One must ask mira@lab.example or tom@lab.example."],
    ),
    (
        "Who owns /depot/README.md? Print user and group.",
        "stat -c '%U %G' x",
        "root staff",
        ["root:staff", "It belongs to user root and group staff."],
        ["root staff wheel", "staff root"],
    ),
    (
        "What times are the first and the last entry of /d/log?",
        "cut -d' ' -f1 /d/log",
        "08:00\n12:00",
        ["first 08:00, last 12:00", "first=08:00 last=12:00"],
        ["first 12:00, last 08:00", "12:00\n08:00"],
    ),
    (
        "At what time did the job end?",
        "x",
        "12:30",
        ["at 12:30"],
        ["12:30 9:45", "1:12:30", "12:30:00"],
    ),
    (
        "Print the first crate in /d/log.",
        "grep -m1 crate x",
        "crate of tea",
        ["3:crate of tea"],
        ["crate of", "tea of crate"],
    ),
    (
        "Print the path of the longer of /a/c.ini and /b/c.ini.",
        "x",
        "/a/c.ini",
        ["/a/c.ini"],
        ["c.ini", "/b/c.ini"],
    ),
    (
        "List all that is below /yard, itself too.",
        "find /yard",
        "/yard\n/yard/a",
        ["/yard/a\n/yard/"],
        [".", "./a"],
    ),
    (
        "Which is newer, /l/m.c or /l/n.c?",
        "ls -t x | head -n 1",
        "/l/n.c",
        ["/l/n.c is newer"],
        ["/l/m.c /l/n.c", "m.c, n.c"],
    ),
    (
        "Is port 22 open? Print open or not open.",
        "x",
        "open",
        ["open"],
        ["not open", "open not open", "open or not open"],
    ),
    (
        "What happened to a.txt: was it copied, moved or deleted?",
        "x",
        "moved",
        ["It was moved."],
        ["moved copied deleted"],
    ),
    (
        "Print the pid of nginx, or 'stopped' if it is stopped.",
        "x",
        "stopped",
        ["it is stopped"],
        ["4711 stopped", "4711"],
    ),
    (
        "Which of ann, bob and cid is first?",
        "head -1 x",
        "ann",
        ["ann is first"],
        ["ann bob cid", "cid"],
    ),
    (
        "Which file is the largest?",
        "x",
        "Makefile",
        ["The largest file is Makefile."],
        ["Makefile main.c", "makefile"],
    ),
    *(
        (query, "x", gold, [f"The answer is {gold}."], [f"{gold} {other}", f"{other}, {gold}"])
        for query, *pair in (
            ("Print yes if /srv/x exists, no otherwise.", "yes", "no"),
            ("Print yes if it is so and no if not", "yes", "no"),
            ("Print true if it is empty, otherwise print false.", "true", "false"),
            ("Print same if the files are equal, different otherwise", "same", "different"),
        )
        for gold, other in (pair, pair[::-1])
    ),
    *(
        (
            f"How many files are {words} 3 MB?",
            "x",
            "7",
            ["There are 7 files."],
            [f"{words} 7", f"There are {words} 7 files.", f"7 {words}"],
        )
        for words in (
            *("at least", "at most", "more than", "less than", "about", "nearly", "over"),
            *("within", "near", "roughly", "approximately", "beyond"),
        )
    ),
    *(
        (query, "x", "3\n9", ["3\n9"], ["9\n3"])
        for query in (
            "Print the minimum and the maximum of the numbers in x.",
            "Print the number of files and the number of folders.",
            "Print the size of a and then the size of b.",
        )
    ),
    ("Print the size of all files and their number.", "x", "3\n9", ["9\n3"], []),
    (
        "What is the most frequent word in /d/text?",
        "x",
        "the",
        [
            "The answer is the.",
            "The answer is:\nthe",
            "The most frequent word in /d/text is the.",
            "Most frequent word: the",
            "the (12 times)",
        ],
        [
            "the a of and to in",
            "a\nof\nthe",
            "the, a, of",
            "a of and:\nthe",
            "what is the most frequent word in",
            "of is the",
            "it is a of the",
        ],
    ),
    (
        "What happened to /d/a.txt?",
        "x",
        "removed",
        ["it was removed", "a.txt: removed"],
        ["added changed removed", "moved: removed"],
    ),
    (
        "Print the first line of /d/log.",
        "x",
        "crate of tea",
        ["The first line is: crate of tea"],
        ["crate of in to tea", "crate in of tea"],
    ),
    (
        "Which word is the last of the file?",
        "x",
        "file",
        ["The answer is file."],
        ["last file word", "word: file"],
    ),
    ("Which letter is the most frequent?", "x", "e", ["It is e."], ["a e i n"]),
    (
        "Print the most frequent sign.",
        "x",
        "#",
        ["It is #"],
        ["# , ; |", ", # ;", "- = |\n#", ",;| #"],
    ),
    ("Print the most frequent sign.", "x", ":", [":", "It is :"], [": ; ,", ",: ;"]),
    ("Which variables are there?", "env", "TZ=UTC\nA=1", ["A=1\nTZ=UTC"], ["A=1", "TZ=CET"]),
]


@pytest.mark.parametrize(
    ("query", "gold", "theirs", "right", "wrong"), QUESTIONS, ids=lambda value: None
)
def test_an_answer_is_right_however_it_is_put_and_a_second_guess_is_not(
    query: str, gold: str, theirs: str, right: list[str], wrong: list[str]
) -> None:
    def solved(ours: str) -> bool:
        return bash_exact(Outcome(ours), Outcome(theirs), Task("1", query, gold)).success

    assert [ours for ours in right if not solved(ours)] == []
    assert [ours for ours in wrong if solved(ours)] == []


LISTED = "-rw-r--r-- 1 root lab 20 Jan 15  2024 "
RULES = [
    ("Which files are large?", "/a/b c/d", "/a/b c/d", True, "same output"),
    ("Which files are large?", "/a/b\n/a/c", "/a/b \n/a/c", True, "same lines"),
    ("Which files are large?", "/a/b\n/a/c", "/a/c\n/a/b", True, "same lines in another order"),
    ("Which files are in /a?", "/a/b\n/a/c", "b\nc", True, "paths below a folder"),
    ("Which file is large?", "/a/b", f"{LISTED}/a/b", True, "columns of ls -l"),
    ("Who owns /a?", "root lab", "root:lab", True, "signs between words"),
    ("How many files?", "42", "There are 42 files.", True, "a sentence around it"),
    ("How many files, how many bytes?", "4 9", "4\n9", True, "other line breaks"),
    (
        "Which files are in /a?",
        "/a/b\n/a/c",
        "files:\nb\nc",
        True,
        "paths below a folder, a sentence around it",
    ),
    ("Print the files, sorted.", "a\nb", "b\na", False, "another order"),
    ("Print /a with its indentation.", "a\n  b", "a\nb", False, "other blanks or line breaks"),
    ("Which files are large?", "/a/b\n/a/c", "/a/b", False, "missing lines"),
    ("How many files?", "42", "", False, "no output"),
    ("How many files?", "42", "4\u200b2", False, "hidden characters"),
    ("How many files?", "42", "42 or 43", False, "other words around it"),
    (
        "How many files? Print the number only.",
        "42",
        "42 files",
        False,
        "more than the answer alone",
    ),
    ("How many files?", "42", "43", False, "other lines"),
    ("How many files?", "42", "42\n" * 100_000, False, "a much longer output"),
]


@pytest.mark.parametrize(
    ("query", "theirs", "ours", "accepted", "rule"), RULES, ids=lambda value: None
)
def test_an_answer_is_accepted_or_refused_by_a_rule_with_a_name(
    query: str, theirs: str, ours: str, accepted: bool, rule: str
) -> None:
    score = bash_exact(Outcome(ours), Outcome(theirs), Task("1", query, "x"))
    assert (score.success, score.rule) == (accepted, rule)


FILES = [f"/srv/{number}.txt {number}" for number in range(5_000)]
HOSTILE = {
    "a long word of one letter": "1 " + "a" * 250_000 + " b",
    "a long number": "1" * 250_000,
    "a word without an end, and colons": "a: " * 80_000,
    "many short lines": "1\n" * 120_000,
    "blanks": " \t" * 120_000,
    "slashes": "/" * 250_000,
    "dots": "./" * 120_000,
    "comparisons": "is " + "<>~" * 80_000 + "x",
    "a line of complaints": "find: " + "x: " * 80_000 + "Permission denied",
    "eight megabytes": "1 a b\n" * 1_400_000,
    "nearly the gold": "\n".join([*FILES[:-1], "/srv/x.txt 7"]),
    "the gold turned around": "\n".join(f"{line}:" for line in FILES[::-1]),
    "the gold on one line": " ".join(FILES[::-1]),
}


@pytest.mark.parametrize("output", HOSTILE.values(), ids=HOSTILE)
def test_no_answer_holds_up_the_scoring_of_a_run(output: str) -> None:
    started = time.process_time()
    for query, theirs in (
        ("Which is the largest file below /srv?", "/srv/big.bin"),
        ("Print all files, sorted.", "\n".join(FILES)),
    ):
        assert not bash_exact(
            Outcome(output), Outcome(theirs), Task("0", query, "sort -n /srv/list")
        ).success
    assert time.process_time() - started < 40  # what goes back at every line takes minutes


@pytest.mark.rest
@pytest.mark.parametrize("filling", ["x", "A", "1", "_", "a1", "http://", "x, "])
def test_no_query_and_no_gold_hold_it_up(filling: str) -> None:
    long = (filling * 10_000)[:10_000]
    started = time.process_time()
    for query in (f"Print the {long}.", f"Print '{long}' and sort it by name.", long):
        assert not bash_exact(
            Outcome("a\nb c"), Outcome("b\nc d"), Task("0", query, "ls /srv | sort")
        ).success
    assert not bash_exact(
        Outcome("1"), Outcome(6 * long), Task("0", "Which is largest?", "ls /srv")
    ).success
    assert time.process_time() - started < 10  # what goes back at every line takes minutes
