"""The TF-IDF of `intercode.agents.tfidf` against scikit-learn's."""

from __future__ import annotations

import random

import pytest

from intercode.agents.tfidf import cosine, nearest, similarity, vectors, words

ODD = [
    "", " \n\t", "a", "AA aa Aa", "İstanbul ISTANBUL ıstanbul", "straße STRASSE ſs",
    "e\u0301e\u0301 éé \u0301\u0302", "日本語 日本 本語", "123 45 6 7.89 1e5", "a_b __ _ -x --xx",
    "👩‍👩‍👧 ok ok\u200dok", "x\x00y\x1fzz\ufeffzz \ud800\ud800",
    "total 12\n-rw-r--r-- 1 root root 4096 Jan  1 00:00 /testbed/dir1/a.txt\n", "word " * 20_000,
    " ".join(f"w{index}" for index in range(2_000)),
]  # fmt: skip


def oracle(documents: list[str]) -> list[list[float]]:
    # each process of a test run collects this file, and the import takes a second
    from sklearn.feature_extraction.text import TfidfVectorizer

    matrix = TfidfVectorizer().fit_transform(documents)
    return (matrix @ matrix.T).toarray().tolist()  # type: ignore[no-any-return]


def random_text(dice: random.Random) -> str:
    alphabet = dice.choice(
        ["ab \n", "abc./-_1 ", "aÀé\u0301ß日ǅ \t", "0123 .,", "".join(map(chr, range(1, 0x250)))]
    )
    return "".join(dice.choices(alphabet, k=dice.randint(0, 80)))


def test_odd_texts_are_as_similar_as_scikit_learn_says() -> None:
    for a in ODD:
        for b in ODD:
            expected = (
                pytest.approx(oracle([a, b])[0][1], abs=1e-9) if words(a) or words(b) else None
            )
            assert similarity(a, b) == similarity(b, a) == expected


def test_random_corpora_have_the_cosines_that_scikit_learn_finds() -> None:
    dice = random.Random(7)
    for _ in range(200):
        documents = [random_text(dice) for _ in range(dice.randint(2, 6))]
        if not any(words(text) for text in documents):
            continue
        expected, found = oracle(documents), vectors(documents)
        for row, a in enumerate(found):
            assert [cosine(a, b) for b in found] == pytest.approx(expected[row], abs=1e-9)


def test_nearest_gives_the_most_similar_first_and_ties_in_their_order() -> None:
    corpus = [
        "count the lines",
        "remove empty folders",
        "list files",
        "list files",
        "count all words",
    ]
    assert nearest("please list the files", corpus, 2) == [2, 3]
    assert nearest("count words", corpus) == [4]
    assert nearest("nothing in common", [], 3) == []
    assert nearest("", corpus, 9) == [0, 1, 2, 3, 4]
