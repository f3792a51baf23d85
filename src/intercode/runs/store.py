"""The run folder: the settings of a run, and one line per episode that ended. docs/run-folder.md
lists all fields.

    RUN/run.json          written before the first episode, by rename; again if a run continues with
                          changed code
    RUN/episodes.jsonl    appended: one write and one fsync per line (0.2 ms on an ordinary disk)
    RUN/underway/         replies of the model in episodes that are not in episodes.jsonl yet
                          (`runner/reply_cache.py`)
    flock on RUN          held while a process plays the run

The folder may be a stranger's: its files are never opened through links, and must be plain files
(`open_inside`). A process may be killed at any moment: complete lines survive, and opening the
folder again removes an incomplete last line, so that its episode is played again. Episodes without
a reward (a fault, a used-up budget) are not finished; after they are played again, readers take the
last line of a task and epoch.

Questions to the model grow with each turn, so a turn stores only the messages that are new:

    question 1   system, user                                  ask: [system, user]
    reply 1      assistant
    question 2   system, user, assistant, user                 ask: [user],  ask_kept: 3   (of
                                                               question 1 and its reply)
    question 3   system, user, assistant, other user           ask: [other user],  ask_kept: 3

The tokens of a question are stored in the same way: `prompt_ids` follow the first `prompt_kept` of
the last tokens.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import mmap
import os
import shutil
import stat
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, BinaryIO, Literal, get_args, get_origin, get_type_hints

from intercode.errors import StoreError, UsageError
from intercode.options import RunOptions
from intercode.plugins import safe_repr
from intercode.reading import present, read_entries
from intercode.runs.signing import is_signed, with_signature, without_signature
from intercode.types import Episode, Message, Sample, ToolCall, Turn, Usage, is_number

SCHEMA = 2
"""Schema 1, which is still read, stored each question whole and called `ambiguous` `unsure`."""
LARGEST_OUTCOMES = 1 << 16
"""Characters of an episode's `outcomes` as JSON."""
LARGEST = 1 << 28
"""Bytes of a line of episodes.jsonl, and of run.json: a longer one is never read, since a sparse
file may be endless."""
FREE = frozenset(
    [
        "out",
        "run",
        "created",
        "git_commit",
        "versions",
        "mended",
        "data_from",
        "options",
        "planned",
        "limits",
        "signature",
        "task_rounds",
    ]
) | {name for name, _, option in RunOptions.declared() if not option.fixed}
"""Settings that do not influence the result of an episode: a resumed run may change them."""

SOURCES = frozenset(
    [
        "prompt",
        "agent_source",
        "env_source",
        "model_source",
        "reward_source",
        "preprocess_source",
        "sandbox_source",
        "engine_source",
        "user_source",
    ]
)
"""Digests of prompts, and of the caller's own code and files. A run continues with different ones
only with `--allow-code-change`."""

_NUMBER, _TEXT, _INTEGER = (int, float), (str, NoneType), (int, NoneType)
_MAP = (dict, NoneType)
LABELS = ("hardness", "data_set", "distance", "task_rounds")
"""Settings that have a text for each task, for reports."""
_SETTINGS = (
    dict.fromkeys(LABELS, _MAP)
    | {
        "excluded": dict,
        "options": dict,
        "mended": list,
        "limit": _INTEGER,
        "turns": _INTEGER,
    }
    | dict.fromkeys(
        ("model", "data_from", "tree", "setup", "image", "assets", "databases", "dump", "engine"),
        _TEXT,
    )
)
"""Types of the settings that reports and rescoring read; each setting may be absent."""


def _json_kind(hint: Any) -> Any:
    """Return the types that a value of this hint has when it is read from JSON."""
    if NoneType in get_args(hint):
        return tuple(map(_json_kind, get_args(hint)))
    kind = get_origin(hint) or hint
    if kind is Literal:
        return str
    if kind is float:
        return _NUMBER
    if is_dataclass(kind) or issubclass(kind, Mapping):
        return dict
    return list if issubclass(kind, Sequence) and kind is not str else kind


