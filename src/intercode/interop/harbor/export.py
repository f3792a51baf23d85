"""Write the tasks of a data set as tasks of Harbor.

    OUT/NAME/ task.toml, instruction.md
              environment/  the world in which the task begins, for the agent to look at
              solution/     the gold
              tests/        the verifier's image: the task's data and `verdict.py`, packed
    OUT/dataset.toml, card.json

The agent hands in one file (for each round): commands, a statement, code or a flag. The verifier
gets nothing else. It executes the file in a fresh world and scores it as `env.step` does, on
variant data too, because it runs the same environment. A task is written if its gold earns 1 that
way and an empty file earns 0.

Left out, with the reason in card.json: tasks that ask a user or look up documents, those with
services or an image of their own, those without a gold, and databases of MariaDB.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import intercode
from intercode.doors import PARTS
from intercode.envs import environment_class
from intercode.envs.ctf.world import FOLDER, last_line
from intercode.envs.sql.databases import database
from intercode.envs.sql.engines.sqlite import SqliteEngine
from intercode.envs.verify import read_verifier
from intercode.errors import DataError, UsageError
from intercode.factory import OF_WORLD
from intercode.interop.export import new_folder
from intercode.interop.harbor import verdict
from intercode.interop.harbor.verdict import APP
from intercode.reading import files_below, present
from intercode.tasks import DataSet
from intercode.types import Task
from intercode.user import FIELDS as ASKING
from intercode.user import ROUND_FIELDS
from intercode_sandbox.base import Limits
from intercode_sandbox.copying import LARGEST
from intercode_sandbox.image import DEFAULT_PACKAGES, EPOCH
from intercode_sandbox.pod import PodProvider
from intercode_sandbox.template import PYTHON_CACHE

IMAGE = "debian:12-slim"
_ORG = "intercode"
_PACKAGES = ("python3", "sqlite3", *DEFAULT_PACKAGES)
_SETUP = "COPY {} /tmp/setup\nRUN chmod +x /tmp/setup && bash -c /tmp/setup && rm /tmp/setup\n"
_BUILD = {
    "tree.tar": "ADD {} /\n",
    "setup.sh": _SETUP,
    "task.sh": _SETUP,
    "assets": f'ADD [{{}}, "{FOLDER}/"]\n',
    "databases": f'COPY [{{}}, "{APP}/"]\n',
}
"""The lines of a Dockerfile for the files of a world, by the first part of their path."""
_STAND_IN = {
    "gymnasium/__init__.py": """
class Env:
    def __class_getitem__(cls, types): return cls
    def reset(self, *, seed=None, options=None): pass
    def close(self): pass
def register(**entry): pass
""",
    "gymnasium/spaces.py": """
class Text:
    def __init__(self, max_length, **options): self.max_length = max_length
""",
    "gymnasium/vector/__init__.py": "",
    "gymnasium/vector/utils.py": """
