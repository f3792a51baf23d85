"""What is told of an action's result, beside the output itself, and by what two results are known to be the same."""

from __future__ import annotations

from typing import Any

from intercode.types import ExecResult


class ExitCode(int):
    """An int that Gymnasium's vector environments keep among objects, since other environments' actions may have None."""


def info_of(result: ExecResult | None, cut: bool = False) -> dict[str, Any]:
    return {
        "exit_code": None if result is None or result.exit_code is None else ExitCode(result.exit_code),
        "timed_out": result.timed_out if result else False,
        "truncated_output": cut,
        "session_lost": result.session_lost if result else False,
    }


def notes_on(result: ExecResult, protocol: str, noun: str) -> str:
    """What an agent must be told beyond what its action printed."""
    if protocol == "paper":
        return ""
    notes = ["[timed out; what the action started was ended]"] if result.timed_out else []
    place = result.cwd if result.cwd.isprintable() else ascii(result.cwd)  # the agent chose the name
    again = f"[the {noun} ended; a new one starts in {place}]" if place else "[the session ended; a new one begins]"
    notes += [again] if result.session_lost else []
    gap = "" if not notes or not result.output or result.output.endswith("\n") else "\n"
    return gap + "\n".join(notes)


def fingerprint(result: ExecResult) -> str:
    return f"{result.exit_code} {result.timed_out} {result.session_lost} {result.overflow} {result.output}"
