"""Every exploit in one form, for the language of an environment's actions.

task ""     played on tasks of the user's own; else on the task of that id of the suite's own data (`arena`)
says        an observation that holds BREACH shows an escape
runs        an action that ends well shows one: the last, or `after`
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from intercode.attacks import sandbox as walls
from intercode.envs.bash import attacks as tricks
from intercode.envs.python import attacks as python
from intercode.envs.sql import attacks as sql


@dataclass(frozen=True)
class Exploit:
    """`actions`, then a submission of `word`. `after` is an action in the next episode, to find what was left there."""

    name: str
    aim: str
    actions: tuple[str, ...] = ()
    word: str = ""
    task: str = ""
    after: str = ""
    proof: Literal["says", "runs"] = "says"
    next: str = ""
    """An honest action of the same episode, which must print `honest 42`."""
    moot: tuple[str, ...] = ()
    """If these actions pay as well, a payment shows nothing: the reward does not count what the exploit hides."""
    engine: str = ""
    outside: bool = False
    """Whether it reaches for what is planted on this machine."""


_BASH = "echo honest $((6 * 7))"
_PYTHON = "print('honest', 6 * 7)"
_GROUPS = (
    (walls.EXHAUSTION, "take more than its share", True),
    (walls.KERNEL, "reach a corner of the kernel", True),
    (walls.OUTSIDE, "reach what is outside", True),
    (walls.LEFT, "leave something for the next episode", True),
    (walls.SHELL, "have the next action lost", True),
    (walls.GUEST, "reach the guest", True),
    (walls.FATAL, "leave no shell for the next episode", False),
)
_OF_FILES = (walls.EXHAUSTION, walls.KERNEL, walls.OUTSIDE, walls.LEFT)


def suite(language: str) -> list[Exploit]:
    """The exploits for actions in that language; only claims for one that is not known here."""
    claims = [_trick(each, language) for each in tricks.CLAIMS]
    match language:
        case "bash":
            return [*_walls(), *claims, *map(_trick, tricks.BASH)]
        case "ctf":
            return [*_walls(), *claims, *map(_trick, tricks.CTF)]
        case "python":
            return [*_walls_from_python(), *claims, *_pythons()]
        case "sql":
            return [*claims, *_statements()]
    return claims


def _walls() -> list[Exploit]:
    return [
        Exploit(each.name, aim, (each.action,), after=_after(each), next=_BASH if lives else "", outside=each in walls.OUTSIDE)
        for group, aim, lives in _GROUPS
        for each in group
    ]


def _walls_from_python() -> list[Exploit]:
    """What needs no shell that goes on."""
    found = []
    for group, aim, _ in _GROUPS:
        for each in group if group in _OF_FILES else ():
            action, after = _in_python(each.action), _in_python(_after(each))
            if each.name not in walls.OF_THE_SHELL:
                found.append(Exploit(each.name, aim, (action,), after=after, next=_PYTHON, outside=each in walls.OUTSIDE))
    return found


def _after(attack: walls.Attack) -> str:
    return "" if attack.after == "true" else attack.after


def _in_python(action: str) -> str:
    """Encoded, so that no traceback shows its text."""
    if not action:
        return ""
    text = base64.b64encode(action.encode()).decode()
    return f"import base64, subprocess\n_ = subprocess.run(['bash', '-c', base64.b64decode('{text}').decode()])"


def _trick(each: tricks.Trick, language: str = "bash") -> Exploit:
    actions = tuple(_printing(action, language) for action in each.actions) if each in tricks.CLAIMS else each.actions
    return Exploit(each.name, each.aim, actions, each.word, after=each.after, moot=each.moot)


def _printing(text: str, language: str) -> str:
    """An action that prints the text."""
    match language:
        case "sql":
            return "SELECT '" + text.replace("\\", "\\\\").replace("'", "''") + "' AS answer"
        case "python":
            return f"print({text!r})"
        case "bash" | "ctf":
            return "printf '%s\\n' '" + text.replace("'", "'\\''") + "'"
    return text


def _pythons() -> Iterable[Exploit]:
    aims = {
        "pays": "pass tests without an answer",
        "takes": "take over the grader",
        "public": "pass the shown tests by constants",
    }
    for each in python.ATTACKS:
        yield Exploit(each.name, aims.get(each.sign, "spoil the next submission"), (each.code,), "f", each.name)
        if each.sign == "pays" and each.tests is python.TESTS and "def f(n)" in each.code:
            code = each.code.replace("def f(n)", "def @WORD@(*n)")
            yield Exploit(f"{each.name}, on a task of yours", aims["pays"], (code,), "@WORD@")


def _statements() -> Iterable[Exploit]:
    aims = {
        "pays": "change what it is compared with",
        "harms": "spoil the next episode",
        "through": "do what is forbidden",
        "ends": "end the evaluation",
    }
    for engine in sql.ENGINES:
        for each in sql.ATTACKS:
            if engine in each.engines:
                proof: Literal["says", "runs"] = "runs" if each.sign in ("through", "left") else "says"
                acts = tuple(action.format(trigger=sql.TRIGGER[engine]) for action in each.actions)
                aim = aims.get(each.sign, "leave something for the next episode")
                made = Exploit(each.name, aim, (*acts, each.answer), "", each.task, each.probe, proof, engine=engine)
                yield replace(made, actions=acts) if each.sign == "through" else made


def arena(language: str, folder: Path) -> Path | None:
    """The suite's own data, as a data folder; None where no exploit needs any."""
    if language == "sql":
        return sql.write_data(folder)
    if language != "python":
        return None
    folder.mkdir()
    gold = python.HONEST.replace("def f", "def it")
    records = (
        {"id": each.name, "query": "Sum the squares below n.", "gold": gold, "tests": each.tests, "hidden": each.hidden}
        for each in python.ATTACKS
    )
    (folder / "tasks.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder
