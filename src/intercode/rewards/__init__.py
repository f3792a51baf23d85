"""Rewards: pure functions from outcomes to a `Score`; each is imported when it is first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from intercode.rewards.exact import bash_exact
    from intercode.rewards.exact_sql import sql_exact
    from intercode.rewards.flag import flag_exact, flag_paper
    from intercode.rewards.paper import bash_paper
    from intercode.rewards.paper_sql import sql_paper
    from intercode.rewards.python import python_exact, python_paper

_HOMES = {
    "bash_paper": "paper",
    "bash_exact": "exact",
    "flag_exact": "flag",
    "flag_paper": "flag",
    "python_paper": "python",
    "python_exact": "python",
    "sql_paper": "paper_sql",
    "sql_exact": "exact_sql",
}

__all__ = ["bash_exact", "bash_paper", "flag_exact", "flag_paper", "python_exact", "python_paper", "sql_exact", "sql_paper"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
