"""Write runs as data for other programs, an episode at a time. formats.py, inspect.py and
../atif.py define the rows; retell.py rewrites episodes in the form of other agents."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from intercode.errors import StoreError, UsageError
from intercode.interop.atif import trajectory_of
from intercode.interop.export.formats import chat_rows, rl_rows, sft_rows, v1_entry
from intercode.interop.export.inspect import sample_of, write_log
from intercode.interop.export.retell import teller
from intercode.runs.rows import Row, episode_row, turn_rows
from intercode.runs.store import require_plain_output, stream_run
from intercode.runs.trust import require_trust
from intercode.types import Tool

ROWS = {"sft": sft_rows, "chat": chat_rows, "rl": rl_rows, "jsonl": turn_rows}
ROWS |= {"parquet": turn_rows, "csv": turn_rows}
WHOLE = {"intercode": v1_entry, "atif": trajectory_of, "inspect": sample_of}
"""Forms with one row for each episode."""
TABLES = ("jsonl", "csv", "parquet")
BATCH = 1000
"""Rows that Parquet writes at a time."""


def export_run(
    run: str | Path,
    form: str,
    *,
    only: str = "all",
    told_as: str | None = None,
    turns: int | None = None,
    per: str = "turn",
    output: str | Path | None = None,
    force: bool = False,
    trust: bool = False,
) -> tuple[int, int]:
    """Write the episodes of `run` to `output`, or to stdout; return the numbers of episodes and
    rows. Those without a reward are left out, except in `atif`, `inspect` and tables of episodes.

    `told_as` names an agent in whose form solved episodes are rewritten (`retell.py`), for the
    forms `sft` and `chat`; `turns` is the number of turns in that agent's prompt (None: the run's);
    `per` is what a row of `TABLES` stands for, `turn` or `episode`; `trust` allows the environment
    that an unsigned run names. A file is written whole or not at all; pipes and devices are written
    piece by piece. The form `intercode` has the first epoch only, since InterCode v1 knew no other.
    `atif` is a new folder with a trajectory for each episode, where Harbor has it:
    TASK__EPOCH/agent/trajectory.json.

    Raises `UsageError` if there is nothing to export, or if the file exists and `force` is false;
    `StoreError` if the run cannot be read or the output cannot be written.
    """
    if told_as and form not in ("sft", "chat"):
        raise UsageError("--as writes conversations: choose --format sft or chat")
    if per != "turn" and form not in TABLES:
        raise UsageError(f"--per {per} is for tables: choose --format {', '.join(TABLES)}")
    if turns and not told_as:
        raise UsageError("--turns is the number of turns in an agent's prompt: add --as AGENT")
    config, episodes = stream_run(run)
    require_trust(config, {"env": config.get("env")} if told_as else {}, trust=trust)
    tell = teller(config, told_as, turns) if told_as else None
    with_unscored = form in ("atif", "inspect") or per == "episode"
    counts = {"episodes": 0, "rows": 0, "untold": 0}

    def rows() -> Iterator[Row]:
        for episode in episodes:
            included = {
                "all": True,
                "successful": episode.success,
                "human": config.get("agent") == "human",
            }[only]
            if (
                included
                and (episode.reward is not None or with_unscored)
                and not (form == "intercode" and episode.epoch)
            ):
                chosen, tools = episode, list[Tool]()
                if tell:
                    if not episode.success or (retold := tell(episode)) is None:
                        counts["untold"] += episode.success
                        continue
                    chosen, tools = retold[0], list(retold[1])
                counts["episodes"] += 1
                whole = episode_row if per == "episode" else WHOLE.get(form)
                for row in [whole(config, chosen)] if whole else ROWS[form](config, chosen):
                    counts["rows"] += 1
                    yield {**row, "tools": tools} if tools else row

    opened: AbstractContextManager[Any] = (
        _new_folder(output) if form == "atif" else _open(output, form, force)
    )
    with opened as file:
        if form == "atif":
            _write_trajectories(file, rows())
        elif form == "inspect":
            write_log(file, config, rows())
        elif form == "intercode":
            for number, row in enumerate(rows()):
                file.write(f'{"," if number else "{"}\n"{number}": {json.dumps(row)}'.encode())
            file.write(b"\n}\n")
        elif form == "parquet":
            _write_parquet(file, rows())
        elif form == "csv":
            _write_csv(file, rows())
        else:
            _write_lines(file, rows())
        if form == "rl" and counts["episodes"] and not counts["rows"]:
            raise UsageError(
                f"{run} has no tokens: "
                "play with INTERCODE_LOGPROBS=1 and a server that returns token ids"
            )
        if not counts["rows"]:
            kind = "episode" if with_unscored else "scored episode"
            raise UsageError(f"{run} has no {kind} to export (--only {only})")
    if counts["untold"]:
        why = f"{told_as} cannot write their actions, or they took more turns than it has"
        warnings.warn(
            f"{counts['untold']} solved episodes are left out: {why}", RuntimeWarning, stacklevel=2
        )
    return counts["episodes"], counts["rows"]


@contextmanager
def _open(output: str | Path | None, form: str, force: bool) -> Iterator[IO[bytes]]:
    """Open stdout, a pipe or a device; for a file open a draft, and move it to its place when it is
    complete."""
    if output is None and form in ("parquet", "inspect"):
        raise UsageError(f"--format {form} writes no text: name a file with --out")
    require_plain_output("/dev/stdout" if output is None else output)
    path = Path("/dev/stdout" if output is None else output).resolve()
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if output is None or (path.exists() and not path.is_file()):
            with open(path if output else sys.stdout.fileno(), "wb", closefd=bool(output)) as file:
                yield file
            return
        if path.exists() and not force:
            raise UsageError(f"{path} exists; add --force to replace it")
        if path.name in ("episodes.jsonl", "run.json") and path.with_name("run.json").exists():
            raise UsageError(
                f"{path} is part of a run, which an export would destroy; name another file"
            )
        try:
            draft.unlink(missing_ok=True)
            with draft.open("xb") as file:
                yield file
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StoreError(f"{output or 'stdout'} cannot be written: {error}") from error


@contextmanager
def _new_folder(output: str | Path | None) -> Iterator[Path]:
    """Yield a draft of a folder, and move it to its place when it is complete."""
    if output is None:
        raise UsageError("trajectories are files: name a new folder with --out")
    path = Path(output).resolve()
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise UsageError(f"{path} exists; name a new folder with --out")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as parent:
            draft = Path(parent) / "draft"
            draft.mkdir()
            yield draft
            draft.replace(path)
    except OSError as error:
        raise StoreError(f"{output} cannot be written: {error}") from error


def _write_trajectories(folder: Path, rows: Iterable[Row]) -> None:
    names = Counter[str]()
    for row in rows:
        name = re.sub(r"[^\w.-]+", "-", row["extra"]["task"])[:100] + f"__{row['extra']['epoch']}"
        names[name] += 1
        unique = name if names[name] == 1 else f"{name}-{names[name]}"
        (folder / unique / "agent").mkdir(parents=True)
        (folder / unique / "agent" / "trajectory.json").write_bytes(_as_json(row))


def _write_lines(file: IO[bytes], rows: Iterable[Row]) -> None:
    for row in rows:
        file.write(_as_json(row) + b"\n")


def _as_json(row: Row) -> bytes:
    text = json.dumps(row)
    # half of a surrogate pair, which most readers refuse, becomes a question mark
    if "\\ud" in text:
        text = json.dumps(
            json.loads(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace"))
        )
    return text.encode()


def _write_csv(file: IO[bytes], rows: Iterable[Row]) -> None:
    """Write a table with a header; a list or an object becomes a JSON text."""
    text = io.TextIOWrapper(file, "utf-8", "replace", newline="")
    writer: csv.DictWriter[str] | None = None
    for row in rows:
        if writer is None:
            writer = csv.DictWriter(text, list(row))
            writer.writeheader()
        writer.writerow(
            {
                name: json.dumps(value) if isinstance(value, list | tuple | dict) else value
                for name, value in row.items()
            }
        )
    text.flush()
    text.detach()


def _write_parquet(file: IO[bytes], rows: Iterator[Row]) -> None:
    """Write a table; a value without a fixed shape (messages, tool calls, parts of a score) becomes
    a JSON text."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise UsageError(
            "writing Parquet needs pyarrow: pip install 'intercode-gym[parquet]'"
        ) from error
    as_json = ("ask", "calls", "parts", "reasoning")
    texts = [
        "env",
        "agent",
        "model",
        "task",
        "query",
        "split",
        "ended",
        "error",
        "rule",
        "reply",
        "thought",
        "action",
        "observation",
        "finish_reason",
        *as_json,
    ]
    kinds = {
        pyarrow.string(): texts,
        pyarrow.int64(): [
            "epoch",
            "seed",
            "turns",
            "turn",
            "exit_code",
            "after",
            "left_out",
            "prompt_tokens",
            "completion_tokens",
            "reasoning_tokens",
        ],
        pyarrow.float64(): ["reward", "score", "seconds", "reply_seconds", "cost"],
        pyarrow.bool_(): ["success", "timed_out", "truncated_output", "forced"],
    }
    first = next(rows, {})
    schema = pyarrow.schema(
        [(name, kind) for kind, names in kinds.items() for name in names if name in first]
    )
    rows = chain([first] if first else [], rows)

    def flat(name: str, value: object) -> object:
        if name not in texts or value is None:
            return value
        text = json.dumps(value) if name in as_json else str(value)
        # half of a surrogate pair becomes a question mark
        return text.encode("utf-8", "replace").decode()

    with pyarrow.parquet.ParquetWriter(file, schema) as writer:
        while batch := [
            {name: flat(name, value) for name, value in row.items()} for row in islice(rows, BATCH)
        ]:
            writer.write_table(pyarrow.Table.from_pylist(batch, schema=schema))
