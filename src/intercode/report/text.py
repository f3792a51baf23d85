"""Text of episodes, made harmless to show: what a program printed may steer a terminal or turn a line around.

Control characters, bidirectional and other invisible marks, and halves of surrogate pairs become what Python would write
for them, such as \\x1b and \\u202e; line ends and tabs stay.
"""

from __future__ import annotations

import unicodedata

_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def visible(text: str) -> str:
    hidden = {letter for letter in set(text) - {"\n", "\t"} if unicodedata.category(letter) in _INVISIBLE}
    return "".join(letter.encode("unicode_escape", "surrogatepass").decode() if letter in hidden else letter for letter in text)


def one_line(text: str, most: int = 100) -> str:
    """`text` on one line of at most `most` letters."""
    flat = visible(" ".join(text.split()))
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"
