"""Print which string constants of the Python source changed between two commits, so that a renaming
shows what else it rewrote.

    .venv/bin/python scripts/changed_strings.py OLD NEW

    == src/intercode/envs/bash/wording.py:130
    - 'or either whether than'
    + 'or offered_words whether than'

Strings are read from the syntax tree: docstrings, word lists, patterns, messages, the fixed parts
of f-strings; no comments. A string that only moved, to another line or file, is not printed. Each
added string stands below the removed one that shares most words with it, the smallest changes
first; what has no counterpart comes last.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher

FOLDERS = ("src", "benchmarks", "scripts", "tests", "examples")
ALIKE = 0.5
"""The least share of common words in a pair."""


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def strings(commit: str) -> Iterator[tuple[str, str]]:
    """Yield each string constant with its place, `file:line`; blanks are one blank, so that
    wrapping changes nothing."""
    for path in git("ls-tree", "-r", "--name-only", commit, *FOLDERS).splitlines():
        if not path.endswith(".py"):
            continue
        for node in ast.walk(ast.parse(git("show", f"{commit}:{path}"))):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and node.value.strip()
            ):
                yield " ".join(node.value.split()), f"{path}:{node.lineno}"


def words(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text)


def main(old: str, new: str) -> int:
    before, after = list(strings(old)), list(strings(new))
    counted_before, counted_after = (
        Counter(text for text, _ in found) for found in (before, after)
    )
    removed, added = [*(counted_before - counted_after)], [*(counted_after - counted_before)]
    removed_places, added_places = dict(before), dict(after)
    by_word: dict[str, list[str]] = {}
    for text in removed:
        for word in set(words(text)):
            by_word.setdefault(word, []).append(text)
    pairs: list[tuple[float, str | None, str]] = []
    for text in added:
        shared = Counter(other for word in set(words(text)) for other in by_word.get(word, ()))
        likeness = {
            other: SequenceMatcher(None, words(other), words(text), autojunk=False).ratio()
            for other, _ in shared.most_common(3)
        }
        closest = max(likeness, key=likeness.__getitem__, default=None)
        ratio = likeness[closest] if closest else 0.0
        pairs.append((ratio, closest, text) if ratio >= ALIKE else (0.0, None, text))
    for _, closest, text in sorted(pairs, key=lambda pair: -pair[0]):
        print(
            f"== {added_places[text]}",
            *([f"- {closest!r}"] if closest else []),
            f"+ {text!r}",
            sep="\n",
        )
    for text in sorted(
        set(removed) - {closest for _, closest, _ in pairs}, key=removed_places.__getitem__
    ):
        print(f"== {removed_places[text]}", f"- {text!r}", sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
