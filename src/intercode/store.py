"""The run folder: what was set, and one line per episode that came to an end.

    RUN/run.json          written before the first episode, by rename; again only where a run goes on with mended code
    RUN/episodes.jsonl    appended: one write and one fsync per line (0.2 ms on an ordinary disk)
    RUN/underway/         what a model answered in episodes that are not there yet (`runner/reply_cache.py`)
    flock on RUN          held while a process runs in it

A process may be killed at any moment: every whole line survives, and a torn last line is cut off when the folder is
next opened, so that its episode is run again. Episodes without a reward (a fault, a budget that ran out) do not count
as finished; when they are run again the reader takes the last line of a task and epoch.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from types import NoneType
from typing import Any, Self

from intercode.errors import StoreError, UsageError
from intercode.plugins import safe_repr
from intercode.types import Episode, ToolCall, Turn, Usage, is_number

SCHEMA = 1
FREE = frozenset({"workers", "out", "run", "created", "git_commit", "versions", "mended"}) | {
    "price", "reply_seconds", "max_cost", "max_tokens", "max_seconds", "data_from", "options"
}  # fmt: skip
"""Settings that do not decide what an episode's result is: a resumed run may differ in them."""

SOURCES = frozenset(f"{part}_source" for part in ("agent", "env", "model", "reward"))
"""Digests of code and files of the caller's. A run goes on with others only if the caller says that they are mended."""

_NUMBER, _TEXT, _COUNT = (int, float), (str, NoneType), (int, NoneType)
_MAP = (dict, NoneType)
_SETTINGS = {
    "hardness": _MAP,
    "data_set": _MAP,
    "excluded": dict,
    "options": dict,
    "mended": list,
    "limit": _COUNT,
    "turns": _COUNT,
} | dict.fromkeys(("model", "data_from", "tree", "setup", "image", "assets", "databases", "dump", "engine"), _TEXT)
"""Settings that reports and a second scoring need to be of their kind, as far as they are there."""
_EPISODE = {
    "task": str, "query": str, "turns": list, "reward": (*_NUMBER, NoneType), "success": bool, "ended": _TEXT, "parts": dict,
    "epoch": int, "seed": int, "error": _TEXT, "unsure": bool, "lost": dict,
}  # fmt: skip
_TURN = {
    "ask": (list, NoneType), "reply": _TEXT, "thought": _TEXT, "action": _TEXT, "observation": str, "exit_code": _COUNT,
    "timed_out": bool, "truncated_output": bool, "score": (*_NUMBER, NoneType), "usage": dict, "seconds": _NUMBER,
    "calls": (list, tuple, NoneType), "after": _COUNT, "left_out": _COUNT,
}  # fmt: skip
USAGE = {"prompt_tokens": int, "completion_tokens": int, "cost": _NUMBER}
CALL = {"id": str, "name": str, "arguments": str}

Config = Mapping[str, Any]
Key = tuple[str, int]


class RunStore:
    """One open run folder. Only one process, and in it one thread at a time, may append."""

    def __init__(self, path: Path, file: int, held: contextlib.ExitStack, *, begins: bool) -> None:
        self.path = path
        self.begins = begins
        """Whether the folder held no run yet."""
        self._file = file
        self._held = held
        self._episodes = {_key(episode): episode for episode in _read_episodes(path)}

    @classmethod
    def create(cls, path: str | Path, config: Config, *, resume: bool = False, mended: bool = False) -> RunStore:
        """Open `path` for a run with `config`: a new or empty folder, or with `resume` one that holds the same run.

        `mended`: it is the same although `SOURCES` differ, since what is finished holds with the new ones as well.
        Raises `UsageError` if the folder holds other things, a run without `resume`, or a run whose settings differ in
        what decides results, or if a setting that reports need is not of its kind; `StoreError` if another process runs
        in it or it cannot be written.
        """
        path = Path(path)
        with storage_faults(path), contextlib.ExitStack() as held:
            path.mkdir(parents=True, exist_ok=True)
            folder = _opened(held, path, os.O_RDONLY | os.O_DIRECTORY)
            _lock(path, folder)
            begins = _settle(path, json.loads(json.dumps(dict(config))), resume, SOURCES if mended else frozenset())
            file = _opened(held, path / "episodes.jsonl", os.O_RDWR | os.O_CREAT | os.O_APPEND)
            cut_torn_line(file)
            os.fsync(folder)
            return cls(path, file, held.pop_all(), begins=begins)

    def finished(self) -> set[Key]:
        """The (task, epoch) pairs that need not be run again."""
        return {key for key, episode in self._episodes.items() if episode.reward is not None}

    def episodes(self) -> list[Episode]:
        """The last record of every task and epoch, in the order in which they first came."""
        return list(self._episodes.values())

    def append(self, episode: Episode) -> None:
        """Write `episode` durably. Raises `StoreError` if it is finished already or the disk does not take it.

        Raises `UsageError` for what could not be read again, which agents, rewards and the like of the caller's may give.
        """
        known = self._episodes.get(_key(episode))
        if known is not None and known.reward is not None:
            raise StoreError(f"{self.path}: task {episode.task}, epoch {episode.epoch} is recorded already")
        line = _line(episode)
        with storage_faults(self.path):
            append_line(self._file, line)
        self._episodes[_key(episode)] = episode

    def close(self) -> None:
        """Release the folder. May be called twice."""
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


