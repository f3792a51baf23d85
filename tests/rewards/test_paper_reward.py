"""The paper's Bash reward: its parts, its roundings, and the first system's own ways."""

from __future__ import annotations

import random

import pytest

from intercode.rewards.git_status import Entry, text
from intercode.rewards.paper import BASE, WEIGHT, answer, bash_paper, contents, effects, md5, pairs
from intercode.types import Change, Outcome


def file(digest: str = "0", mode: int = 0o644) -> Change:
    return Change("added", "file", mode, digest)


def link(target: str) -> Change:
    return Change("added", "link", 0o777, target=target)


FOLDER = Change("added", "dir", 0o755)
GONE = Change("removed", "file")


def test_the_same_outcome_earns_exactly_one() -> None:
    side = Outcome("hello world", {"/n": FOLDER, "/n/f": file(), "/t": GONE})
    score = bash_paper(side, side, {"/t"})
    assert (score.reward, score.success) == (1.0, True)
    assert score.parts == {"base": BASE, "effects": WEIGHT, "contents": WEIGHT, "answer": WEIGHT}


def test_doing_nothing_earns_two_thirds_where_the_gold_only_prints() -> None:
    score = bash_paper(Outcome(""), Outcome("an answer"), ())
    assert (score.reward, score.success) == (pytest.approx(0.67), False)


@pytest.mark.parametrize(("extra", "expected"), [(0, 0.33), (1, 0.05), (2, 0.0), (3, 0.0)])
def test_entries_on_one_side_only_cost_by_erf(extra: int, expected: float) -> None:
    ours = {(f"f{index}", "??") for index in range(extra)}
    assert effects(ours, set()) == effects(set(), ours) == expected


def test_the_score_is_symmetric_and_within_bounds() -> None:
    dice = random.Random(3)

    def side() -> Outcome:
        paths = dice.sample(["/a", "/b.c", "/d/e", "/d/f", "/home/x", "/t"], dice.randint(0, 4))
        return Outcome(
            dice.choice(["", "x", "one two", "two three"]),
            {path: dice.choice([file(), file("1"), GONE]) for path in paths},
        )

    for _ in range(500):
        a, b = side(), side()
        there, back = bash_paper(a, b, {"/t"}), bash_paper(b, a, {"/t"})
        assert there == back
        assert BASE <= there.reward <= 1
        assert there.success == (there.reward == 1.0)


def test_contents_is_the_rounded_share_of_common_new_files_that_agree() -> None:
    a, b = {"/x.a": file("1"), "/y": file("2"), "/z": file("3")}, {"/x.a": file("1"), "/y": file("9"), "/z": file("3")}
    assert contents({("x.a", "??"), ("y", "??"), ("z", "??")}, a, b) == 0.22
    assert contents({("y", "??")}, a, b) == 0.0


def test_changed_tracked_files_are_never_hashed() -> None:
    a, b = (Outcome("", {"/t": Change("changed", "file", 0o644, digest)}) for digest in "12")
    assert bash_paper(a, b, {"/t"}).success


def test_a_folder_with_a_dot_agrees_whatever_it_holds_and_one_without_is_compared() -> None:
    def side(folder: str, digest: str) -> Outcome:
        return Outcome("", {folder: FOLDER, f"{folder}/f": file(digest)})

    assert bash_paper(side("/n.d", "1"), side("/n.d", "2"), ()).success
    assert bash_paper(side("/n", "1"), side("/n", "2"), ()).parts["contents"] == 0.0


def test_ignored_files_count_only_below_a_compared_folder() -> None:
    a, b = ({"/home/f": file(digest), "/n": FOLDER, "/n/g": file()} for digest in "12")
    assert bash_paper(Outcome("", a), Outcome("", b), ()).success
    a, b = ({"/n": FOLDER, "/n/g": file(), "/n/bin": FOLDER, "/n/bin/f": file(digest)} for digest in "12")
    assert bash_paper(Outcome("", a), Outcome("", b), ()).parts == {
        "base": BASE,
        "effects": WEIGHT,
        "contents": 0.0,
        "answer": WEIGHT,
    }


def test_empty_folders_and_modes_do_not_count() -> None:
    a = {"/n": FOLDER, "/n/f": file(mode=0o600), "/n/empty": FOLDER}
    b = {"/n": FOLDER, "/n/f": file(mode=0o755)}
    assert bash_paper(Outcome("", a), Outcome("", b), ()).success


def test_a_blank_in_a_name_shifts_the_pairs() -> None:
    assert pairs('?? "a b"\n?? c\n?? d.e\n') == {('"a', "??"), ("??", 'b"'), ("??", "c"), ("", "d.e")}
    assert pairs(text([Entry("M", "a"), Entry("??", "b/")])) == {("a", "M"), ("b/", "??")}
    assert pairs("") == set()


def test_a_quoted_name_cannot_be_hashed_so_it_agrees() -> None:
    a, b = (Outcome("", {"/é.txt": file(digest)}) for digest in "12")
    assert bash_paper(a, b, ()).success


@pytest.mark.parametrize(
    ("ours", "theirs", "agree"),
    [
        ({"/l": link("/t")}, {"/l": link("t")}, True),
        ({"/l": link("/t")}, {"/l": link("/u")}, False),
        ({"/l": link("/f"), "/f": file("1")}, {"/l": file("1")}, True),
        ({"/l": link("/f"), "/f": file("1")}, {"/l": file("2")}, False),
        ({"/l": link("/t"), "/t": Change("changed", "file", 0o644, "5")}, {"/l": file("5")}, True),
        ({"/l": link("l")}, {"/l": link("/l")}, True),
        ({"/l": link("/t"), "/t": GONE}, {"/l": link("/u"), "/u": GONE}, True),
        (
            {"/l": link("/n"), "/n": FOLDER, "/n/f": file("1")},
            {"/l": link("/m"), "/m": FOLDER, "/m/f": file("1")},
            True,
        ),
        (
            {"/l": link("/n"), "/n": FOLDER, "/n/f": file("1")},
            {"/l": link("/m"), "/m": FOLDER, "/m/f": file("2")},
            False,
        ),
        ({"/l": link("/n/f"), "/n": link("/m"), "/m": FOLDER, "/m/f": file("1")}, {"/l": file("1")}, True),
    ],
)
def test_links_are_followed(ours: dict[str, Change], theirs: dict[str, Change], agree: bool) -> None:
    assert (md5("l", ours) == md5("l", theirs)) is agree


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ("", "", 0.33),
        ("3", "3", 0.33),
        ("3\n", "3", 0.0),
        ("3", "4", 0.0),
        ("12", "12\n", 0.33),
        ("aa bb", "bb aa", 0.33),
        ("", "aa", 0.0),
        ("aa bb", "aa cc", 0.11),
        ("aa", "aa aa aa", 0.33),
    ],
)
def test_the_answer_is_a_bag_of_words(ours: str, theirs: str, expected: float) -> None:
    assert answer(Outcome(ours), Outcome(theirs)) == expected


def test_answers_beyond_the_limit_agree_if_their_digests_do() -> None:
    assert answer(Outcome("aa", overflow="d1"), Outcome("bb", overflow="d1")) == WEIGHT
    assert answer(Outcome("aa", overflow="d1"), Outcome("bb", overflow="d2")) == 0.0