def json_kinds(record: type) -> dict[str, Any]:
    """Return, for each field of a dataclass, the types that `require` accepts."""
    return {name: _json_kind(hint) for name, hint in get_type_hints(record).items()}


_EPISODE = {**json_kinds(Episode), "split": str, "takes_answer": bool}
_TURN = {**json_kinds(Turn), "limits": (list, NoneType), "ask_kept": int}
_USAGE, _CALL = json_kinds(Usage), json_kinds(ToolCall)
_SAMPLE = {**json_kinds(Sample), "prompt_kept": int}
_RARE = {
    "calls",
    "after",
    "left_out",
    "ask_kept",
    "sample",
    "limits",
    "reasoning",
    "finish_reason",
    "reply_seconds",
    "forced",
    "session_lost",
    "value",
    "asked",
    "tools",
}

Config = Mapping[str, Any]
Key = tuple[str, int]


class Episodes(Sequence[Episode]):
    """The episodes of a run folder, read from its file whenever they are asked for, since a run may
    be larger than memory. `starts` are the places of their lines in bytes."""

    def __init__(self, path: Path, starts: Iterable[int]) -> None:
        self._path, self._starts = path, array("Q", starts)

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, at: Any) -> Any:
        """Return an episode, or the `Episodes` of a slice."""
        if isinstance(at, slice):
            return Episodes(self._path, self._starts[at])
        return next(iter(self.at([at])))

    def __iter__(self) -> Iterator[Episode]:
        if not self._starts:
            return
        with (
            storage_faults(self._path),
            open(open_inside(self._path, "episodes.jsonl"), "rb") as file,
        ):
            for start in self._starts:
                file.seek(start)
                yield _episode_of(file.readline(), self._path, f"the line at byte {start}")

    def at(self, places: Iterable[int]) -> Episodes:
        """Return the episodes at some places."""
        return Episodes(self._path, map(self._starts.__getitem__, places))


