"""TF-IDF with the defaults of scikit-learn's `TfidfVectorizer`, in plain Python.

Words are runs of two or more word characters of the lower-cased text. With n documents, of which df
contain the word,

    weight(word) = count · (ln((1 + n) / (1 + df)) + 1),    each vector then scaled to length 1.

Source: scikit-learn user guide, "Tf-idf term weighting" (smooth_idf=True, norm="l2"); the paper's
Bash reward compares the answers with it (InterCode, appendix on reward functions). Left out:
n-grams, stop words, accents, limits on df.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain

Vector = dict[str, float]

_WORD = re.compile(r"(?u)\b\w\w+\b")


def words(text: str) -> list[str]:
    """Return the words of a text, in order and with repetitions."""
    return _WORD.findall(text.lower())


def vectors(documents: Sequence[str]) -> list[Vector]:
    """Return one vector of length 1 for each document (word → weight); an empty one for a document
    without words."""
    bags = [Counter(words(document)) for document in documents]
    frequencies = Counter(chain(*bags))
    idf = {word: math.log((1 + len(bags)) / (1 + df)) + 1 for word, df in frequencies.items()}
    result = []
    for bag in bags:
        weights = {word: count * idf[word] for word, count in bag.items()}
        length = math.sqrt(math.fsum(weight * weight for weight in weights.values()))
        result.append({word: weight / length for word, weight in weights.items()})
    return result


def cosine(a: Vector, b: Vector) -> float:
    """Return the cosine of the angle between two vectors of length 1; 0 if one is empty."""
    small, large = sorted((a, b), key=len)
    return math.fsum(weight * large[word] for word, weight in small.items() if word in large)


def similarity(a: str, b: str) -> float | None:
    """Return the cosine of two texts' vectors, in a corpus of only these two; None if neither has a
    word."""
    pair = vectors([a, b])
    return cosine(*pair) if any(pair) else None


def nearest(query: str, corpus: Sequence[str], count: int = 1) -> list[int]:
    """Return the indexes of the `count` texts of the corpus that are most similar to the query,
    best first, then by index."""
    target, *others = vectors([query, *corpus])
    scores = [cosine(target, other) for other in others]
    return sorted(range(len(scores)), key=lambda index: (-scores[index], index))[:count]
