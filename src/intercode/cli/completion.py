"""Shell completion of the names that commands and options take: environments, agents, data sets."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from intercode.doors import PARTS
from intercode.errors import IntercodeError

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

NAMES = {
    "env": "intercode.envs:environment_names",
    "agent": "intercode.agents:NAMES",
    "sandbox": "intercode_sandbox.base:PROVIDERS",
    "engine": "intercode.envs.sql.engines:ENGINES",
    "data": "intercode.tasks.catalog:list_entries",
    "family": PARTS["families"],
}
"""The names that a parameter takes, by the parameter's name."""


def completing(
    parameter: str,
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return click's `shell_complete` for a parameter of `NAMES`: the names that begin so, or else
    files."""

    def complete(*asked: object) -> list[CompletionItem]:
        from pkgutil import resolve_name

        from click.shell_completion import CompletionItem

        text, items = str(asked[-1]), []
        with suppress(IntercodeError):
            source = resolve_name(NAMES[parameter])
            for entry in source() if callable(source) else source:
                # of `best_of:N`, `replay:PATH` and `module:function`, what is to be typed as it is
                name = getattr(entry, "name", entry).removesuffix(":N").removesuffix("PATH")
                if name.startswith(text) and name != "module:function":
                    items.append(CompletionItem(name))
        return items or [CompletionItem(text, type="file")]

    return complete
