"""`show` prints finished and running runs in the terminal: a list of runs, a list of episodes, or
transcripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, get_args

import click

from intercode.cli import options as shared
from intercode.cli.output import make_console, print_json, say, show_tables
from intercode.errors import UsageError
from intercode.reading import present, read_entries
from intercode.types import Ended

if TYPE_CHECKING:
    from intercode.runs.folders import RunFolder
    from intercode.runs.index import Index

_ENDS = [*get_args(Ended), "error"]
_WIDE = 100
"""The least number of columns at which a terminal shows answers side by side."""
_LEAST = 20
"""Columns of a query in a list, at least."""


@shared.command()
@click.argument("run", type=shared.RUN_PATH, metavar="RUN|FOLDER")
@click.argument("tasks", nargs=-1, metavar="[TASK...]")
@click.option("--failed", is_flag=True, help="Only episodes that were scored and not solved.")
@click.option(
    "--ambiguous", is_flag=True, help="Only failed episodes whose answer a judge should read."
)
@click.option(
    "--why",
    metavar="KIND",
    help="Only episodes that failed for this reason, such as 'out of turns'.",
)
@click.option("--ended", type=click.Choice(_ENDS), help="Only episodes that ended this way.")
@click.option(
    "--grep",
    metavar="TEXT",
    help="Only episodes with TEXT in an action or an output.",
)
@click.option(
    "--epoch", type=click.IntRange(0), metavar="N", help="Only episodes of this repetition, from 0."
)
@click.option(
    "--limit", "most", type=shared.COUNT, metavar="N", help="Only the first N of these episodes."
)
@click.option(
    "--messages", is_flag=True, help="Also print the messages to the model, and whole replies."
)
@click.option("--full", is_flag=True, help="Print long texts whole.")
@shared.data_now
@shared.json_flag
def show(
    run: str,
    tasks: tuple[str, ...],
    grep: str | None,
    most: int | None,
    messages: bool,
    full: bool,
    data: str | None,
    as_json: bool,
    **wanted: Any,
) -> None:
    """Print what the agent did, and explain its score.

    RUN is a run folder, ATIF trajectories (a file, or a folder), or a log file of InterCode v1.
    Episodes are listed, one per line; a single episode, and the episodes of each TASK, are printed
    turn by turn. FOLDER contains runs, also some levels deep, which are listed.
    """
    from pathlib import Path

    from intercode.runs.folders import RunFolders

    path = Path(run)
    runs = list(RunFolders([path], data).all().values())
    first = runs[0]
    is_converted = not first.path.is_relative_to(path)
    if not is_converted and not present(path / "run.json"):
        if tasks or grep or _conditions(**wanted):
            raise UsageError(f"{run} is a folder of runs; name one of them, such as {first.path}")
        _list_runs(runs[:most], as_json)
        return
    try:
        index = _update(first)
        conditions = _conditions(**wanted)
        rows = _choose(run, index, tasks, conditions)
        if grep:
            hits = index.search(grep)
            rows = [row for row in rows if row["start"] in hits]
        chosen = rows[:most]
        if as_json:
            _print_records(index, chosen)
        elif tasks or len(rows) == 1:
            _print_transcripts(first, chosen, full, messages)
        else:
            _list_episodes(chosen)
        if len(rows) > len(chosen) and not as_json:
            say(f"intercode: {len(rows) - len(chosen)} more episodes", err=True)
        elif not rows:
            why_none = "no such episode"
            if wanted["failed"] and len(conditions) == 1 and not grep:
                why_none = "no episode failed"
            if not index.all():
                why_none = "the run has begun, and no episode has ended yet"
            say(f"intercode: {why_none}", err=True)
    finally:
        if is_converted:
            from shutil import rmtree

            rmtree(first.path.parent)  # which `RunFolders` made for the recording


def _update(run: RunFolder) -> Index:
    """Update the run's index, and tell the user if that takes long; name damaged lines."""
    if run.index.update(seconds=1) < 1:
        # the index of a stranger's run is not kept
        once = ", once" * (not run.index.is_temporary)
        say(f"intercode: indexing {run.path}{once}", err=True)
        run.index.update()
    if run.index.covered[1]:
        from intercode.runs.store import stream_run

        stream_run(run.path)  # names the damaged lines
    return run.index


def _conditions(
    failed: bool, ambiguous: bool, why: str | None, ended: str | None, epoch: int | None
) -> dict[str, Sequence[object]]:
    """Return the chosen conditions as SQL, with their values. Raises `UsageError` for an unknown
    reason."""
    from intercode.report.analysis import CATEGORIES
    from intercode.runs.index import HAS_FAILED

    if why and why not in CATEGORIES:
        raise UsageError(f"--why {why} is unknown; episodes fail for: {', '.join(CATEGORIES)}")
    conditions: dict[str, Sequence[object]] = {}
    if failed:
        conditions[HAS_FAILED] = ()
    if ambiguous:
        conditions["state = 'ambiguous'"] = ()
    if why:
        conditions["category = ?"] = (why,)
    if ended == "error":
        conditions["error IS NOT NULL"] = ()
    elif ended:
        conditions["error IS NULL AND ended = ?"] = (ended,)
    if epoch is not None:
        conditions["epoch = ?"] = (epoch,)
    return conditions


