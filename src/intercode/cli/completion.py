"""What the shell completes besides commands and options: the names that they take."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from intercode.errors import IntercodeError

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

Complete = Callable[["click.Context", "click.Parameter", str], "list[CompletionItem]"]


def _environments() -> Iterable[str]:
    from intercode.envs import environment_names

    return environment_names()


def _agents() -> Iterable[str]:
    from intercode.agents import NAMES

    names = (name for name in NAMES if name != "module:function")
    return [name.removesuffix(":N").removesuffix("PATH") for name in names]


def _sandboxes() -> Iterable[str]:
    from intercode.sandbox.base import PROVIDERS

    return PROVIDERS


def _engines() -> Iterable[str]:
    from intercode.envs.sql.engines import ENGINES

    return ENGINES


def _data_sets() -> Iterable[str]:
    from intercode.tasks.catalog import list_entries

    return [entry.name for entry in list_entries()]


def _families() -> Iterable[str]:
    from intercode.generate import FAMILIES

    return FAMILIES


NAMES: dict[str, Callable[[], Iterable[str]]] = {
    "env": _environments,
    "agent": _agents,
    "sandbox": _sandboxes,
    "engine": _engines,
    "data": _data_sets,
    "family": _families,
}
"""The names that a parameter takes, by the parameter's name."""


def completing(parameter: str) -> Complete:
    """Return click's `shell_complete` for a parameter of `NAMES`: the names that begin so, or else
    files."""

    def complete(
        context: click.Context, option: click.Parameter, text: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        names = list[str]()
        with suppress(IntercodeError):
            names = [name for name in NAMES[parameter]() if name.startswith(text)]
        return [CompletionItem(name) for name in names] or [CompletionItem(text, type="file")]

    return complete