@contextlib.contextmanager
def alone_in(path: Path) -> Iterator[None]:
    """Nobody else plays or judges the run in the meantime. Raises `StoreError` if another process does."""
    with contextlib.ExitStack() as held:
        with storage_faults(path):
            _lock(path, _opened(held, path, os.O_RDONLY | os.O_DIRECTORY))
        yield


def read_run(path: str | Path) -> tuple[dict[str, Any], list[Episode]]:
    """The settings of a run, with its path as `run`, and the last record of every task and epoch.

    Works while the run goes on: a last line that is still being written is left out. Raises `UsageError` if there is no
    run, `StoreError` naming the line for anything that this program did not write.
    """
    config, episodes = stream_run(path, once=True)
    return config, list({_key(episode): episode for episode in episodes}.values())


def stream_run(path: str | Path, *, once: bool = False) -> tuple[dict[str, Any], Iterator[Episode]]:
    """As `read_run`, but the episodes come one at a time, for runs that are larger than memory; the file is read twice.

    Read once, records that others replace later come as well.
    """
    path = Path(path)
    with storage_faults(path):
        if not (path / "run.json").is_file():
            raise UsageError(f"{path} holds no run; give the folder that `eval --out` made")
        config = {**_read_config(path), "run": str(path)}
    if once:
        return config, _read_episodes(path)
    last = {_key(episode): number for number, episode in enumerate(_read_episodes(path))}
    return config, (episode for number, episode in enumerate(_read_episodes(path)) if last.get(_key(episode)) == number)


def to_json(episode: Episode) -> dict[str, Any]:
    """One line of episodes.jsonl, as plain data."""
    turns = [{**asdict(turn), "ask": None if turn.ask is None else list(turn.ask)} for turn in episode.turns]
    for turn in turns:
        for rare in ("calls", "after", "left_out"):  # only where tools were called, the episode forked, or there was no room
            if turn[rare] is None:
                del turn[rare]
    return {
        "schema": SCHEMA, "task": episode.task, "epoch": episode.epoch, "seed": episode.seed, "query": episode.query,
        "turns": turns, "reward": episode.reward, "success": episode.success, "parts": dict(episode.parts),
        "ended": episode.ended, "error": episode.error, **({"unsure": True} if episode.unsure else {}),
        **({"lost": asdict(episode.lost)} if episode.lost != Usage() else {}),
    }  # fmt: skip


def _line(episode: Episode) -> bytes:
    record = to_json(episode)
    try:
        from_json(record)
        return json.dumps(record, allow_nan=False).encode() + b"\n"
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise UsageError(f"the episode of task {episode.task} cannot be recorded: {error}") from error


def from_json(record: Mapping[str, Any]) -> Episode:
    """The opposite of `to_json`. Raises KeyError, TypeError or ValueError for anything else."""
    fields = dict(record)
    if (schema := fields.pop("schema")) != SCHEMA:
        raise ValueError(f"schema {schema!r}, but this version reads {SCHEMA}")
    require(fields, _EPISODE)
    require(fields["parts"], dict.fromkeys(fields["parts"], _NUMBER))
    require(fields.get("lost", {}), USAGE)
    turns, lost = tuple(map(_turn, fields.pop("turns"))), Usage(**fields.pop("lost", {}))
    for reward in (fields["reward"], *(turn.score for turn in turns)):
        if reward is not None and not -1 <= reward <= 1:
            raise ValueError(f"no reward is {reward:g}: they lie between -1 and 1")
    for place, turn in enumerate(turns):
        if turn.after is not None and turn.after != -1 and not (0 <= turn.after < place and turns[turn.after].acted):
            raise ValueError(f"turn {place} cannot come after turn {turn.after}")
    return Episode(turns=turns, lost=lost, **fields)


def require(record: Mapping[str, Any], kinds: Mapping[str, Any]) -> None:
    """Raises KeyError or TypeError for a field that is not known, or not of its kind, or a number beyond 64 bits."""
    for name, value in record.items():
        if not isinstance(value, kinds[name]) or (isinstance(value, int | float) and not is_number(value)):
            raise TypeError(f"`{name}` cannot be {safe_repr(repr, value):.50}")


