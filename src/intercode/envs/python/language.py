"""The language of `PythonEnv`."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

from intercode.envs.python.suite import SYNTAX_ERRORS, is_python, parse
from intercode.language import Kind, Language

NAME = re.compile(r"""submit(?:[ \t]+(?!(?:and|if|in|is|not|or)\b)([\w"'`].*))?""")
"""`submit NAME`; `submit = 5` and `submit in x` are code. A word that is not a name counts as a
submission and is rejected, since the action would not be valid Python either."""
_LAST = re.compile(r"submit(?:\s+(?!(?:and|if|in|is|not|or)\b)\w+(?:\(.*\))?)?")
"""A last line that submits a name or, by mistake, a call."""
_SUBMITS = re.compile(rf"(?:\A|;)[ \t]*{_LAST.pattern}(?:\(\))?[ \t]*;?[ \t]*(?:#.*)?\Z")
_BINDS = re.compile(r"\b(?:def|class|as|import|for)\s+submit\b|\bsubmit\s*:?=")
_DEFINES = re.compile(r"^\s*(?:async\s+def|def|class)\b", re.MULTILINE)
_CHANGES = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.Delete,
)


def kind_of(action: str) -> Kind:
    """Return "editing" if the action defines, assigns or deletes a name at its top level."""
    try:
        changes = any(isinstance(node, _CHANGES) for node in parse(action).body)
    except SYNTAX_ERRORS:
        changes = _DEFINES.search(action) is not None
    return "editing" if changes else "exploring"


def parses(code: str) -> bool:
    return is_python(textwrap.dedent(code))


def is_code(text: str) -> bool:
    """Return whether a text, whose first line may have lost its indent, parses, and is not merely
    words such as `all is done`."""
    text = without_submit(text)
    if not parses(text):
        text = f"    {text}"
    if not parses(text):
        return False
    words = (ast.Name, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Constant)
    return any(
        not (isinstance(node, ast.Expr) and isinstance(node.value, words))
        for node in parse(textwrap.dedent(text)).body
    )


def without_submit(code: str) -> str:
    """Return the code without a first or last line that submits, which must be an action of its
    own. A `submit` that the code defines stays."""
    lines = code.strip("\n").rstrip().split("\n")
    lines[-1] = _SUBMITS.sub("", lines[-1])
    lines[0] = _SUBMITS.sub("", lines[0])
    shorter = "\n".join(lines)
    if _BINDS.search(code) or (parses(code) and not parses(shorter)):
        return code
    return shorter


def echo(text: str) -> str:
    """Return the statement that prints a text."""
    return f"print({text!r})"


LANGUAGE = Language(
    "python",
    submission=NAME,
    last_line=_LAST,
    fences=("python", "py", "python3", "py3", "pycon", "ipython", "ipython3", "tool_code"),
    transcript=re.compile(r"(?:>>>|\.\.\.)(?: (.*)|$)"),
    whole=parses,
    is_code=is_code,
    prompts=Path(__file__).parent / "prompts",
    kind=kind_of,
    # in base64, so that no traceback shows the command
    shell=(
        "import base64, subprocess\n"
        "_ = subprocess.run(['bash', '-c', base64.b64decode('{base64}').decode()])"
    ),
    echo=echo,
    attacks="intercode.redteam.python:ON_PYTHON",
)