class RunStore(contextlib.AbstractContextManager["RunStore"]):
    """An open run folder. Only one process may have it open, and only one thread at a time may
    append."""

    def __init__(self, path: Path, file: int, held: contextlib.ExitStack, *, begins: bool) -> None:
        self.path = path
        self.begins = begins
        """True if the folder held no run before."""
        self._file = file
        self._held = held
        self._starts: dict[Key, int] = {}
        self._finished: set[Key] = set()
        for start, episode in _read_episodes(path):
            self._note(episode, start)

    @classmethod
    def create(
        cls,
        path: str | Path,
        config: Config,
        *,
        resume: bool = False,
        allow_code_change: bool = False,
        sign: bool = True,
    ) -> RunStore:
        """Open `path` for a run with `config`: a new or empty folder, or with `resume` the folder
        of the same run.

        `allow_code_change` also continues a run whose `SOURCES` differ; the caller vouches that
        finished episodes stay valid. `sign`: a new run is signed; false for settings that come from
        a run which the user has not signed. Raises `UsageError` if the folder holds other files, a
        run (without `resume`), or a run with other settings, or if a setting that reports read has
        a wrong type; `StoreError` if another process uses the folder or the folder cannot be
        written.
        """
        path = Path(path)
        with storage_faults(path), contextlib.ExitStack() as held:
            path.mkdir(parents=True, exist_ok=True)
            folder = _locked(held, path)
            begins = _write_or_check(
                path, json.loads(json.dumps(dict(config))), resume, allow_code_change, sign
            )
            file = open_inside(path, "episodes.jsonl", flags=os.O_RDWR | os.O_CREAT | os.O_APPEND)
            held.callback(os.close, file)
            cut_torn_line(file)
            os.fsync(folder)
            return cls(path, file, held.pop_all(), begins=begins)

    def finished(self) -> set[Key]:
        """Return the (task, epoch) pairs that have a reward and are not played again."""
        return set(self._finished)

    def episodes(self) -> Episodes:
        """Return the last record of every task and epoch, in the order of their first records."""
        return Episodes(self.path, self._starts.values())

    def append(self, episode: Episode) -> None:
        """Write `episode` durably. Raises `StoreError` if the run has its reward already or the
        disk refuses the line.

        Raises `UsageError` for values that could not be read again; the caller's agents and rewards
        can make such values.
        """
        if _key(episode) in self._finished:
            raise StoreError(
                f"{self.path}: task {episode.task}, epoch {episode.epoch} is recorded already"
            )
        try:
            from_json(record := to_json(episode))
            line = json.dumps(record, allow_nan=False).encode() + b"\n"
            if len(line) > LARGEST:
                raise ValueError(f"its record has {len(line)} bytes")
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise UsageError(
                f"the episode of task {episode.task} cannot be recorded: {error}"
            ) from error
        with storage_faults(self.path):
            self._note(episode, append_line(self._file, line))

    def _note(self, episode: Episode, start: int) -> None:
        """Note the last record of a task and epoch."""
        key = _key(episode)
        self._starts[key] = start
        if episode.reward is None:
            self._finished.discard(key)
        else:
            self._finished.add(key)

    def has_work(self) -> bool:
        """Return whether an episode is finished, or a reply of an unfinished one was paid for."""
        return bool(self._finished) or any(self.path.glob("underway/*.jsonl"))

    def remove(self) -> None:
        """Remove the folder, which held no other files when the run began."""
        self.close()
        shutil.rmtree(self.path, ignore_errors=True)

    def close(self) -> None:
        """Release the folder. May be called twice."""
        self._held.close()

    def __exit__(self, *failure: object) -> None:
        self.close()


@contextlib.contextmanager
def alone_in(path: Path) -> Iterator[None]:
    """Lock the run within the block. Raises `StoreError` if another process plays or judges it."""
    with contextlib.ExitStack() as held:
        with storage_faults(path):
            _locked(held, path)
        yield


def sign_run(path: Path, config: Config) -> None:
    """Write the run's settings `config` with the user's signature, unless the folder cannot be
    written, is in use, or is not a run (but a recording in another form)."""
    if present(path / "run.json") != "file":
        return
    with contextlib.suppress(StoreError), alone_in(path), storage_faults(path):
        _write_config(path, config, sign=True)


def read_run(path: str | Path) -> tuple[dict[str, Any], list[Episode]]:
    """Return the settings of a run, with its path as `run`, and the last record of every task and
    epoch.

    Works while the run is being played: an incomplete last line is ignored. Raises `UsageError` if
    there is no run, and `StoreError` if it cannot be read. A line that is not an episode is left
    out with a warning, `EntryLeftOut`, unless all lines are such.
    """
    config, episodes = stream_run(path)
    return config, list(episodes)


def stream_run(path: str | Path) -> tuple[dict[str, Any], Episodes]:
    """Return what `read_run` returns, but without holding the episodes in memory."""
    path = Path(path)
    with storage_faults(path):
        if present(path / "run.json") != "file":
            raise UsageError(f"{path} holds no run; give the folder that `eval --out` made")
    config = {**read_config(path), "run": str(path)}

    starts = {_key(episode): start for start, episode in _read_episodes(path)}
    return config, Episodes(path, starts.values())


