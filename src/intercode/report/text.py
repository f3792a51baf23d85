"""Make the text of episodes harmless to show: the output of a program may steer a terminal or
reverse a line.

Control characters, bidirectional and other invisible marks, and halves of surrogate pairs become
Python escapes such as \\x1b and \\u202e; line ends and tabs stay.
"""

from __future__ import annotations

import hashlib
import unicodedata

LONGEST = 2_000
"""Characters of a text that a reader is shown, unless all are asked for."""
_LONGEST, _BEGINNING = 500, 400
"""Characters of a text that `shortened` leaves as it is, and of the beginning of a longer one."""
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def visible(text: str) -> str:
    """Return `text` with an escape for each character that a reader would not see."""
    escapes = {}
    for letter in set(text) - {"\n", "\t"}:
        if unicodedata.category(letter) in _INVISIBLE:
            escapes[ord(letter)] = letter.encode("unicode_escape", "surrogatepass").decode()
    return text.translate(escapes)


def one_line(text: str, most: int = 100) -> str:
    """Return `text` on one line of at most `most` characters."""
    flat = visible(" ".join(text.split()))
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def ends_of(text: str) -> tuple[str, str, str]:
    """Return the beginning of a text longer than `LONGEST`, a note on how much is left out, and the
    end."""
    head, tail = text[: LONGEST * 3 // 4], text[-LONGEST // 4 :]
    return head, f"… {len(text) - len(head) - len(tail):,} characters left out", tail


def shortened(text: str) -> str:
    """Return the beginning of a long text, its length, and a digest, so that only equal texts stay
    equal."""
    if len(text) <= _LONGEST:
        return text
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
    return f"{text[:_BEGINNING]} … ({len(text)} characters, SHA-256 {digest})"


def count_of(number: int, noun: str, plural: str = "") -> str:
    """Return "1 task" or "1,234 tasks"."""
    if number != 1:
        noun = plural or f"{noun}s"
    return f"{number:,} {noun}"