def _turn(record: Mapping[str, Any]) -> Turn:
    require(record, _TURN)
    require(record["usage"], USAGE)
    ask, calls = record["ask"], record.get("calls")
    if not all(isinstance(message["role"], str) for message in ask or ()):
        raise TypeError("each message of `ask` has a role")
    for call in calls or ():
        require(call, CALL)
    read = {"ask": None if ask is None else tuple(ask), "usage": Usage(**record["usage"])}
    return Turn(**{**record, **read, "calls": None if calls is None else tuple(ToolCall(**call) for call in calls)})


def _key(episode: Episode) -> Key:
    return episode.task, episode.epoch


def _settle(path: Path, config: dict[str, Any], resume: bool, mended: frozenset[str]) -> bool:
    """Make `path` the folder of a run with `config` (then true), or make sure that it is."""
    names = {entry.name for entry in path.iterdir()} - {"run.json.new"}
    if not names:
        try:
            _require_settings(config)
        except TypeError as error:
            raise UsageError(f"the settings of the run cannot be kept: {error}") from error
        _write_config(path, config)
    elif "run.json" not in names:
        raise UsageError(f"{path} is not empty and holds no run; choose another folder with --out")
    elif not resume:
        raise UsageError(f"{path} holds a run; go on with it by --resume {path}, or choose another folder with --out")
    elif differing := _differing(old := _read_config(path), config, FREE | mended):
        hint = ", or add --allow-code-change if what is finished holds all the same" if differing.keys() <= SOURCES else ""
        shown = ", ".join(differing.values())
        raise UsageError(f"{path} holds a run with other settings ({shown}); start a new one with --out{hint}")
    elif _differing(old, config, FREE):
        then, now = ({key: settings[key] for key in SOURCES & settings.keys()} for settings in (old, config))
        rest = {key: value for key, value in old.items() if key not in SOURCES}
        _write_config(path, {**rest, **now, "mended": [*old.get("mended", ()), then]})
    return not names


def _differing(old: Config, new: Config, free: frozenset[str]) -> dict[str, str]:
    """What differs and decides results, each as `key: old → new`."""
    keys = sorted(key for key in (old.keys() | new.keys()) - free if old.get(key) != new.get(key))
    return {key: f"{key}: {old.get(key)!r:.50} → {new.get(key)!r:.50}" for key in keys}


def _write_config(path: Path, config: Config) -> None:
    write_whole(path / "run.json", json.dumps(config, indent=2, sort_keys=True) + "\n")


def write_whole(path: Path, text: str, *, mine: str = "") -> None:
    """All of `text`, or what was there before: written beside, forced to disk, renamed.

    `mine` goes into the name of what lies beside, where several processes may write at once.
    """
    draft = path.with_name(f"{path.name}{mine}.new")
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads((path / "run.json").read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path / 'run.json'} is damaged: {error}") from error
    if not isinstance(config, dict):
        raise StoreError(f"{path / 'run.json'} is damaged: not an object")
    try:
        _require_settings(config)
    except TypeError as error:
        raise StoreError(f"{path / 'run.json'} is damaged: {error}") from error
    return config


def _require_settings(config: Config) -> None:
    """Raises TypeError for one of `_SETTINGS` that is not of its kind; labels of tasks are texts."""
    require({name: config[name] for name in _SETTINGS if name in config}, _SETTINGS)
    for name in ("hardness", "data_set"):
        labels = config.get(name) or {}
        require({f"{name}.{task}": label for task, label in labels.items()}, {f"{name}.{task}": str for task in labels})


def _read_episodes(path: Path) -> Iterator[Episode]:
    file = path / "episodes.jsonl"
    with storage_faults(path), contextlib.suppress(FileNotFoundError), file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.endswith(b"\n"):
                try:
                    episode = from_json(json.loads(line))
                except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
                    raise StoreError(f"{file}, line {number} is not an episode: {error!r}; mend or delete that line") from error
                yield episode


def append_line(file: int, line: bytes) -> None:
    """Write all of `line` at the end and force it to disk, or leave the file as it was."""
    end = os.fstat(file).st_size
    try:
        if os.write(file, line) != len(line):
            raise OSError("the disk is full")
        os.fsync(file)
    except OSError:
        os.ftruncate(file, end)
        raise


def cut_torn_line(file: int) -> None:
    """Drop what follows the last line end: a write that a kill interrupted."""
    end = size = os.fstat(file).st_size
    while end > 0:
        start = max(0, end - 65536)
        at = os.pread(file, end - start, start).rfind(b"\n")
        if at >= 0:
            end = start + at + 1
            break
        end = start
    if end < size:
        os.ftruncate(file, end)


def _opened(held: contextlib.ExitStack, path: Path, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
    held.callback(os.close, descriptor)
    return descriptor


def _lock(path: Path, folder: int) -> None:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise StoreError(f"{path} is in use by another process; wait for it or choose another folder") from error


@contextlib.contextmanager
def storage_faults(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = "it is a file" if isinstance(error, FileExistsError) and path.is_file() else error
        raise StoreError(f"{path} cannot be used as a run folder: {why}") from error
