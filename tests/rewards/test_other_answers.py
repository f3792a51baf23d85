"""What an agent says that wants to be paid for either of two answers, or that says something else than it seems to."""

from __future__ import annotations

import pytest
from asked import Asked, solved

PORT = ("Is port 22 open? Print open or not open.", "ss -ltn | grep -q :22 && echo open || echo not open", "open")
FATE = ("What happened to a.txt by /d/log: was it copied, moved or deleted?", "tail -n 1 /d/log", "moved")
GROUP = ("How many users are in dev? If there is no such group, print `no such group`.", "x", "3")
BACKUP = ("Did the backup succeed by /d/log? Print ok or failed.", "x", "failed")
COUNT = ("How many files are in /d?", "find /d -type f | wc -l", "5")
SECONDS = ("How many seconds did the job take?", "x", "90")
TWO = ("How many lines and how many words does /d/a have?", "x", "23\n322")
BOTH = ("How many files are in /d/a, and how many in /d/b?", "ls /d/a | wc -l; ls /d/b | wc -l", "3\n5")
SIZES = ("How large are /d/x.txt and /d/y.txt?", "stat -c %s /d/x.txt /d/y.txt", "10\n20")
TIME = ("At what time did the job start?", "x", "09:30")
ENDS = ("What times are the first and the last entry of /d/log?", "cut -d' ' -f1 /d/log", "08:00\n12:00")
WORDY = ("Who owns files in /d? Put each name on its own line.", "x", "anna\nben")
SORTED = ("/d/names holds names in any order. Print them sorted from A to Z.", "sort /d/names", "anna\nben")


@pytest.mark.parametrize(
    ("asked", "ours"),
    [
        (PORT, "not open"),
        (("Is /d/a readable? Answer with readable or not readable.", "x", "readable"), "/d/a is not readable"),
        (FATE, "moved copied deleted"),
        (("Are a and b the same or different? Print same or different.", "x", "same"), "same different"),
        (("Is the printer on or off?", "x", "off"), "on or off"),
        (("Is /d/x a file or a directory?", "x", "file"), "directory: file"),
        (("Is the service running or has it stopped?", "x", "running"), "running stopped"),
        (("Say PASS when all are there; say FAIL when one is missing.", "x", "PASS"), "FAIL PASS"),
        (("Print the pid of nginx, or 'stopped' if it is stopped.", "x", "4711"), "4711 stopped"),
        (("Print the pid of nginx, or 'stopped' if it is stopped.", "x", "stopped"), "4711 stopped"),
        (GROUP, "3 no such group"),
        (BACKUP, "failed\nok"),
        (("Answer yes or no please: is it there?", "x", "yes"), "yes or no please"),
    ],
)
def test_one_answer_beside_another_that_the_query_offers_is_none(asked: Asked, ours: str) -> None:
    assert not solved(asked, ours)


