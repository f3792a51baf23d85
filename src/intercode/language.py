"""A language of actions, as a value: what an environment, its agents, reports and attacks must know
about it.

    class AwkEnv(BashEnv):
        language = Language("awk", shell='BEGIN { system("echo {base64} | base64 -d | bash") }')

The languages of the package are in `envs/NAME/language.py`. A run stores the environment's name
only; `intercode.envs.language_of` returns the language of a stored run.
"""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from intercode.submission import ALONE, ANSWER

Kind = Literal["exploring", "querying", "editing"]


def _no_kind(action: str) -> Kind | None:
    return None


def _yes(code: str) -> bool:
    return True


def _no(text: str) -> bool:
    return False


@dataclass(frozen=True)
class Language:
    """A language; a name is enough: `Language("awk")`.

    Args:
        name: the name in prompts, in `play`, and in fences unless `fences` says otherwise.
        submission: matches a whole action that submits; its group, if any, is the submitted word.
        last_line: matches a last line that a model wrote to submit after other code. It is dropped.
        fences: the names that fenced blocks may have besides `name`. Prompts show the first, which
            also names the lexer (of pygments) that highlights actions.
        transcript: matches a line that begins with a prompt, such as `$ ls`; its group is the code.
        whole: returns False for code whose end is missing, such as an open here-document. The
            fence that seems to close a block is then part of its code.
        is_code: returns True for a text without fences that is code, whatever its first line looks
            like.
        prompts: a folder of texts for models (`intercode.agents.prompts`) in place of the general
            ones.
        kind: returns the kind of an action, for reports; None if it has none.
        shell: an action that executes a Bash command. In it, {command} stands for the command, or
            {base64} for its base64 form, which needs no quotes. Empty: attacks on the sandbox are
            not tried.
        echo: returns an action that prints a text. None: by `shell`, or else the text itself.
        between: joins the parts of a gold that is a list, also after a comment.
        attacks: `module:attribute` of the `Attacks` on the rewards of this language.
    """

    name: str
    submission: re.Pattern[str] = ALONE
    last_line: re.Pattern[str] = ALONE
    fences: tuple[str, ...] = ()
    transcript: re.Pattern[str] | None = None
    whole: Callable[[str], bool] = _yes
    is_code: Callable[[str], bool] = _no
    prompts: Path | None = None
    kind: Callable[[str], Kind | None] = _no_kind
    shell: str = ""
    echo: Callable[[str], str] | None = None
    between: str = ";\n"
    attacks: str = ""

    @property
    def fence(self) -> str:
        """The name of a fenced block in prompts."""
        return self.fences[0] if self.fences else self.name

    @property
    def tags(self) -> frozenset[str]:
        """The names, in lower case, of fenced blocks that hold this language."""
        return frozenset(tag.lower() for tag in (self.name, "code", *self.fences))

    @property
    def is_shell(self) -> bool:
        """True if an action is a Bash command."""
        return self.shell == "{command}"

    def submission_where(self, *, takes_answer: bool) -> re.Pattern[str]:
        """Return the pattern of submissions for a task that takes `submit ANSWER`, or does not."""
        return ANSWER if takes_answer else self.submission

    def in_shell(self, command: str) -> str:
        """Return the action that executes a Bash command; `shell` must not be empty."""
        encoded = base64.b64encode(command.encode()).decode()
        return self.shell.replace("{base64}", encoded).replace("{command}", command)

    def printing(self, text: str) -> str:
        """Return the action that prints a text."""
        if self.echo:
            return self.echo(text)
        if self.shell:
            return self.in_shell(f"printf '%s\\n' {shlex.quote(text)}")
        return text


PLAIN = Language("code")
"""A language about which nothing is known."""