def _choose(
    run: str, index: Index, tasks: Sequence[str], conditions: Mapping[str, Sequence[object]]
) -> list[dict[str, Any]]:
    """Return the rows of the chosen episodes, by task and epoch. Raises `UsageError` for a task
    that the run lacks."""
    from intercode.runs.index import SORTS

    if tasks:
        conditions = {**conditions, f"task IN ({', '.join('?' * len(tasks))})": tasks}
        recorded = {row["task"] for row in index.rows("SELECT DISTINCT task FROM episodes")}
        for task in tasks:
            if task not in recorded:
                from difflib import get_close_matches

                message = f"{run} has no episode of the task {task}"
                if close := get_close_matches(task, recorded, 5, 0.5) or sorted(recorded)[:5]:
                    message += f"; it has {', '.join(close)}"
                raise UsageError(message)
    return index.rows(
        "SELECT task, epoch, start, state, reward, ended, error, category, turns, tokens, query "
        f"FROM episodes WHERE {' AND '.join(conditions) or '1'} ORDER BY {SORTS['task']}",
        *chain.from_iterable(conditions.values()),
    )


def _print_records(index: Index, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print one JSON object, record by record: a run may be larger than memory."""
    import json

    from intercode.runs.store import to_json

    click.echo('{"episodes": [', nl=False)
    separator = ""
    for row in rows:
        if entry := index.read(row["task"], row["epoch"]):
            record = {**to_json(entry[0]), "why": row["category"]}
            click.echo(separator + json.dumps(record), nl=False)
            separator = ", "
    click.echo("]}")


def _print_transcripts(
    run: RunFolder, rows: Sequence[Mapping[str, Any]], full: bool, messages: bool
) -> None:
    from rich.text import Text

    from intercode.report.terminal import Transcript
    from intercode.report.transcript import FAILED

    console = make_console()
    transcript = Transcript(
        run.language, full, messages, wide=console.is_terminal and console.width >= _WIDE
    )
    golds, why = run.golds
    for row in rows:
        if entry := run.index.read(row["task"], row["epoch"]):
            for part in transcript.of(entry[0], golds.get(row["task"], "")):
                console.print(part, soft_wrap=isinstance(part, Text))
    if why and any(row["state"] in FAILED for row in rows):
        say(f"intercode: no gold is shown: {why}", err=True)


def _list_episodes(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print one line per episode: rich's tables would take minutes for 100,000 of them."""
    from rich.cells import cell_len, set_cell_size

    from intercode.report.summary import number
    from intercode.report.terminal import COLOURS
    from intercode.report.text import one_line, visible
    from intercode.report.transcript import MARKS

    console = make_console()
    columns: dict[str, list[str]] = {}
    for row in rows:
        texts = {
            "task": visible(row["task"]),
            "epoch": str(row["epoch"]),
            "reward": number(row["reward"], digits=2),
            "ended": "error" if row["error"] else row["ended"] or "–",
            "turns": str(row["turns"]),
            "tokens": f"{row['tokens']:,}",
            "why it failed": one_line(row["error"] or row["category"] or "–", 40),
        }
        for name, text in texts.items():
            columns.setdefault(name, []).append(text)
    for name in list(columns):
        if name not in ("task", "reward") and not set(columns[name]) - {"0", "–"}:
            del columns[name]
    widths = [max(map(cell_len, [name, *cells])) for name, cells in columns.items()]
    room = max(_LEAST, console.width - 3 - sum(widths) - 2 * len(widths))

    def show_line(mark: str, cells: Sequence[str], query: str) -> None:
        query = one_line(query, room)
        if cell_len(query) > room:
            query = set_cell_size(query, room - 1) + "…"
        click.echo("  ".join((mark, *map(set_cell_size, cells, widths), query)))

    if rows:
        show_line(" ", list(columns), "query")
    for row, *cells in zip(rows, *columns.values(), strict=True):
        mark = MARKS[row["state"]]
        if console.color_system is not None and not console.no_color:
            mark = click.style(mark, COLOURS[row["state"]])
        show_line(mark, cells, row["query"])


def _list_runs(runs: Sequence[RunFolder], as_json: bool) -> None:
    from intercode.report.summary import data_name, require_names
    from intercode.report.tables import overview
    from intercode.runs.store import read_config

    def row(run: RunFolder) -> dict[str, Any]:
        require_names(run.path, read_config(run.path))
        _update(run)
        facts = {"date": run.config.get("created"), "data": data_name(run.config)}
        return {**run.figures(), **facts}

    rows = list(read_entries(runs, row))
    if as_json:
        print_json({"runs": rows})
    else:
        show_tables(overview(rows))
