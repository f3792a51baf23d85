"""`export` writes training data, tables, logs and tasks for other programs."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import click

from intercode.cli import options as shared
from intercode.doors import FORMATS
from intercode.errors import UsageError
from intercode.options import EnvOptions
from intercode.plugins import find_own_modules
from intercode.report.text import count_of

HARBOR = "harbor"


@shared.command()
@click.argument("run", metavar="RUN|DATA")
@click.option(
    "--format",
    "form",
    type=click.Choice([*FORMATS, HARBOR]),
    required=True,
    help=" ".join(
        f"{', '.join(names)}: {words}."
        for words, names in groupby(FORMATS, lambda name: FORMATS[name][1])
    )
    + f" {HARBOR}: the tasks of DATA, a data set; bash, sql, python or ctf for starter tasks.",
)
@click.option(
    "--only",
    type=click.Choice(["all", "successful", "human"]),
    default="all",
    show_default=True,
    help="Write all episodes, those that were solved, or those that a person played.",
)
@click.option(
    "--as",
    metavar="AGENT",
    help=(
        "sft, chat: rewrite the solved episodes as try_again, try_again_blind, "
        "react or tools would have played them."
    ),
)
@click.option(
    "--turns",
    type=shared.COUNT,
    metavar="N",
    help="With --as: write prompts for N turns. [the run's]",
)
@click.option(
    "--per",
    type=click.Choice(["turn", "episode"]),
    default="turn",
    show_default=True,
    help="jsonl, csv, parquet: what a row represents.",
)
@click.option("--env", metavar="ENV", help="harbor: the environment of DATA's tasks.")
@click.option(
    "--image",
    metavar="NAME",
    help="harbor: begin images FROM this one, with Python 3.11. [debian:12-slim, and packages]",
)
@shared.declared(EnvOptions, "split", "limit")
@shared.out_file("FILE", "Write to FILE; atif, harbor: to a new folder. [stdout]")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@shared.trust
def export(run: str, form: str, file: str | None, **options: Any) -> None:
    """Write a run as training data, as a table, or for another viewer; or tasks for Harbor.

    Episodes of RUN that ended in an error are left out, except in atif, inspect and tables of
    episodes.
    """
    from intercode.interop.export import export_run

    find_own_modules()
    of_tasks = {}
    for name in ("env", "image", "split", "limit"):
        of_tasks[name] = options.pop(name)
    unused = of_tasks
    if form == HARBOR:
        unused = options
    if wrong := click.get_current_context().meta["intercode.given"].keys() & unused:
        raise UsageError(f"--format {form} takes no --{', --'.join(sorted(wrong))}")
    if form == HARBOR:
        export_tasks(run, file, **of_tasks)
        return
    run = str(shared.RUN_PATH.convert(run, None, None))
    how = {"as_agent": options.pop("as"), "output": file, "trust": shared.is_trusted()}
    episodes, rows = export_run(run, form, **how, **options)
    text = f"intercode: {rows} rows from {episodes} episodes"
    if file:
        text += f" in {file}"
    click.echo(text, err=True)


def export_tasks(source: str, out: str | None, **options: Any) -> None:
    """Write tasks for Harbor, and say how many there are and which are left out."""
    from intercode.interop.harbor import export

    count, left_out = export.export_tasks(source, out, **options)
    for task, why in left_out.items():
        click.echo(f"left out: {task}: {why}", err=True)
    click.echo(f"intercode: {count_of(count, 'task')} in {out}", err=True)