def to_json(episode: Episode) -> dict[str, Any]:
    """Return one line of episodes.jsonl as plain data. Rare fields are left out when empty."""
    turns, last_ids = list[dict[str, Any]](), tuple[int, ...]()
    for turn, shared in zip(episode.turns, kept_messages(episode.turns), strict=True):
        # not `asdict` of the turn, which would copy each message
        record: dict[str, Any] = {field.name: getattr(turn, field.name) for field in fields(turn)}
        record["usage"] = usage_json(turn.usage)
        if turn.ask is not None:
            record |= {"ask": list(turn.ask[shared:]), "ask_kept": shared or None}
        record["limits"] = list(turn.limits)
        for name in ("limits", "forced", "session_lost"):
            record[name] = record[name] or None
        if turn.tools is not None:
            record["tools"] = list(turn.tools)
        record["calls"] = turn.calls and [asdict(call) for call in turn.calls]
        if sample := turn.sample:
            shared_ids = shared_length(last_ids, sample.prompt_ids)
            record["sample"] = asdict(sample) | {
                "token_ids": list(sample.token_ids),
                "logprobs": list(sample.logprobs),
                "prompt_ids": list(sample.prompt_ids[shared_ids:]),
            }
            if shared_ids:
                record["sample"]["prompt_kept"] = shared_ids
            last_ids = sample.prompt_ids + sample.token_ids
        turns.append(
            {
                name: value
                for name, value in record.items()
                if value is not None or name not in _RARE
            }
        )
    rare = {
        "ambiguous": episode.ambiguous,
        "outcomes": bounded_outcomes(episode.outcomes),
        "split": episode.split,
        "lost": episode.lost != Usage() and usage_json(episode.lost),
        "no_value": episode.no_value,
        "takes_questions": episode.takes_questions,
    }
    line = {
        "schema": SCHEMA,
        "task": episode.task,
        "epoch": episode.epoch,
        "seed": episode.seed,
        "query": episode.query,
        "turns": turns,
        "reward": episode.reward,
        "success": episode.success,
        "parts": dict(episode.parts),
        "ended": episode.ended,
        "error": episode.error,
        **{name: value for name, value in rare.items() if value},
    }
    if episode.takes_answer is not None:
        line["takes_answer"] = episode.takes_answer
    return line


def kept_messages(turns: Iterable[Turn]) -> Iterator[int]:
    """Yield, for each turn, how many messages at the start of its question repeat the last question
    and its reply."""
    conversation: list[Message] = []
    for turn in turns:
        yield shared_length(conversation, turn.ask or ())
        if turn.ask is not None:
            conversation = [*turn.ask, turn.message]


def shared_length(first: Sequence[object], second: Sequence[object]) -> int:
    """Return how many items at the start of two sequences are equal."""
    length = 0
    for old, new in zip(first, second, strict=False):
        if old is not new and old != new:
            break
        length += 1
    return length


