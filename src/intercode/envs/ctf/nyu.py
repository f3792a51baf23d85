"""NYU CTF Bench as published: a folder with a `challenge.json` for each task, and what it names.

challenge.json        name, description, category, flag, files, box, internal_port, compose
docker-compose.yml    the server, if `compose` is true: a service called as `box` says
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from intercode.envs.compose import containers_of, find_compose, service_of
from intercode.envs.ctf.challenges import UNPLAYABLE
from intercode.errors import DataError
from intercode.tasks import Record

CHALLENGE = "challenge.json"


def is_nyu(path: Path) -> bool:
    """Return whether a folder has challenges, and no task file."""
    return path.is_dir() and not any(path.glob("tasks.*")) and any(path.rglob(CHALLENGE))


def read_challenges(path: Path) -> Iterator[Record]:
    """Yield the record of each challenge below a folder. Raises `DataError` for one that cannot be
    read."""
    for file in sorted(path.rglob(CHALLENGE)):
        try:
            challenge = json.loads(file.read_text("utf-8"))
            place = file.parent.relative_to(path)
            yield {
                "id": "-".join(place.parts) or path.name,
                **_record(file.parent, place, challenge),
            }
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise DataError(f"{file}: is not a challenge ({error!r:.200})") from error


def _record(folder: Path, place: Path, challenge: dict[str, Any]) -> Record:
    flag, names = challenge["flag"], challenge.get("files") or []
    told = [challenge["description"], f"Category: {challenge.get('category', 'misc')}."]
    told += [f"Files in this folder: {', '.join(names)}."] if names else []
    record: Record = {"gold": flag, "assets": [f"{place.as_posix()}/{name}" for name in names]}
    if missing := [name for name in names if not (folder / name).exists()]:
        record[UNPLAYABLE] = f"names {missing[0]!r}, which is not in its folder"
    if challenge.get("compose"):
        try:
            name, service = _server(folder, place, challenge)
            told.append(f"A server answers at the host {name}, port {service['port']}.")
            record["services"] = {name: service}
        except (ValueError, AttributeError, TypeError) as error:
            record[UNPLAYABLE] = f"its server {error}"
    if "{" in flag:
        told.append(f"The flag has the form {flag.partition('{')[0]}{{…}}.")
    return {**record, "query": "\n\n".join(told)}


def _server(folder: Path, place: Path, challenge: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    file = find_compose(folder)
    containers = containers_of(file) if file else {}
    if not file or len(containers) != 1:
        raise ValueError(f"needs {len(containers)} containers, not one")
    ((name, container),) = containers.items()
    if port := challenge.get("internal_port"):
        container = {**container, "expose": [port]}
    return challenge.get("box") or name, service_of(file, container, f"{place.as_posix()}/")
