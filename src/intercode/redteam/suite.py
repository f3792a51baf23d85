"""List all exploits for an action language."""

from __future__ import annotations

from collections.abc import Iterator

from intercode.language import Language
from intercode.plugins import load_plugin
from intercode.redteam.bash import CLAIMS
from intercode.redteam.exploits import Attacks, Exploit
from intercode_sandbox import attacks as sandbox

HONEST = "echo honest $((6 * 7))"


def attacks_of(language: Language) -> Attacks:
    """Return the attacks on the rewards for a language. Raises `UsageError` if they cannot be
    loaded."""
    if not language.attacks:
        return Attacks(())
    attacks: Attacks = load_plugin(language.attacks, "the attacks")
    return attacks


def list_exploits(language: Language, engine: str = "") -> list[Exploit]:
    """Return the exploits for actions in a language: exploits of the sandbox if an action can
    execute Bash, claims, and exploits for the language and for the database engine."""
    exploits = list[Exploit]()
    if language.shell:
        exploits += _on_sandbox(language)
    for claim in CLAIMS:
        exploits.append(
            Exploit(claim.name, claim.aim, tuple(map(language.printing, claim.actions)))
        )
    attacks = attacks_of(language)
    exploits += attacks.exploits
    if engine and attacks.of_engine:
        exploits += attacks.of_engine(engine)
    return exploits


def _on_sandbox(language: Language) -> Iterator[Exploit]:
    """Yield the exploits against the sandbox.

    Exploits of a persistent shell are for Bash only. In other languages, no honest action follows
    in an episode that may have removed the program that would execute the action.
    """
    without_honest = [sandbox.FATAL]
    if not language.is_shell:
        without_honest.append(sandbox.LEFT)
    for group, aim in sandbox.GROUPS:
        needs_shell = group in (sandbox.SHELL, sandbox.GUEST, sandbox.FATAL)
        for attack in group:
            if language.is_shell or not (needs_shell or attack.name in sandbox.SHELL_STATE):
                yield Exploit(
                    attack.name,
                    aim,
                    (language.in_shell(attack.action),),
                    after=attack.after and language.in_shell(attack.after),
                    honest_action="" if group in without_honest else language.in_shell(HONEST),
                    on_host=group is sandbox.OUTSIDE,
                    beside=group is sandbox.NEIGHBOURS,
                )