from functools import singledispatch
create_shared_memory = singledispatch(print)
""",
}
"""A stand-in for Gymnasium in the verifier, with the names that the environments import."""
_PACK = (f"tar --sort=name --mtime=@{EPOCH} --owner=0 --group=0 --numeric-owner -cf - .").split()
"""Packs a folder: equal files give equal bytes, whenever they were written."""
_SHOWN = """
setup cwd assets action_seconds memory processes disk files_count db db_id evidence
preprocess_sql unclarified rounds rounds_rule rounds_reward go_on changes
"""
"""The fields of a task's world and conversation that an exported task obeys. Fields that only judge
need not be shown: the verifier reads them."""
_TEST = """#!/bin/bash
python3 -m zipfile -e /tests/verdict.zip /var/tmp/verdict && exec python3 /var/tmp/verdict
"""
_SETTINGS = """schema_version = "1.4"
artifacts = {artifacts}
multi_step_reward_strategy = "final"
[task]
name = "{name}"
[verifier]
environment_mode = "separate"
network_mode = "no-network"
[environment]
network_mode = "no-network"
"""
_STEP = """[[steps]]
name = "round-{number}"
[steps.verifier]
env = {{ {variable} = "{number}" }}
"""
_ONCE = (
    "When you have finished, the file is executed once, in a fresh copy of this machine's files, "
    "without a network and for at most {seconds:g} seconds"
)
_BEFORE = "This was asked before, and the files handed in for it are executed first:"
_ON_OTHERS = " It is executed on other data too, so it must compute its answer."


@dataclass(frozen=True, slots=True)
class Form:
    """The file that an agent hands in. `asks` is what its instruction says of {path}; `packages`
    are modules that the verifier imports."""

    suffix: str
    asks: str
    packages: tuple[str, ...] = ()


FORMS = {
    "bash": Form(
        ".sh",
        "Write Bash commands that do this to {path}. If the task asks for an answer, they print "
        f"it. {_ONCE} and without /proc, so `<(…)` does not work there.",
    ),
    "sql": Form(
        ".sql",
        "Write the SQL statement for SQLite that does this to {path}. The rows of the last "
        f"statement are the answer. The database is a file in /app. {_ONCE}.",
        ("sqlglot",),
    ),
    "python": Form(".py", f"Write Python code that does this to {{path}}. {_ONCE}."),
    "ctf": Form(".txt", "Write the flag to {path}. The task's files are in /ctf."),
}


def export_tasks(
    source: str | Path,
    out: str | Path | None,
    *,
    env: str | None = None,
    image: str | None = None,
    **chosen: Any,
) -> tuple[int, dict[str, str]]:
    """Write the tasks of `source`, a data set of the environment `env` or the name of a starter
    set, to the new folder `out`. Return how many there are, and by id why others are left out.
    `chosen` are the options `split` and `limit`.

    `image` names the base of the images. It has Python 3.11 or later, and the programs that answers
    use; by default it is Debian 12 with packages for shell tasks. Raises `UsageError` if there is
    nothing to export.
    """
    is_starter = source in FORMS and env in (None, source) and not present(source)
    name = str(source)
    if not is_starter:
        name, chosen["data"] = env or "", name
    if name not in FORMS:
        starter = f"{source} is not the name of starter tasks ({', '.join(FORMS)})"
        raise UsageError(f"{starter}; for your own data, add --env ENV")
    env_class = environment_class(name)
    options = env_class.Options.of({**chosen, "max_turns": None}, name)
    data, factory = env_class.read_data(options), env_class.prepare(options)
    names = dict[str, str]()
    left_out = dict[str, str]()
    tasks = f'[dataset]\nname = "{_ORG}/{_slug(data.name)}"\n'
    for task, issue in factory.left_out:
        left_out[task.id] = str(issue)
    with new_folder(out, "tasks") as folder, factory() as player:
        writer = Writer(player, data, options, name, _head(image), _packed(FORMS[name]))
        for task in factory.tasks:
            slug = _slug(task.id)
            try:
                writer.write(task, folder / slug, slug)
            except DataError as error:
                left_out[task.id] = str(error)
                continue
            names[task.id] = slug
            digest = _digest(folder / slug)
            tasks += f'\n[[tasks]]\nname = "{_ORG}/{slug}"\ndigest = "sha256:{digest}"\n'
        if not names:
            raise UsageError(f"{source} has no task to export: {'; '.join(left_out.values())}")
        _write(folder / "dataset.toml", tasks)
        card = {
            "intercode": intercode.__version__,
            "env": name,
            "data": data.name,
            "digest": data.digest,
            "image": image,
            "tasks": names,
            "left_out": left_out,
        }
        _write(folder / "card.json", json.dumps(card, indent=2) + "\n")
    return len(names), left_out


@dataclass(frozen=True)
class Writer:
    """Writes tasks. `player` plays them, `head` begins each Dockerfile, `program` is that of the
    verifier."""

    player: Any
    data: DataSet
    options: Any
    env: str
    head: str
    program: bytes

    def write(self, task: Task, folder: Path, slug: str) -> None:
        """Write a task to a new folder. Raises `DataError` for one that cannot be exported."""
        form, rounds = FORMS[self.env], (task, *task.rounds)
        paths = [f"{APP}/answer{form.suffix}"]
        if task.rounds:
            paths = [f"{APP}/answer-{n}{form.suffix}" for n in range(1, len(rounds) + 1)]
        golds = self._require_sound(task, rounds)
        query, _ = self.player.reset(options={"task": task.id})
        if "verify" in task.extra:  # without the note on how to submit
            query = task.query
        tests = folder / "tests"
        files = self._files(task)
        self._write_world(task, folder / "environment", files)
        self._write_data(task, tests / "data", files)
        is_outcome = self.player.language.is_shell and "verify" not in task.extra
        runs = is_outcome and not self.player.run_gold(task).faults
        about = {"env": self.env, "task": task.id, "answers": paths, "runs": runs}
        _write(tests / "task.json", json.dumps(about))
        _write(tests / "verdict.zip", self.program)
        _write(tests / "test.sh", _TEST, mode=0o755)
        _write(tests / "Dockerfile", f"{self.head}COPY . /tests/\n")
        seconds = getattr(self.options, "seconds", Limits().changed_by(task.extra).seconds)
        settings = _SETTINGS.format(artifacts=json.dumps(paths), name=f"{_ORG}/{slug}")
        before = _BEFORE
        for number, posed in enumerate(rounds):
            place, path = folder, paths[number]
            if task.rounds:
                place = folder / "steps" / f"round-{number + 1}"
                settings += _STEP.format(number=number + 1, variable=verdict.ROUND)
            asked = query
            if number:
                asked = f"{posed.query}\n\n{before}"
            before += f"\n\n{posed.query}"
            asks = form.asks.format(path=path, seconds=seconds)
            if posed.general:
                asks += _ON_OTHERS
            _write(place / "instruction.md", f"{asked}\n\n{asks}\n")
            name = f"answer{form.suffix}"
            _write(place / "solution" / name, f"{golds[number]}\n")
            solve = f'#!/bin/bash\ncp "$(dirname "$0")/{name}" {path}\n'
            _write(place / "solution" / "solve.sh", solve, mode=0o755)
        _write(folder / "task.toml", settings)

    def _require_sound(self, task: Task, rounds: Sequence[Task]) -> list[str]:
        """Return the right answers. Raises `DataError` unless the verifier can judge the task,
        they earn 1, and empty ones 0."""
        of_world = {*OF_WORLD.split(), "verify_image"}.intersection(self.player.fields)
        for name in sorted(of_world.union(ASKING).difference(_SHOWN.split())):
            if any(posed.extra.get(name) for posed in rounds):
                raise DataError(f"has the field {name!r}, which tasks of Harbor cannot obey")
        golds = []
        for posed in rounds:
            golds.append(posed.gold)
            if not posed.gold:
                raise DataError("has no gold")
            if self.player.language.is_shell and (reason := PodProvider().refuses(posed.gold)):
                raise DataError(f"{reason}; the verifier is a pod")
        if task.extra.get("gold_is") == "script":
            self.player.reset(options={"task": task.id})
            golds = [last_line(self.player.execute(task.gold).output)]
        nothing = [""] * len(rounds)
        for answers, reward, who in ((golds, 1.0, "its gold"), (nothing, 0.0, "doing nothing")):
            earned = verdict.earned(self.player, task.id, answers)
            if earned != reward:
                raise DataError(f"{who} earns {earned:g} when it is handed in as a file")
        return golds

    def _files(self, task: Task) -> dict[str, bytes]:
        """Return what the task's world is made of, by path in a data folder, and in `task.sh` the
        task's own setup."""
        data, world, files = self.data, self.player.world, dict[str, bytes]()
        places = {
            "tree.tar": data.tree,
            "setup.sh": data.setup,
            "second.tar": data.second_tree,
            "second.sh": data.second_setup,
        }
        for name, place in places.items():
            if place and place.is_dir():
                packing = subprocess.run(_PACK, cwd=place, check=True, stdout=subprocess.PIPE)
                files[name] = packing.stdout
            elif place:
                files[name] = place.read_bytes()
        if hasattr(world, "challenges") and (assets := world.challenges[task.id].packed):
            files[f"assets/{task.id}.tar"] = assets
        return {**files, **self._database(task, "original")}

    def _database(self, task: Task, state: str) -> dict[str, bytes]:
        """Return the content of a task's database, `original` or as an `episode` begins, by its
        path; nothing if there are no databases."""
        engine = getattr(self.player.world, "engine", None)
        if engine is None:
            return {}
        if not isinstance(engine, SqliteEngine):
            raise DataError(f"has a database of {engine.name}; the verifier has SQLite alone")
        name = f"{database(task, engine)}.{engine.name}"
        content = engine.sandbox.read(f"{engine.folder()}/{state}/{name}", limit=LARGEST)
        return {f"databases/{name}": content}

    def _write_world(self, task: Task, folder: Path, files: Mapping[str, bytes]) -> None:
        """Write the image that the agent explores."""
        player, lines, cwd = self.player, self.head, APP
        files = {**files, **self._database(task, "episode")}
        if hasattr(player.world, "spec_of") and "setup" in task.extra:
            files["task.sh"] = task.extra["setup"].encode()
        for name, content in files.items():
            if line := _BUILD.get(name.partition("/")[0]):
                _write(folder / name, content)
                lines += line.format(json.dumps(name))
        if player.language.shell:
            cwd = player.execute(player.language.in_shell("pwd")).output.strip()
        _write(folder / "Dockerfile", f"{lines}WORKDIR {cwd}\n")

    def _write_data(self, task: Task, folder: Path, files: Mapping[str, bytes]) -> None:
        """Write the data set of one task. Tasks on the same database stay with it, since variant
        data keep the values that their golds name."""
        for name, content in files.items():
            _write(folder / name, content)
        tasks = [task]
        if hasattr(self.player.world, "engine"):
            tasks = [other for other in self.data.tasks if _base(other) == _base(task)]
        records = (json.dumps(self._record(other, folder), default=str) for other in tasks)
        _write(folder / "tasks.jsonl", "\n".join(records) + "\n")

    def _record(self, task: Task, folder: Path) -> dict[str, Any]:
        """Return the record of a task, and write its tests."""
        player, first, rounds = self.player, dict[str, Any](), []
        names = {*ROUND_FIELDS, *player.fields, *player.decided_by}.difference(OF_WORLD.split())
        for number, posed in enumerate((task, *task.rounds), start=1):
            record = {**posed.extra, "query": posed.query, "gold": posed.gold, "golds": posed.golds}
            if verifier := read_verifier(posed, self.data.folder):
                record["verify"] = f"verify/{number}"
                record.pop("verify_files", None)
                for name, (content, mode) in verifier.files.items():
                    _write(folder / record["verify"] / name, content, mode=mode)
            first = first or record
            rounds.append({name: record.get(name) for name in sorted(names)})
        if task.rounds:
            first = {**first, "rounds": rounds}
        return {"id": task.id, **first}


