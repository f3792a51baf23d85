"""NYU CTF Bench as published: a folder with a `challenge.json` for each task, and what it names.

challenge.json        name, description, category, flag, files, box, internal_port, compose
docker-compose.yml    the server, if `compose` is true: a service called as `box` says

`{box}` and `{port}` in a description are the host and the port of the server.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from intercode.envs.compose import containers_of, find_compose, service_of
from intercode.envs.ctf.challenges import NOT_GIVEN, UNPLAYABLE
from intercode.errors import IntercodeError
from intercode.plugins import describe_error
from intercode.reading import present, read_json
from intercode.tasks import Record
from intercode.tasks.formats import Unreadable
from intercode.tasks.loader import Records

CHALLENGE = "challenge.json"


def is_nyu(path: Path) -> bool:
    """Return whether a folder has challenges, and no task file."""
    if present(path) != "folder" or any(path.glob("tasks.*")):
        return False
    return any(path.rglob(CHALLENGE))


def read_challenges(path: Path) -> Records:
    """Yield the record of each challenge below a folder, or an `Unreadable`."""
    for file in sorted(path.rglob(CHALLENGE)):
        place = file.parent.relative_to(path)
        id = "-".join(place.parts) or path.name
        try:
            yield {"id": id, **_record(file.parent, place, read_json(file, path))}
        except IntercodeError as error:
            yield Unreadable(str(error), id)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            yield Unreadable(f"{file}: is not a challenge ({describe_error(error)})", id)


def _record(folder: Path, place: Path, challenge: dict[str, Any]) -> Record:
    flag = challenge["flag"]
    text = challenge["description"]
    names = challenge.get("files") or []
    if isinstance(names, str):
        names = [names]
    hints = [f"Category: {challenge.get('category', 'misc')}."]
    if names:
        hints.append(f"Files in this folder: {', '.join(names)}.")
    host = challenge.get("box")
    port = challenge.get("internal_port") or challenge.get("port")
    prefix = f"{place.as_posix()}/"
    record: Record = {"gold": flag, "assets": [f"{prefix}{name}" for name in names]}
    if challenge.get("compose") or challenge.get("internal_port") or "{box}" in text:
        try:
            file = find_compose(folder)
            if not challenge.get("compose") or not file:
                raise ValueError("needs 0 containers, not one")
            containers = containers_of(file)
            if len(containers) != 1:
                raise ValueError(f"needs {len(containers)} containers, not one")
            ((name, container),) = containers.items()
            if port:
                container = {**container, "ports": [port]}
            service = service_of(file, container, prefix)
            host = host or name
            port = service["port"]
            service["aliases"] = [name, *service.get("aliases", ())]
            record["services"] = {host: service}
            hints.append(f"A server answers at the host {host}, port {port}.")
            if container.get("volumes"):
                record[NOT_GIVEN] = "its server is started without the Docker socket"
        except (IntercodeError, ValueError, AttributeError, TypeError) as error:
            record[UNPLAYABLE] = f"its server {error}"
    if "{" in flag:
        hints.append(f"The flag has the form {flag.partition('{')[0]}{{…}}.")
    text = text.replace("{box}", str(host or "{box}")).replace("{port}", str(port or "{port}"))
    return {**record, "query": "\n\n".join([text, *hints])}
