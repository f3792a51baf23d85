"""Reading Python, here without executing it. Environments work in threads, and CPython's `ast.parse` is not made for them:
before 3.11.5 all of an interpreter's threads share one count of depth, so that two parses at once may end in `SystemError:
AST constructor recursion depth mismatch` (python/cpython#106905). So the package's own parses go one after the other."""

from __future__ import annotations

import ast
import threading

UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)

_turn = threading.Lock()


def complaint(error: Exception) -> str:
    """What one of UNREADABLE says; that the parser had no memory for it has no words of its own."""
    return str(error) or "nested too deep"


def parsed(text: str) -> ast.Module:
    """The syntax tree of a text, with any line ends; raises one of UNREADABLE where it is no Python."""
    with _turn:
        return ast.parse(text.replace("\r\n", "\n"))
