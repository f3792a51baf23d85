"""What a public set holds, read by rules of a few lines that share nothing with the product's
readers. A rule looks at the form of an entry, never at its name.

Kinds of what an entry can lack: `question`, `gold`, `tests`, `databases` (beside the file), `files`
(that it names), `language` (it has another one), `columns` (the fields have names of their own); a
server's `containers`, `command`, `port`, `volumes`; `network`, `machine`.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

_LINK = re.compile(r"https?://[^\s()\[\]]+")
_PAGES = ("", ".html", ".htm", ".php")


@dataclass(frozen=True)
class Entry:
    """`text` is what the entry asks, `lacks` the kinds of reasons why it cannot be played (none if
    it can), `says` the words that a true reason contains."""

    record: Any
    text: str = ""
    lacks: frozenset[str] = frozenset()
    says: tuple[str, ...] = ()
    id: str = ""


Rule = Callable[[Any], Entry]


# -- files of records ------------------------------------------------------------------------------


def record_files(folder: Path) -> list[Path]:
    """Return the files that a user would name; `.cm` are the golds beside `.nl`."""
    files = sorted(file for file in folder.iterdir() if file.is_file())
    return [file for file in files if file.suffix != ".cm" and "licen" not in file.name.lower()]


def records(file: Path) -> list[Any]:
    """Return the entries of a file: lines, rows, a list, the list of an object, or its texts."""
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rt", encoding="utf-8-sig", newline="") as stream:
        if file.suffix == ".csv":
            return list(csv.DictReader(stream))
        text = stream.read()
    if file.suffix in (".nl", ".cm"):
        return text.splitlines()
    try:
        content = json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    if isinstance(content, list):
        return content
    lists = [value for value in content.values() if isinstance(value, list) and value]
    if inner := [value for value in lists if isinstance(value[0], dict)]:
        return inner[0]
    return list(content.values()) if all_texts(content) else [content]


def all_texts(content: dict[str, Any]) -> bool:
    return all(isinstance(value, str) for value in content.values())


def is_schema(record: Any) -> bool:
    """Return whether a record describes a database, which is no entry of a set."""
    return isinstance(record, dict) and "table_names" in record


def asking(field: str) -> Rule:
    """The rule of records that can be played as they are and ask by this field."""
    return lambda record: Entry(record, record[field])


def line(record: str) -> Entry:
    return Entry(record, record)


def completion(record: dict[str, Any]) -> Entry:
    """A function to complete, with tests; the language is a field, or stands before the id's `/`.
    An answer has neither prompt nor tests."""
    if not (record.get("prompt") and record.get("test")):
        return Entry(record, lacks=frozenset({"question"}))
    language = record.get("language") or record["task_id"].partition("/")[0]
    if language.lower() in ("python", "humaneval", "test"):
        return Entry(record, record["prompt"])
    return Entry(record, lacks=frozenset({"language"}), says=(language,))


def kaggledbqa(record: dict[str, Any]) -> Entry:
    if is_schema(record):
        return Entry(record, lacks=frozenset({"question"}))
    return Entry(record, lacks=frozenset({"databases"}), says=("databases",))


def agentbench_os(record: dict[str, Any]) -> Entry:
    """Everything that makes the world or the gold is in the record, or a file is named for it. The
    second part of a list `check` compares two answers, as Bash does here."""
    evaluation = record.get("evaluation") or {}
    check = evaluation.get("check")
    parts = [
        record.get("create"),
        record.get("start"),
        record.get("example") or evaluation.get("example"),
        None if isinstance(check, list) else check,
    ]
    if named := re.findall(r'"file": "([^"]+)"', json.dumps(parts)):
        return Entry(record, lacks=frozenset({"files"}), says=(named[0],))
    return Entry(record, record["description"])


# -- folders of tasks ------------------------------------------------------------------------------


def challenges(tasks: Path) -> Iterator[Entry]:
    for file in sorted(tasks.rglob("challenge.json")):
        given = json.loads(file.read_text("utf-8"))
        name = "-".join(file.parent.relative_to(tasks).parts)
        box, port = str(given.get("box")), str(given.get("internal_port"))
        text = given["description"].replace("{box}", box).replace("{port}", port)
        yield Entry(given, text, frozenset(_challenge_lacks(file.parent, given)), id=name)


def _challenge_lacks(folder: Path, given: dict[str, Any]) -> Iterator[str]:
    if not all((folder / name).exists() for name in given.get("files") or ()):
        yield "files"
    if any(map(_is_download, _LINK.findall(given["description"]))):
        yield "network"
    if given.get("compose"):
        texts = [file.read_text("utf-8") for file in folder.glob("*compose.y*ml")]
        services = [(yaml.safe_load(text) or {}).get("services") or {} for text in texts]
        containers = [container for named in services for container in named.values()]
        yield from _server_lacks(folder, given, containers)
    elif given.get("internal_port") or "{box}" in given["description"]:
        yield "containers"


def _is_download(link: str) -> bool:
    """Return whether a link ends in a file; others are mentions, or the challenge's own server."""
    _, _, path = link.removeprefix("https://").removeprefix("http://").partition("/")
    return Path(path).suffix not in _PAGES


def _server_lacks(
    folder: Path, given: dict[str, Any], containers: list[dict[str, Any]]
) -> Iterator[str]:
    if len(containers) != 1:
        yield "containers"
        return
    (container,) = containers
    has_dockerfile = (folder / "Dockerfile").exists()
    if not (container.get("command") or container.get("entrypoint") or has_dockerfile):
        yield "command"
    ports = container.get("ports") or container.get("expose") or given.get("internal_port")
    if not (ports or has_dockerfile):
        yield "port"
    if any("docker.sock" not in str(volume) for volume in container.get("volumes") or ()):
        yield "volumes"


def terminal_bench(tasks: Path) -> Iterator[Entry]:
    """The instruction is the text, or the key of one of the descriptions."""
    for file in sorted(tasks.rglob("task.yaml")):
        task = yaml.safe_load(file.read_text("utf-8"))
        texts = {part["key"]: part["description"] for part in task.get("descriptions", ())}
        text = texts.get(task["instruction"], task["instruction"])
        lacks = set() if text.strip() else {"question"}
        yield Entry(task, text, frozenset(lacks), id=file.parent.name)


def harbor(tasks: Path) -> Iterator[Entry]:
    for file in sorted(tasks.rglob("task.toml")):
        task = tomllib.loads(file.read_text("utf-8"))
        instruction, machine = file.parent / "instruction.md", task.get("environment", {})
        text = instruction.read_text("utf-8") if instruction.exists() else ""
        lacks = set() if text.strip() else {"question"}
        if machine.get("gpus") or machine.get("os", "linux") != "linux":
            lacks.add("machine")
        yield Entry(task, text, frozenset(lacks), id=file.parent.name)