def _head(image: str | None) -> str:
    """Return the first lines of a Dockerfile."""
    head = f"FROM {image}\n"
    if not image:
        install = f"apt-get install -y --no-install-recommends {' '.join(_PACKAGES)}"
        head = f"FROM {IMAGE}\nRUN apt-get update && {install} && rm -rf /var/lib/apt/lists/*\n"
    return f"{head}RUN mkdir -p {APP}\n"


def _packed(form: Form) -> bytes:
    """Return the verifier's program: the environments with all that they import, but no wing."""
    left_out = {"cli", "starter", PYTHON_CACHE}
    for path in PARTS.values():
        left_out.add(path.split(".")[1])
    files = dict[str, str | bytes](_STAND_IN)
    files["__main__.py"] = Path(verdict.__file__).read_bytes()
    for package in ("intercode", "intercode_sandbox", *form.packages):
        folder = Path(import_module(package).__path__[0])
        for file in sorted(folder.rglob("*")):
            name = file.relative_to(folder.parent)
            if file.is_file() and left_out.isdisjoint(name.parts):
                files[str(name)] = file.read_bytes()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        for path, content in files.items():
            packed.writestr(zipfile.ZipInfo(path), content, zipfile.ZIP_DEFLATED)
    return archive.getvalue()


def _base(task: Task) -> object:
    return task.extra.get("db", task.extra.get("db_id"))


def _slug(text: str) -> str:
    """Return a name for Harbor, of lower-case letters, digits and hyphens. Different texts have
    different names."""
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60]
    if slug != text:
        slug = f"{slug or 'task'}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return slug


def _write(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        content = content.encode()
    path.write_bytes(content)
    path.chmod(mode)


def _digest(folder: Path) -> str:
    """Return the digest of a task's files that Harbor calls its content hash."""
    digest = hashlib.sha256()
    for file in sorted(map(str, files_below(folder))):
        content = hashlib.sha256(Path(file).read_bytes()).hexdigest()
        name = file.removeprefix(f"{folder}/")
        digest.update(f"{name}\0{content}\n".encode())
    return digest.hexdigest()
