"""What a command may take from the settings of a stored run, whose folder may be a stranger's.

    settings     numbers, flags, names of the package's own parts    are taken from every run
    what acts    code, addresses, paths                              are taken only from a run that the user has signed,
                                                                     or with `--trust`, which signs
                                                                     the run

What the user gives again on the command line is not taken from the run. A setting that is not
listed here acts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from intercode.errors import UsageError
from intercode.signing import is_signed, key_fault
from intercode.store import sign_run
from intercode.tasks import list_entries

_WORD = re.compile(r"\w+")
_NO_FILE = re.compile(r"(?!scripted:).*", re.DOTALL)
BUILT_IN = {
    "env": _WORD, "reward": _WORD, "sandbox": _WORD, "engine": _WORD, "played_for": _WORD,
    "agent": re.compile(r"\w+|best_of:\d+"), "model": _NO_FILE, "judge": _NO_FILE, "on": re.compile("local|ray"),
}  # fmt: skip
"""Settings that may name code, a file or an address; a value that matches names a part of the
package, or a server's model."""

ACTS = frozenset(
    {
        "data",
        "data_from",
        "tree",
        "setup",
        "image",
        "dump",
        "databases",
        "assets",
        "failed_in",
        "base_url",
        "predictions",
        "run",
    }
)
"""Settings that always name a file, a folder or an address. `data` may also name a set of the
catalog."""

HARMLESS = frozenset(
    {
        # options
        "command",
        "secret",
        "gold_fields",
        "everything",
        "split",
        "limit",
        "task",
        "shuffle",
        "exclude_broken",
        "handicap",
        "session",
        "protocol",
        "submits",
        "tell",
        "robust",
        "live",
        "temperature",
        "reply_tokens",
        "reply_seconds",
        "price",
        "turns",
        "epochs",
        "seed",
        "static",
        "workers",
        "shard",
        "force",
        "max_cost",
        "max_tokens",
        "max_seconds",
        "episode_cost",
        "episode_tokens",
        "episode_seconds",
        # what else run.json has
        "tasks",
        "shard_tasks",
        "prompt",
        "data_digest",
        "assets_digest",
        "template",
        "userland",
        "wall",
        "server",
        "statement_seconds",
        "test_seconds",
        "hardness",
        "data_set",
        "excluded",
        "left_out",
        "mended",
        "planned",
        "created",
        "git_commit",
        "versions",
        "rescored_from",
        "live_score",
        "signature",
        "agent_source",
        "engine_source",
        "env_source",
        "model_source",
        "reward_source",
        "sandbox_source",
    }
)
"""Settings that name nothing which is loaded, opened or asked."""


def acts(name: str, value: object) -> bool:
    """Return whether a command that takes this setting from a run would load code, open a file or
    ask an address."""
    if not value or name in HARMLESS:
        return False
    if name == "data" and value in [entry.name for entry in list_entries()]:
        return False
    built_in = BUILT_IN.get(name)
    return not (built_in and isinstance(value, str) and built_in.fullmatch(value))


def acting(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything in a run's settings that acts, its options included."""
    labels = (
        "run",
        "data",
        "options",
    )  # the folder's own path, the name of the data, and what is looked through next
    stored = {name: value for name, value in settings.items() if name not in labels}
    stored |= settings.get("options") or {}
    return {name: value for name, value in stored.items() if acts(name, value)}


def is_vouched(settings: Mapping[str, Any]) -> bool:
    """Return whether a run made from these settings may be signed: they are signed, or nothing in
    them acts."""
    return is_signed(settings) or not acting(settings)


def require_trust(settings: Mapping[str, Any], taken: Mapping[str, Any], *, trust: bool) -> None:
    """Raise `UsageError`, which lists what would be loaded, if something in `taken` acts and the
    run is not trusted.

    `settings` are the run's, as `read_run` returns them; `taken` are the settings that a command
    takes from them. `trust` signs the run, so that the next command need not ask.
    """
    if is_signed(settings):
        return
    if trust:
        sign_run(Path(str(settings["run"])), settings)
        return
    loaded = {name: value for name, value in taken.items() if acts(name, value)}
    if not loaded:
        return
    more = {name: value for name, value in acting(settings).items() if loaded.get(name) != value}
    also = f" and so also vouches for {_listed(more)}" if more else ""
    fault = key_fault()
    raise UsageError(
        f"{settings['run']} is not signed by you, so nothing that it names is loaded or asked:"
        f" {_listed(loaded)}. Give these options again, or add --trust, which signs the run{also}"
        + (f" ({fault})" if fault else "")
    )


def _listed(named: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value!r:.500}" for name, value in sorted(named.items()))
