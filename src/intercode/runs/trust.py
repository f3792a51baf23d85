"""Decide what a command may take from the settings of a stored run, which may be a stranger's.

    most settings       numbers, flags, names of the package's own parts: taken from every run
    what needs trust    code, addresses, paths: taken only from a run that the user has signed, or
                        with `--trust`, which signs the run

A setting that the user gives again on the command line is not taken from the run. A setting that no
class of options declares, as an option or a fact, needs trust.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from intercode.envs import all_facts, all_options
from intercode.errors import UsageError
from intercode.options import NOTHING, RunOptions
from intercode.runs.signing import is_signed, key_fault
from intercode.runs.store import sign_run
from intercode.tasks import list_entries


def needs_trust(name: str, value: object) -> bool:
    """Return whether a command that takes this setting from a run would load code, open a file or
    connect to an address."""
    if not value or name in all_facts() or name.endswith("_source"):
        return False
    if name == "data" and value in [entry.name for entry in list_entries()]:
        return False
    plain = RunOptions.named.get(name, NOTHING)
    if option := all_options().get(name):
        if not option.names:
            return False
        plain = option.plain
    return not (isinstance(value, str) and re.fullmatch(plain, value))


def settings_that_need_trust(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything in a run's settings that needs trust, its options included."""
    # the folder's own path, the name of the data, and what is looked through next
    labels = ("run", "data", "options")
    stored = {name: value for name, value in settings.items() if name not in labels}
    stored |= settings.get("options") or {}
    return {name: value for name, value in stored.items() if needs_trust(name, value)}


def may_be_signed(settings: Mapping[str, Any]) -> bool:
    """Return whether a run made from these settings may be signed: they are signed, or nothing in
    them needs trust."""
    return is_signed(settings) or not settings_that_need_trust(settings)


def require_trust(settings: Mapping[str, Any], taken: Mapping[str, Any], *, trust: bool) -> None:
    """Raise `UsageError`, which lists what would be loaded, if something in `taken` needs trust and
    the run is not trusted.

    `settings` are the run's, as `read_run` returns them; `taken` are the settings that a command
    takes from them. `trust` signs the run, so that the next command need not ask.
    """
    if is_signed(settings):
        return
    if trust:
        sign_run(Path(str(settings["run"])), settings)
        return
    loaded = {name: value for name, value in taken.items() if needs_trust(name, value)}
    if not loaded:
        return
    why = (
        f"{settings['run']} is not signed by you, so nothing that it names is loaded or asked: "
        f"{_listed(loaded)}. Give these options again, or add --trust, which signs the run"
    )
    rest = settings_that_need_trust(settings)
    if others := {name: rest[name] for name in rest if loaded.get(name) != rest[name]}:
        why += f" and so also vouches for {_listed(others)}"
    if fault := key_fault():
        why += f" ({fault})"
    raise UsageError(why)


def _listed(named: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value!r:.500}" for name, value in sorted(named.items()))
