"""The paper's Bash reward: its parts, its roundings, and InterCode v1's own ways."""

from __future__ import annotations

import pytest

from intercode.interop.v1.bash import (
    BASE,
    WEIGHT,
    answer,
    bash_paper,
    contents,
    effects,
    md5,
    pairs,
)
from intercode.interop.v1.git_status import Entry, text
from intercode.types import Change, Outcome


def file(digest: str = "0", mode: int = 0o644) -> Change:
    return Change("added", "file", mode, digest)


def link(target: str) -> Change:
    return Change("added", "link", 0o777, target=target)


FOLDER = Change("added", "dir", 0o755)
TRACKED = {"/t": Change("added", "file", 0o644, "0")}
GONE, EDITED = Change("removed", "file"), Change("changed", "file", 0o644, "5")


def test_the_same_outcome_earns_exactly_one_and_doing_nothing_two_thirds_of_a_printed_answer() -> (
    None
):
    side = Outcome("hello world", {"/n": FOLDER, "/n/f": file(), "/t": GONE})
    score = bash_paper(side, side, TRACKED)
    assert (score.reward, score.success) == (1.0, True)
    assert score.parts == {"base": BASE, "effects": WEIGHT, "contents": WEIGHT, "answer": WEIGHT}
    nothing = bash_paper(Outcome(""), Outcome("an answer"), {})
    assert (nothing.reward, nothing.success) == (pytest.approx(0.67), False)


@pytest.mark.parametrize(("extra", "expected"), [(0, 0.33), (1, 0.05), (2, 0.0), (3, 0.0)])
def test_entries_on_one_side_only_cost_by_erf(extra: int, expected: float) -> None:
    ours = {(f"f{index}", "??") for index in range(extra)}
    assert effects(ours, set()) == effects(set(), ours) == expected


def test_contents_is_the_rounded_share_of_common_new_files_that_agree() -> None:
    a = {"/w.a": file("4"), "/x.a": file("1"), "/y.a": file("2"), "/z": file("3")}
    b = {"/w.a": file("4"), "/x.a": file("1"), "/y.a": file("9"), "/z": file("8")}
    assert contents({("w.a", "??"), ("x.a", "??"), ("y.a", "??"), ("z", "??")}, a, b) == 0.25
    assert contents({("y.a", "??")}, a, b) == 0.0


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        # tracked: never hashed
        (
            {"/t": Change("changed", "file", 0o644, "1")},
            {"/t": Change("changed", "file", 0o644, "2")},
        ),
        # no dot: md5deep is not there
        (
            {"/n": FOLDER, "/n/f": file("1")},
            {"/n": FOLDER, "/n/f": file("2")},
        ),
        ({"/n.d": FOLDER, "/n.d/f": file("1")}, {"/n.d": FOLDER, "/n.d/f": file("2")}),
        ({"/é.txt": file("1")}, {"/é.txt": file("2")}),  # a quoted name is no file
        (
            {"/n": FOLDER, "/n/f": file(mode=0o600), "/n/empty": FOLDER},
            {"/n": FOLDER, "/n/f": file(mode=0o755)},
        ),
    ],
)
def test_what_intercode_v1_does_not_see_agrees(
    ours: dict[str, Change], theirs: dict[str, Change]
) -> None:
    assert bash_paper(Outcome("", ours), Outcome("", theirs), TRACKED).success


def test_a_blank_in_a_name_shifts_the_pairs() -> None:
    assert pairs('?? "a b"\n?? c\n?? d.e\n') == {
        ('"a', "??"),
        ("??", 'b"'),
        ("??", "c"),
        ("", "d.e"),
    }
    assert pairs(text([Entry("M", "a"), Entry("??", "b/")])) == {("a", "M"), ("b/", "??")}
    assert pairs("") == set()


@pytest.mark.parametrize(
    ("ours", "theirs", "agree"),
    [
        ({"/l.x": link("/t")}, {"/l.x": link("t")}, True),
        ({"/l.x": link("/t")}, {"/l.x": link("/u")}, False),
        ({"/l.x": link("/f"), "/f": file("1")}, {"/l.x": file("1")}, True),
        ({"/l.x": link("/f"), "/f": file("1")}, {"/l.x": file("2")}, False),
        ({"/l.x": link("/t"), "/t": EDITED}, {"/l.x": file("5")}, True),
        ({"/l.x": link("l.x")}, {"/l.x": link("/l.x")}, True),
        ({"/l.x": link("/t"), "/t": GONE}, {"/l.x": link("/u"), "/u": GONE}, True),
        ({"/l.x": link("/n"), "/n": FOLDER}, {"/l.x": link("/m"), "/m": FOLDER}, True),
        ({"/l.x": link("/n"), "/n": FOLDER}, {"/l.x": file("1")}, False),
        (
            {"/l.x": link("/n/f"), "/n": link("/m"), "/m": FOLDER, "/m/f": file("1")},
            {"/l.x": file("1")},
            True,
        ),
    ],
)
def test_links_are_followed(
    ours: dict[str, Change], theirs: dict[str, Change], agree: bool
) -> None:
    assert (md5("l.x", ours) == md5("l.x", theirs)) is agree


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (Outcome(""), Outcome(""), 0.33),
        (Outcome("3"), Outcome("3"), 0.33),
        (Outcome("3\n"), Outcome("3"), 0.0),
        (Outcome("12"), Outcome("12\n"), 0.33),
        (Outcome("aa bb"), Outcome("bb aa"), 0.33),
        (Outcome(""), Outcome("aa"), 0.0),
        (Outcome("aa bb"), Outcome("aa cc"), 0.11),
        (Outcome("aa"), Outcome("aa aa aa"), 0.33),
        (Outcome("aa", overflow="d1"), Outcome("bb", overflow="d1"), 0.33),
        (Outcome("aa", overflow="d1"), Outcome("bb", overflow="d2"), 0.0),
    ],
)
def test_the_answer_is_a_bag_of_words(ours: Outcome, theirs: Outcome, expected: float) -> None:
    assert answer(ours, theirs) == expected
