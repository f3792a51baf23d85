"""Write runs as data for other programs, an episode at a time. formats.py, inspect.py and
../atif.py define the formats; rewrite.py rewrites episodes in the form of other agents."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

from intercode.doors import FORMATS
from intercode.errors import StoreError, UsageError
from intercode.interop.export.rewrite import rewriter
from intercode.reading import present
from intercode.report.analysis import explaining
from intercode.report.summary import is_recorded, load_run
from intercode.runs.formats import format_named, one_row
from intercode.runs.rows import Row, episode_row
from intercode.runs.store import require_plain_output, stream_run
from intercode.runs.trust import require_trust
from intercode.types import Tool


def export_run(
    run: str | Path,
    form: str,
    *,
    only: str = "all",
    as_agent: str | None = None,
    turns: int | None = None,
    per: str = "turn",
    output: str | Path | None = None,
    force: bool = False,
    trust: bool = False,
) -> tuple[int, int]:
    """Write the episodes of `run`, a run folder or a recording in another form, to `output`, or to
    stdout; return the numbers of episodes and rows. Those without a reward are left out, except in
    `atif`, `inspect` and tables of episodes.

    `form` is a name in `doors.FORMATS`; `as_agent` names an agent in whose form solved episodes are
    rewritten (`rewrite.py`), for conversations; `turns` is the number of turns in that agent's
    prompt (None: the run's); `per` is what a row of a table stands for, `turn` or `episode`;
    `trust` allows the environment that an unsigned run names. A file is written whole or not at
    all; pipes and devices are written piece by piece.

    Raises `UsageError` if there is nothing to export, or if the file exists and `force` is false;
    `StoreError` if the run cannot be read or the output cannot be written.
    """
    target = format_named(form)
    if as_agent and not target.conversations:
        names = [name for name in FORMATS if format_named(name).conversations]
        raise UsageError(f"--as writes conversations: choose --format {' or '.join(names)}")
    if per != "turn" and not target.table:
        names = [name for name in FORMATS if format_named(name).table]
        raise UsageError(f"--per {per} is for tables: choose --format {', '.join(names)}")
    if turns and not as_agent:
        raise UsageError("--turns is the number of turns in an agent's prompt: add --as AGENT")
    config, episodes = (load_run if is_recorded(Path(run)) else stream_run)(run)
    require_trust(config, {"env": config.get("env")} if as_agent else {}, trust=trust)
    rewrite = rewriter(config, as_agent, turns) if as_agent else None
    if per == "episode":
        target = replace(target, rows=one_row(episode_row), unscored=True)
    is_human = config.get("agent") == "human"
    counts = {"episodes": 0, "rows": 0, "not_rewritten": 0}
    reason = explaining(config, episodes) if target.table else lambda episode: {}

    def rows() -> Iterator[Row]:
        for episode in episodes:
            included = {"all": True, "successful": episode.success, "human": is_human}[only]
            unscored = episode.reward is None and not target.unscored
            if not included or unscored or (target.first_epoch and episode.epoch):
                continue
            chosen, tools = episode, list[Tool]()
            if rewrite:
                if not episode.success or (rewritten := rewrite(episode)) is None:
                    counts["not_rewritten"] += episode.success
                    continue
                chosen, tools = rewritten[0], list(rewritten[1])
            counts["episodes"] += 1
            more = reason(episode) | ({"tools": tools} if tools else {})
            for row in target.rows(config, chosen):
                counts["rows"] += 1
                yield {**row, **more}

    if output is None and target.binary:
        raise UsageError(f"--format {form} writes no text: name a file with --out")
    folder = target.folder
    with _new_folder(output, folder) if folder else _open(output, force) as file:
        target.write(file, config, rows())
        if counts["episodes"] and not counts["rows"] and target.no_rows:
            raise UsageError(f"{run} {target.no_rows}")
        if not counts["rows"]:
            kind = "episode" if target.unscored else "scored episode"
            raise UsageError(f"{run} has no {kind} to export (--only {only})")
    if counts["not_rewritten"]:
        why = f"{as_agent} cannot write their actions, or they took more turns than it has"
        warnings.warn(
            f"{counts['not_rewritten']} solved episodes are left out: {why}",
            RuntimeWarning,
            stacklevel=2,
        )
    return counts["episodes"], counts["rows"]


@contextmanager
def _open(output: str | Path | None, force: bool) -> Iterator[IO[bytes]]:
    """Open stdout, a pipe or a device; for a file open a draft, and move it to its place when it is
    complete."""
    require_plain_output("/dev/stdout" if output is None else output)
    path = Path("/dev/stdout" if output is None else output).resolve()
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if output is None or (present(path) and present(path) != "file"):
            with open(path if output else sys.stdout.fileno(), "wb", closefd=bool(output)) as file:
                yield file
            return
        if present(path) and not force:
            raise UsageError(f"{path} exists; add --force to replace it")
        if path.name in ("episodes.jsonl", "run.json") and present(path.with_name("run.json")):
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
def _new_folder(output: str | Path | None, files: str) -> Iterator[Path]:
    """Yield a draft of a folder of `files`, and move it to its place when it is complete."""
    if output is None:
        raise UsageError(f"{files} are files: name a new folder with --out")
    path = Path(output).resolve()
    if present(path) and not (present(path) == "folder" and not any(path.iterdir())):
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