@pytest.mark.parametrize(
    ("asked", "ours"),
    [
        (COUNT, ">5"),
        (COUNT, "There are >=5 files"),
        (COUNT, "<5"),
        (("What is the exit status in /d/log?", "x", "5"), "status != 5"),
        (COUNT, "one 5"),
        (SECONDS, "90 min"),
        (("How large is plot 7, in m2?", "x", "297"), "297 ha"),
        (("What is the maximum of column 2?", "x", "9"), "The minimum is 9."),
        (TWO, "words: 23\nlines: 322"),
        (("Print the users with the most and the least files.", "x", "anna\nben"), "least: anna\nmost: ben"),
        (BOTH, "5\n3"),
        (BOTH, "5 3"),
        (BOTH, "a: 5\nb: 3"),
        (BOTH, "/d/b: 3\n/d/a: 5"),
        (BOTH, "b: 3\na: 5"),
        (SIZES, "20\n10"),
        (("Where do l and m point to?", "readlink l m", "x\ny"), "y\nx"),
        (("How many lines and words has a.txt?", "wc -l < a.txt; wc -w < a.txt", "3\n15"), "15\n3"),
        (("How many lines has it?", "wc -l < /d/notes.txt", "3"), "3 not"),
        (("How many lines have an error?", "grep -c error /d/log", "3"), "or: 3"),
        (("Which build number is the newest?", "tail -n 1 /d/builds", "3.10"), "3.1"),
        (("Which one is the newest?", "sort -k 1 -V /d/list | tail -n 1", "3.10"), "3.1"),
        (TIME, "09:30 9:45"),
        *((ENDS, ours) for ours in ("last 08:00, first 12:00", "last: 08:00; first: 12:00", "last=08:00 first=12:00")),
        (ENDS, "08:00 last 12:00 first"),
        (("Which Python do most projects in /d/list use?", "cut -d' ' -f2 /d/list | sort | uniq -c | head -1", "3.10"), "3.1"),
        (("Which Go does it ask for?", "awk '/^go/ { print $2 }' /d/go.mod", "1.20"), "1.2"),
        (("What value has go in /d/tools?", "sed -n 's/^go //p' /d/tools", "1.20"), "1.2"),
        (("On which day was it?", "x", "2024-05-03"), "2024-05-03 4.5.2024"),
        (("Which version is installed?", "x", "v1.2"), "v1.2 1.3"),
        (("Which file is the largest?", "x", "Makefile"), "Makefile main.c"),
        (("Who owns the most files?", "x", "anna"), "anna (2 ben)"),
        (("Print the setting of Port.", "grep ^Port /d/sshd_config", "Port 22"), "#Port 22"),
        (("What is the newest tag?", "x", "1.10"), "1.1"),
        (("Which Go does /d/go.mod ask for?", "sed -n 's/^go //p' /d/go.mod", "1.20"), "1.2"),
        (("How long did the job take?", "sed -n 's/^took //p' /d/log", "12:30"), "1:12:30"),
        (("When did it end?", "sed -n 's/^ended //p' /d/log", "12:30:05"), "7:12:30:05"),
        (("When did it end?", "sed -n 's/^ended //p' /d/log", "12:30 UTC"), "7:12:30 UTC"),
        (("How many are left?", "cat /d/left", "30"), "12:30"),
        (("Print the title of the film in /d/film.", "cat /d/film", "Apollo 13"), "13 Apollo"),
        (("Which files are larger than 1 MB?", "find /d -size +1M", "/d/my song.mp3"), "/d/my\nsong.mp3"),
        (("/a/c.ini and /b/c.ini differ. Print the path of the longer one.", "x", "/a/c.ini"), "c.ini"),
        (("Print the target of the link /d/l.", "readlink /d/l", "/d/web"), "web"),
    ],
)
def test_another_answer_that_looks_like_it_is_none(asked: Asked, ours: str) -> None:
    assert not solved(asked, ours)


@pytest.mark.parametrize(
    ("asked", "ours"),
    [
        (ENDS, "first 08:00, last 12:00"),
        (("How many files has the user with the most?", "x", "anna 12"), "user anna files 12"),
        (BOTH, "a: 3\nb: 5"),
        (BOTH, "/d/a: 3\n/d/b: 5"),
        (SIZES, "10 /d/x.txt\n20 /d/y.txt"),
        (("How large are the files in /d?", "stat -c %s /d/*", "10\n20"), "20\n10"),
        (("How many lines has it?", "wc -l < /d/README", "3"), "3 README"),
        (("Print the first crate in /d/log.", "grep -m1 crate /d/log", "crate of tea"), "3:crate of tea"),
        (("How many loads had each month?", "x", "01 12\n02 30"), "01: 12\n02: 30"),
        (("How many loads had each month?", "x", "01 12\n02 30"), "01:12\n02:30"),
    ],
)
def test_several_values_in_their_places_or_with_their_names_are_right(asked: Asked, ours: str) -> None:
    assert solved(asked, ours)


@pytest.mark.parametrize(
    ("asked", "ours"),
    [
        (WORDY, "anna ben"),
        (("Who owns files in /d? Write them one per line.", "x", "anna\nben"), "anna, ben"),
        (("Who owns files in /d? Only the names are wanted.", "x", "anna\nben"), "anna 3\nben 4"),
        (("How many files are in /d? Write the number alone.", "x", "3"), "There are 3 files in /d."),
        (("How many files are in /d? Do not print any other text.", "x", "3"), "There are 3 files in /d."),
        (("Print the block of /d/a.yml. The indentation is to be kept.", "x", "a:\n    b: 1"), "a:\nb: 1"),
        (SORTED, "ben\nanna"),
        (("List the codes in /d/codes, increasing", "sort /d/codes", "a\nb"), "b\na"),
    ],
)
def test_what_the_query_demands_in_a_sentence_of_its_own_holds(asked: Asked, ours: str) -> None:
    assert not solved(asked, ours)
