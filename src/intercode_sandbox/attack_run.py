"""Play the attacks of `attacks.py`, each on a fresh sandbox: does one reach its aim, and does an
honest command afterwards still work?

    attack ──► honest command ──► reset ──► effects in the next episode? ──► honest command
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from intercode_sandbox import attacks
from intercode_sandbox.attacks import SandboxAttack
from intercode_sandbox.base import Sandbox
from intercode_sandbox.errors import SandboxDied, SandboxError, UsageError, did_you_mean
from intercode_sandbox.identity import identity

_HONEST = "echo honest $((6 * 7))"
_HONEST_OUTPUT = "honest 42\n"


class AttackResult(NamedTuple):
    """The result of an attack. `held` is None for an attack that could not be tried; `why` says
    what happened, or why it could not."""

    name: str
    aim: str
    held: bool | None
    why: str = ""


def play_attacks(
    open_box: Callable[[], Sandbox], names: Sequence[str] = ()
) -> Iterator[AttackResult]:
    """Play the attacks called `names`, by default all. `open_box` opens a sandbox with
    `attacks.LIMITS`. Raises `UsageError` for an unknown name, and `SandboxError` if none opens."""
    all_names = {attack.name for group, _ in attacks.GROUPS for attack in group}
    for name in names:
        if name not in all_names:
            raise UsageError(f"no attack named {name!r}{did_you_mean(name, all_names)}")
    for group, aim in attacks.GROUPS:
        for attack in group:
            if not names or attack.name in names:
                yield AttackResult(attack.name, aim, *_play(attack, group, open_box))


def _play(
    attack: SandboxAttack, group: list[SandboxAttack], open_box: Callable[[], Sandbox]
) -> tuple[bool | None, str]:
    """Return whether the sandbox held, and why not."""
    with ExitStack() as stack:
        box = after = stack.enter_context(open_box())
        if group is attacks.NEIGHBOURS:  # it must work while the attack holds what it took
            after = stack.enter_context(open_box())
        action = attack.action
        host = None
        if group is attacks.OUTSIDE:
            host = stack.enter_context(attacks.host_targets(**identity().popen()))
            action = host.fill(action)
        try:
            output = _suffer(box, action)
            if attacks.NO_PYTHON in output:
                return None, "there is no /usr/bin/python3 inside, which it needs"
            before_reset = _HONEST_OUTPUT
            if group is not attacks.FATAL:  # after which no shell can start before the reset
                before_reset = _be_honest(box)
            after.reset()
            effects = _suffer(after, attack.after)
            after_reset = _be_honest(after)
        except SandboxError as error:
            return False, f"an error instead of a failure: {error}"
        for line in f"{output}\n{before_reset}\n{effects}\n{after_reset}".splitlines():
            if "BREACH" in line:
                return False, line[:200]
        if host and host.killed():
            return False, "it killed a process of this machine"
        if _HONEST_OUTPUT in before_reset and _HONEST_OUTPUT in after_reset:
            return True, ""
        return False, "the next honest command did not work"


def _suffer(box: Sandbox, action: str) -> str:
    """Return what a hostile action prints. It may cost the action's own sandbox."""
    try:
        return box.exec(action).output
    except SandboxDied:
        box.reset()
        return ""


def _be_honest(box: Sandbox) -> str:
    """Return what an honest command prints, again if the loss of the session was announced."""
    output = ""
    for _ in range(3):
        if _HONEST_OUTPUT not in output:
            output += _suffer(box, _HONEST)
    return output
