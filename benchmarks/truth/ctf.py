"""CTF: the flag of each starter task in another dress, which is right, and what is nearly it, which
is not.

A pair of quotes is right, as one would write it in a shell. Another case is wrong: a flag is a
password.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import intercode
from intercode.env import InterCodeEnv
from intercode.types import View
from truth.pairs import Pair, Truth, play


def truths() -> Iterator[Truth]:
    for reward in ("exact", "paper"):
        with closing(
            intercode.make("ctf", reward=reward, max_turns=None, view=View(head=0, tail=0))
        ) as env:
            yield Truth("ctf", reward, list(play(env, list(_pairs(env)))))


def _pairs(env: InterCodeEnv) -> Iterator[Pair]:
    flags = {task.id: str(env.run_gold(task).evidence) for task in env.tasks}
    for task, flag in flags.items():
        others = [other for other in flags.values() if other != flag]
        for why, word in _right(flag):
            yield Pair(task, (f"submit {word}",), True, why)
        for why, word in feedback(flag, others):
            yield Pair(task, (f"submit {word}",), False, why)


def _right(flag: str) -> list[tuple[str, str]]:
    return [
        ("the flag", flag),
        ("in single quotes", f"'{flag}'"),
        ("in double quotes", f'"{flag}"'),
        ("between blanks", f"  {flag} \t"),
        ("on the next line", f"\n{flag}\n"),
    ]


def feedback(flag: str, others: Sequence[str]) -> list[tuple[str, str]]:
    head, _, inner = flag.rstrip("}").partition("{")
    return [
        ("another task's flag", others[0]),
        ("without its end", flag[:-1]),
        ("without its form", inner),
        ("one letter short", flag[:-2] + flag[-1]),
        ("back to front", f"{head}{{{inner[::-1]}}}"),
        ("in capitals", flag.upper()),
        ("two flags", f"{flag} {others[0]}"),
        ("nothing", ""),
    ]