def bounded_outcomes(outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outcomes as JSON reads them back, without values that are not JSON or exceed
    `LARGEST_OUTCOMES`.

    `cut` lists the keys of omitted values. The episode is kept, whatever a caller's environment
    returns.
    """
    values, cut, room = dict[str, Any](), list[str](), LARGEST_OUTCOMES
    for key, value in outcomes.items():
        try:
            text = json.dumps({key: value}, allow_nan=False)
            if len(text) > room:
                raise ValueError("too long")
            values |= json.loads(text)
            room -= len(text)
        except Exception:  # of the value's own methods as well
            if not isinstance(key, str):
                key = safe_repr(key)
            cut.append(key[:50])
    return {**values, "cut": cut[:50]} if cut else values


def from_json(record: Mapping[str, Any]) -> Episode:
    """Return the episode of a line. Raises KeyError, TypeError or ValueError for anything that is
    not an episode."""
    values = dict(record)
    if (schema := values.pop("schema")) not in (1, SCHEMA):
        raise ValueError(f"schema {schema!r}, but this version reads 1 to {SCHEMA}")
    if schema == 1 and "unsure" in values:
        values["ambiguous"] = values.pop("unsure")
    require(values, _EPISODE)
    require(values["parts"], dict.fromkeys(values["parts"], _NUMBER))
    turns, lost = tuple(_read_turns(values.pop("turns"))), read_usage(values.pop("lost", {}))
    for reward in (values["reward"], *(turn.score for turn in turns)):
        if reward is not None and not -1 <= reward <= 1:
            raise ValueError(f"the reward {reward:g} is not between -1 and 1")
    for place, turn in enumerate(turns):
        if turn.after in (None, -1):
            continue
        if not (0 <= turn.after < place and turns[turn.after].acted):
            raise ValueError(f"turn {place} cannot come after turn {turn.after}")
    return Episode(turns=turns, lost=lost, **values)


def require(record: Mapping[str, Any], kinds: Mapping[str, Any]) -> None:
    """Raise KeyError for an unknown field, TypeError for a value of a wrong type or a number beyond
    64 bits."""
    for name, value in record.items():
        if not isinstance(value, kinds[name]) or (
            isinstance(value, int | float) and not is_number(value)
        ):
            raise TypeError(f"`{name}` cannot be {safe_repr(value):.50}")


def usage_json(usage: Usage) -> dict[str, Any]:
    """Return usage as plain data, without what is rarely there and 0."""
    rare = ("reasoning_tokens", "uncounted")
    return {name: count for name, count in asdict(usage).items() if count or name not in rare}


def read_usage(record: Mapping[str, Any]) -> Usage:
    """Return the `Usage` in a record. Raises as `require` does."""
    require(record, _USAGE)
    return Usage(**record)


def read_call(record: Mapping[str, Any]) -> ToolCall:
    """Return the `ToolCall` in a record. Raises as `require` does."""
    require(record, _CALL)
    return ToolCall(**record)


def read_sample(record: Mapping[str, Any], last_ids: tuple[int, ...] = ()) -> Sample:
    """Return the `Sample` in a record; `last_ids` are the tokens of the question and the reply
    before it.

    Raises as `require` does, and ValueError if the record keeps more of `last_ids` than there are.
    """
    require(record, _SAMPLE)
    values = dict(record)
    ids, logprobs, prompt = (
        tuple(values.pop(name, ())) for name in ("token_ids", "logprobs", "prompt_ids")
    )
    if not all(map(is_number, (*ids, *logprobs, *prompt))):
        raise TypeError("`sample` has tokens that are not numbers")
    if not 0 <= (shared := values.pop("prompt_kept", 0)) <= len(last_ids):
        raise ValueError(
            f"`prompt_kept` cannot be {shared}: "
            f"the last question and its reply have {len(last_ids)} tokens"
        )
    return Sample(ids, logprobs, prompt_ids=last_ids[:shared] + prompt, **values)


def _read_turns(records: Iterable[Mapping[str, Any]]) -> Iterator[Turn]:
    """Yield the turns with their questions whole; messages are shared between the questions."""
    conversation, last_ids = list[Message](), tuple[int, ...]()
    for record in records:
        require(record, _TURN)
        values = dict(record)
        rare = ("ask", "ask_kept", "calls", "sample", "limits", "tools")
        new, shared, calls, sample, limits, tools = (values.pop(name, None) for name in rare)
        shared, limits = shared or 0, limits or ()
        if not 0 <= shared <= len(conversation):
            raise ValueError(
                f"`ask_kept` cannot be {shared}: "
                f"the last question and its reply have {len(conversation)} messages"
            )
        if not all(isinstance(message["role"], str) for message in new or ()):
            raise TypeError("each message of `ask` has a role")
        if not all(isinstance(limit, str) for limit in limits):
            raise TypeError("`limits` are names")
        if new is not None:
            values["ask"] = (*conversation[:shared], *new)
        if tools is not None:
            values["tools"] = tuple(tools)
        if calls is not None:
            values["calls"] = tuple(map(read_call, calls))
        if sample is not None:
            values["sample"] = tokens = read_sample(sample, last_ids)
            last_ids = tokens.prompt_ids + tokens.token_ids
        usage = read_usage(values.pop("usage"))
        turn = Turn(usage=usage, limits=tuple(limits), **values)
        if turn.ask is not None:
            conversation = [*turn.ask, turn.message]
        yield turn


def _key(episode: Episode) -> Key:
    return episode.task, episode.epoch


def _write_or_check(
    path: Path, config: dict[str, Any], resume: bool, allow_code_change: bool, sign: bool
) -> bool:
    """Write `config` into an empty folder and return True, or check that the folder has such a run
    and return False."""
    names = {entry.name for entry in path.iterdir() if entry.suffix != ".new"}
    if not names:
        try:
            _require_settings(config)
        except TypeError as error:
            raise UsageError(f"the settings of the run cannot be kept: {error}") from error
        _write_config(path, config, sign=sign)
        return True
    if "run.json" not in names:
        raise UsageError(f"{path} is not empty and holds no run; choose another folder with --out")
    if not resume:
        raise UsageError(
            f"{path} holds a run; "
            f"continue it with --resume {path}, or choose another folder with --out"
        )
    old = read_config(path)
    differing = differing_settings(old, config, FREE)
    is_code = differing.keys() <= SOURCES
    if differing and not (allow_code_change and is_code):
        if allow_code_change:
            differing = differing_settings(old, config, FREE | SOURCES)
        settings = ", ".join(differing.values())
        why = f"{path} holds a run with other settings ({settings}); start a new one with --out"
        if is_code:
            why += ", or add --allow-code-change if finished episodes stay valid"
        raise UsageError(why)
    if differing:
        then = {key: old[key] for key in SOURCES & old.keys()}
        now = {key: config[key] for key in SOURCES & config.keys()}
        changed = {**old, **now, "mended": [*old.get("mended", ()), then]}
        for key in then.keys() - now.keys():
            del changed[key]
        _write_config(path, changed, sign=is_signed(old))
    return False


def differing_settings(old: Config, new: Config, free: frozenset[str]) -> dict[str, str]:
    """Return the settings outside of `free` that differ, each as `key: old → new`. An absent
    setting equals one that is off."""
    differing = {}
    for key in sorted((old.keys() | new.keys()) - free):
        then, now = old.get(key), new.get(key)
        if (then or None) != (now or None):
            differing[key] = f"{key}: {then!r:.50} → {now!r:.50}"
    return differing


def _write_config(path: Path, config: Config, *, sign: bool) -> None:
    settings = with_signature(config) if sign else without_signature(config)
    write_whole(path / "run.json", json.dumps(settings, indent=2, sort_keys=True) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Replace the file's content by `text`, whole or not at all: write a second file, force it to
    disk, rename it."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        draft.unlink(missing_ok=True)  # left by a killed process, or a link that somebody put there
        with draft.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def read_config(path: Path) -> dict[str, Any]:
    """Return the settings in run.json. Raises `StoreError` if they cannot be read."""
    try:
        with storage_faults(path):
            config = json.loads(read_inside(path, "run.json"))
        if not isinstance(config, dict):
            raise TypeError("not an object")
        _require_settings(config)
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"{path / 'run.json'} is damaged: {error}") from error
    return config


def _require_settings(config: Config) -> None:
    """Raise TypeError for one of `_SETTINGS` that has a wrong type; labels of tasks are texts."""
    require({name: config[name] for name in _SETTINGS if name in config}, _SETTINGS)
    for name in LABELS:
        labels = {f"{name}.{task}": label for task, label in (config.get(name) or {}).items()}
        require(labels, dict.fromkeys(labels, str))


def _read_episodes(path: Path) -> Iterator[tuple[int, Episode]]:
    """Yield each record with the place of its line in bytes. Blank lines are skipped, and damaged
    ones left out."""

    def records() -> Iterator[tuple[int, str, bytes]]:
        start = 0
        with (
            storage_faults(path),
            contextlib.suppress(FileNotFoundError),
            open(open_inside(path, "episodes.jsonl"), "rb") as lines,
        ):
            for number, line in enumerate(lines_of(lines), 1):
                if line.endswith(b"\n") and not line.isspace():
                    yield start, f"line {number}", line
                start += len(line)

    return read_entries(
        records(), lambda record: (record[0], _episode_of(record[2], path, record[1]))
    )


def _episode_of(line: bytes, path: Path, where: str) -> Episode:
    try:
        return from_json(json.loads(line))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise StoreError(
            f"{path / 'episodes.jsonl'}, {where} is not an episode: {error!r}; repair or delete it"
        ) from error


def append_line(file: int, line: bytes) -> int:
    """Append all of `line`, force it to disk, and return where it begins; or leave the file as it
    was."""
    end = os.fstat(file).st_size
    try:
        if os.write(file, line) != len(line):
            raise OSError("the disk is full")
        os.fsync(file)
    except OSError:
        os.ftruncate(file, end)
        raise
    return end


def cut_torn_line(file: int) -> None:
    """Remove everything after the last line end: a write that a kill interrupted."""
    if size := os.fstat(file).st_size:
        with mmap.mmap(file, size, access=mmap.ACCESS_READ) as content:
            end = content.rfind(b"\n", max(0, size - LARGEST)) + 1
        if size > LARGEST and not end:
            raise OSError(errno.EINVAL, "the last line has no beginning")
        if end < size:
            os.ftruncate(file, end)


def open_inside(run: Path, *names: str, flags: int = os.O_RDONLY) -> int:
    """Open the file RUN/NAME/… and return its descriptor; RUN may be a link, but nothing below it.

    Raises `OSError` for a link, a pipe or a device: reading could lead out of the folder or never
    end.
    """
    path = run.joinpath(*names)
    try:
        if any(folder.is_symlink() for folder in path.parents[: len(names) - 1]):
            raise OSError(errno.ELOOP, "a link")
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.ENXIO, "no file")
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):
            raise
        raise OSError(
            errno.EINVAL,
            "it is not a plain file, and links, pipes and devices are not opened",
            str(path),
        ) from error
    return descriptor


def read_inside(run: Path, *names: str) -> bytes:
    """Return the content of the file RUN/NAME/…, which `open_inside` opens. Raises `OSError` as
    well if it is too large."""
    with open(open_inside(run, *names), "rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise OSError(errno.EINVAL, f"it has more than {LARGEST} bytes", str(run.joinpath(*names)))
    return content


def require_plain_output(output: str | Path) -> None:
    """Raise `UsageError` for a link, a pipe or a device in a run folder, which somebody else may
    have put there."""
    path = Path(output)
    is_plain = not path.is_symlink() and present(path) in ("file", "folder")
    if os.path.lexists(path) and not is_plain and present(path.with_name("run.json")):
        raise UsageError(
            f"{path} lies in a run folder and is a link, a pipe or a device; choose another place"
        )


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file. Raises `OSError` for a line without an end."""
    while line := file.readline(LARGEST):
        if len(line) == LARGEST and not line.endswith(b"\n"):
            raise OSError(errno.EINVAL, f"a line has more than {LARGEST} bytes")
        yield line


def _locked(held: contextlib.ExitStack, path: Path) -> int:
    """Lock the run folder until `held` ends, and return its descriptor. Folders in it that are
    written to must not be links."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    held.callback(os.close, folder)
    for name in ("underway", "judged"):
        if (path / name).is_symlink():
            raise OSError(errno.EINVAL, "it is a link, which is not followed", str(path / name))
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise StoreError(
            f"{path} is in use by another process; wait for it or choose another folder"
        ) from error
    return folder


@contextlib.contextmanager
def storage_faults(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = str(error)
        if isinstance(error, FileExistsError) and present(path) == "file":
            why = "it is a file"
        raise StoreError(f"{path} cannot be used as a run folder: {why}") from error
