"""Options of the SQL environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from intercode.options import EnvOptions, option

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 10.0


@dataclass(frozen=True)
class SqlOptions(EnvOptions):
    """Options of the SQL environment; `seconds` is an action's time limit. The session with the
    server lives as long as its episode, regardless of `session`."""

    facts: ClassVar[tuple[str, ...]] = ("server", "statement_seconds")
    dump: str | Path | None = option(
        None, "Tasks", "Load the databases from this MySQL dump.", kind="path", names="file"
    )
    databases: str | Path | None = option(
        None, "Tasks", "Load NAME.sql and NAME.sqlite files from this folder.",
        kind="path", names="file",
    )  # fmt: skip
    engine: str | None = option(
        None, "Environment",
        "Use this database engine: sqlite, mariadb, module:Class or path.py:Class. [sqlite; mariadb"
        " with --dump]",
        metavar="NAME", names="code", plain=r"\w+",
    )  # fmt: skip
    handicap: bool = option(
        False, "Environment", "Show the agent the tables and columns at the start.",
        flag="show-schema", kind="flag",
    )  # fmt: skip
    robust: bool = option(
        False, "Reward",
        "Run each solved task again on variant data (other rows), and report how many still"
        " succeed.",
        kind="flag",
    )  # fmt: skip
    seconds: float = SECONDS
