"""The public data: where it is, and what is missing to play it here."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from measuring.rows import skip

from intercode.envs.sql.engines.mariadb import MariadbEngine
from intercode_sandbox.image import V1_BASH, image_path

IMAGE = V1_BASH
FILE_SYSTEMS = (1, 2, 3, 4)
_PROJECT = Path(__file__).parents[2]


def folder() -> Path:
    """The folder of public data; it may be absent."""
    return Path(os.environ.get("INTERCODE_DATA") or _PROJECT.parent / "shared" / "data")


def recorded(name: str) -> Path:
    """The log of a run of InterCode v1."""
    return folder() / "recorded" / f"ic_{name}.json"


# -- options of `prepare` --------------------------------------------------------------------------


def nl2bash(number: int) -> dict[str, Any]:
    """One of NL2Bash's file systems; the fourth has no tree."""
    files = folder() / "nl2bash"
    tree = None if number == 4 else files / f"fs_{number}.tar"
    return {"data": str(files / f"nl2bash_fs_{number}.json"), "tree": tree, "image": IMAGE}


def spider() -> dict[str, Any]:
    files = folder() / "spider"
    return {"data": str(files / "ic_spider_dev.json"), "dump": files / "ic_spider_dbs.sql"}


def mbpp() -> dict[str, Any]:
    return {"data": str(folder() / "mbpp" / "ic_mbpp.json")}


# -- what is missing -------------------------------------------------------------------------------


def no_image() -> str | None:
    """Why NL2Bash cannot be played here, if its root is not built."""
    if image_path(IMAGE).is_dir():
        return None
    return f"there is no image {IMAGE}: intercode image build {IMAGE}"


WORLDS = {
    "nl2bash": {f"fs_{number} ": nl2bash(number) for number in FILE_SYSTEMS},
    "spider": {"": spider()},
    "mbpp": {"": mbpp()},
}
"""Each data set's worlds: the options of `prepare`, by what precedes the ids of tasks."""


def missing(name: str) -> str | None:
    """Why a data set cannot be played here."""
    for options in WORLDS[name].values():
        for option in ("data", "tree", "dump"):
            if (path := options.get(option)) and not Path(path).exists():
                return f"{path} is not there; set INTERCODE_DATA"
    if name == "nl2bash":
        return no_image()
    return MariadbEngine.missing() if name == "spider" else None


def playable(names: Iterable[str] | None) -> list[str]:
    """The named data sets, by default all, without those that cannot be played here; of these it
    is said why."""
    reasons = {name: missing(name) for name in names or WORLDS}
    for name, why in reasons.items():
        if why:
            skip(name, why)
    return [name for name, why in reasons.items() if not why]
