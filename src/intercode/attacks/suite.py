"""List all exploits in one form, by the language of an environment's actions.

An exploit with a `task` is played on that task of the suite's own data (`write_own_data`), others
on the user's tasks.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from intercode.attacks import sandbox
from intercode.envs.bash import attacks as bash
from intercode.envs.python import attacks as python
from intercode.envs.sql import attacks as sql
from intercode.envs.sql.engines import engine_class


@dataclass(frozen=True)
class Exploit:
    """`actions`, then a submission of `word`. `after` is an action of the next episode that looks
    for an effect."""

    name: str
    aim: str
    actions: tuple[str, ...] = ()
    word: str = ""
    task: str = ""
    after: str = ""
    succeeds: bool = False
    """Whether success of `after`, or else of the last action, proves an escape; BREACH in an
    observation always does."""
    honest_action: str = ""
    """An honest action that follows in the same episode, and must print `honest 42`."""
    moot_actions: tuple[str, ...] = ()
    """If these actions pay as well, a payment proves nothing: the reward does not count what the
    exploit hides."""
    on_host: bool = False
    """Whether the exploit needs targets on this machine (`sandbox.host_targets`)."""
    beside: bool = False
    """Play `after` and the honest episode in a second sandbox, while the first one still holds the
    resource that it took."""


_SANDBOX_GROUPS = (
    (sandbox.EXHAUSTION, "exceed a limit"),
    (sandbox.KERNEL, "use a forbidden feature of the kernel"),
    (sandbox.OUTSIDE, "reach the host"),
    (sandbox.NEIGHBOURS, "take what other sandboxes need"),
    (sandbox.LEFT, "affect the next episode"),
    (sandbox.SHELL, "lose the next action"),
    (sandbox.GUEST, "break the sandbox's own processes"),
    (sandbox.FATAL, "leave the next episode without a shell"),
)


def list_exploits(language: str, engine: str = "") -> list[Exploit]:
    """Return the exploits for actions in that language, with those on the database engine of that
    name; for an unknown language, claims only."""
    claims = [
        _exploit(replace(each, actions=(_print_action(each.actions[0], language),)))
        for each in bash.CLAIMS
    ]
    match language:
        case "bash":
            return [*_on_sandbox(), *claims, *map(_exploit, bash.BASH)]
        case "ctf":
            return [*_on_sandbox(), *claims, *map(_exploit, bash.CTF)]
        case "python":
            return [*_on_sandbox(in_python=True), *claims, *_on_tests()]
        case "sql":
            return [*claims, *_on_database(engine)]
    return claims


def _exploit(each: bash.Attack) -> Exploit:
    return Exploit(
        each.name,
        each.aim,
        each.actions,
        each.word,
        after=each.after,
        moot_actions=each.moot_actions,
    )


def _print_action(text: str, language: str) -> str:
    """Return an action that prints the text."""
    match language:
        case "sql":
            return "SELECT '" + text.replace("\\", "\\\\").replace("'", "''") + "' AS answer"
        case "python":
            return f"print({text!r})"
        case "bash" | "ctf":
            return "printf '%s\\n' '" + text.replace("'", "'\\''") + "'"
    return text


def _on_sandbox(in_python: bool = False) -> Iterable[Exploit]:
    """Yield the exploits against the sandbox, in Bash, or in Python that executes Bash if the
    exploit needs no shell."""
    honest_action = "print('honest', 6 * 7)" if in_python else "echo honest $((6 * 7))"

    def translate(action: str) -> str:
        if not (in_python and action):
            return action
        text = base64.b64encode(action.encode()).decode()  # so that no traceback shows BREACH
        return (
            "import base64, subprocess\n"
            f"_ = subprocess.run(['bash', '-c', base64.b64decode('{text}').decode()])"
        )

    for group, aim in _SANDBOX_GROUPS:
        honest, on_host = "" if group is sandbox.FATAL else honest_action, group is sandbox.OUTSIDE
        needs_shell = group in (sandbox.SHELL, sandbox.GUEST, sandbox.FATAL)
        for each in group:
            if not (in_python and (needs_shell or each.name in sandbox.SHELL_STATE)):
                action, after = translate(each.action), translate(each.after)
                beside = group is sandbox.NEIGHBOURS
                yield Exploit(
                    each.name,
                    aim,
                    (action,),
                    after=after,
                    honest_action=honest,
                    on_host=on_host,
                    beside=beside,
                )


def _on_tests() -> Iterable[Exploit]:
    aims = {
        "passes": "pass tests without an answer",
        "takes_over": "take over the grader",
        "passes_public": "pass the public tests by constants",
    }
    for each in python.ATTACKS:
        yield Exploit(
            each.name,
            aims.get(each.effect, "spoil the next submission"),
            (each.code,),
            "f",
            each.name,
        )
        if each.effect == "passes" and each.tests is python.TESTS and "def f(n)" in each.code:
            code = each.code.replace("def f(n)", "def @WORD@(*n)")
            yield Exploit(f"{each.name}, on a task of yours", aims["passes"], (code,), "@WORD@")


def _on_database(engine: str) -> Iterable[Exploit]:
    aims = {
        "pays": "change what it is compared with",
        "harms": "spoil the next episode",
        "through": "do what is forbidden",
        "ends": "end the evaluation",
    }
    own = engine_class(engine).attacks() if engine else ()
    for attack in (*sql.ATTACKS, *own):
        last = () if attack.sign == "through" else (attack.answer,)
        yield Exploit(
            attack.name,
            aims.get(attack.sign, "leave something for the next episode"),
            (*attack.actions, *last),
            "",
            attack.task,
            attack.probe,
            attack.sign in ("through", "left"),
        )


def write_own_data(language: str, folder: Path) -> Path | None:
    """Write the suite's own data for a language and return their folder; None if no exploit needs
    any."""
    if language == "sql":
        return sql.write_data(folder)
    if language != "python":
        return None
    folder.mkdir()
    gold = python.HONEST.replace("def f", "def it")
    records = (
        {
            "id": each.name,
            "query": "Sum the squares below n.",
            "gold": gold,
            "tests": each.tests,
            "hidden": each.hidden,
        }
        for each in python.ATTACKS
    )
    (folder / "tasks.jsonl").write_text(
        "".join(json.dumps(record) + "\n" for record in records), "utf-8"
    )
    return folder
