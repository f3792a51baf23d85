"""Whether what was typed goes on in the next line, as its language sees it.

bash, ctf   `bash -n` on this machine, which only parses: an open quote, here-document, loop, or a backslash at the end
python      `codeop`, as in Python's own prompt: a block ends with an empty line
sql         until `;` or an empty line
others      a backslash at the end
"""

from __future__ import annotations

import codeop
import os
import sqlite3
import subprocess
import warnings

_SIGNS = ("unexpected end of file", "unexpected EOF", "delimited by end-of-file")


def goes_on(text: str, language: str) -> bool:
    match language:
        case "python":
            return _python(text)
        case "sql":
            return bool(text.strip()) and not text.endswith("\n") and not sqlite3.complete_statement(text)
        case "bash" | "ctf":
            return _continued(text) or _bash(text)
    return _continued(text)


def _continued(text: str) -> bool:
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


def _bash(text: str) -> bool:
    clean = {"LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath)}
    try:
        parsed = subprocess.run(
            ["bash", "-n"], input=f"{text}\n".encode("utf-8", "surrogateescape"), env=clean, capture_output=True, check=False
        )
    except FileNotFoundError:
        return False
    said = parsed.stderr.decode("utf-8", "replace")
    return any(sign in said for sign in _SIGNS)


def _python(text: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return codeop.compile_command(text, symbol="single") is None
        except (SyntaxError, ValueError, OverflowError):
            return False
