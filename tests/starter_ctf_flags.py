"""The flags of the CTF starter set, and the list of the makers that hide them.

A flag follows from its task's id alone, so the tests know it without executing a gold.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable

Made = dict[str, bytes] | bytes
"""Names and contents, or a tar."""
MAKERS: dict[str, Callable[[str, random.Random], Made]] = {}
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def flag(task: str) -> str:
    """16 letters that look random, in the form of this set's flags."""
    digest = hashlib.sha256(f"the starter set's {task}".encode()).digest()
    return f"intercode{{{''.join(LETTERS[byte % 26] for byte in digest[:16])}}}"


def maker(task: str) -> Callable[[Callable[[str, random.Random], Made]], Callable[[str, random.Random], Made]]:
    def enter(make: Callable[[str, random.Random], Made]) -> Callable[[str, random.Random], Made]:
        MAKERS[task] = make
        return make

    return enter


def make(task: str) -> Made:
    return MAKERS[task](flag(task), random.Random(task))
