"""Write runs as data for other programs, an episode at a time. formats.py, inspect.py and
../atif.py define the formats; rewrite.py rewrites episodes in the form of other agents."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

from intercode.doors import FORMATS
from intercode.errors import StoreError, UsageError
from intercode.interop.export.rewrite import Rewritten, rewriter
from intercode.reading import present
from intercode.report.analysis import explaining
from intercode.report.summary import is_recorded, load_run
from intercode.runs.formats import Format, format_named, one_row
from intercode.runs.rows import Config, Row, episode_row
from intercode.runs.store import require_plain_output, stream_run
from intercode.runs.trust import require_trust
from intercode.types import Episode


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
    rewritten (`rewrite.py`), for conversations, with prompts for `turns` turns (None: the run's);
    a row of a table stands for a `turn` or an `episode` (`per`); `trust` allows the environment
    that an unsigned run names. A file is written whole or not at all; pipes and devices are written
    piece by piece.

    Raises `UsageError` if there is nothing to export, or if the file exists and `force` is false;
    `StoreError` if the run cannot be read or the output cannot be written.
    """
    target = _format_with(form, as_agent, turns, per)
    if is_recorded(Path(run)):
        config, episodes = load_run(run)
    else:
        config, episodes = stream_run(run)
    counts = Counter[str]()
    require_trust(config, {"env": config.get("env")} if as_agent else {}, trust=trust)
    chosen = _wanted(config, episodes, target, only)
    if as_agent:
        chosen = _rewritten(chosen, rewriter(config, as_agent, turns), counts)
    reason = explaining(config, episodes) if target.table else lambda episode: {}
    if output is None and target.binary:
        raise UsageError(f"--format {form} writes no text: name a file with --out")

    def rows() -> Iterator[Row]:
        for episode, tools in chosen:
            counts["episodes"] += 1
            more: Row = dict(reason(episode))
            if tools:
                more["tools"] = list(tools)
            for row in target.rows(config, episode):
                counts["rows"] += 1
                yield {**row, **more}

    with new_folder(output, target.folder) if target.folder else _open(output, force) as file:
        target.write(file, config, rows())
        if not counts["rows"]:
            kind = "scored episode"
            if target.unscored:
                kind = "episode"
            lack = f"has no {kind} to export (--only {only})"
            if counts["episodes"] and target.no_rows:
                lack = target.no_rows
            raise UsageError(f"{run} {lack}")
    if counts["not_rewritten"]:
        why = f"{as_agent} cannot write their actions, or they took more turns than it has"
        text = f"{counts['not_rewritten']} solved episodes are left out: {why}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    return counts["episodes"], counts["rows"]


def _wanted(
    config: Config, episodes: Iterable[Episode], target: Format, only: str
) -> Iterator[Rewritten]:
    """Yield the episodes that the format has, of those that were asked for."""
    if only == "human" and config.get("agent") != "human":
        return
    for episode in episodes:
        unscored = episode.reward is None and not target.unscored
        unsolved = only == "successful" and not episode.success
        if not (unscored or unsolved or (target.first_epoch and episode.epoch)):
            yield episode, ()


def _rewritten(
    chosen: Iterable[Rewritten],
    rewrite: Callable[[Episode], Rewritten | None],
    counts: Counter[str],
) -> Iterator[Rewritten]:
    """Yield the solved episodes rewritten, and count those for which that is not possible."""
    for episode, _ in chosen:
        if not episode.success:
            continue
        rewritten = rewrite(episode)
        if rewritten is None:
            counts["not_rewritten"] += 1
        else:
            yield rewritten


def _format_with(form: str, as_agent: str | None, turns: int | None, per: str) -> Format:
    """Return the format with rows of this kind. Raises `UsageError` for options that it does not
    have."""
    target = format_named(form)
    if as_agent and not target.conversations:
        names = [name for name in FORMATS if format_named(name).conversations]
        raise UsageError(f"--as writes conversations: choose --format {' or '.join(names)}")
    if per != "turn" and not target.table:
        names = [name for name in FORMATS if format_named(name).table]
        raise UsageError(f"--per {per} is for tables: choose --format {', '.join(names)}")
    if turns and not as_agent:
        raise UsageError("--turns is the number of turns in an agent's prompt: add --as AGENT")
    if per == "episode":
        return replace(target, rows=one_row(episode_row), unscored=True)
    return target


@contextmanager
def _open(output: str | Path | None, force: bool) -> Iterator[IO[bytes]]:
    """Open stdout, a pipe or a device; for a file open a draft, and move it to its place when it is
    complete."""
    name = "/dev/stdout" if output is None else output
    require_plain_output(name)
    path = Path(name).resolve()
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    kind = present(path)
    try:
        if output is None:
            with open(sys.stdout.fileno(), "wb", closefd=False) as file:
                yield file
            return
        if kind and kind != "file":
            with path.open("wb") as file:
                yield file
            return
        if kind and not force:
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
def new_folder(output: str | Path | None, files: str) -> Iterator[Path]:
    """Yield a draft of a folder of `files`, and move it to its place when it is complete."""
    if output is None:
        raise UsageError(f"{files} are files: name a new folder with --out")
    path = Path(output).resolve()
    kind = present(path)
    if kind and (kind != "folder" or any(path.iterdir())):
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
