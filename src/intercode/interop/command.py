"""`export` writes training data, tables, and logs for other programs."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import click

from intercode.cli import options as shared
from intercode.doors import FORMATS
from intercode.plugins import find_own_modules


@shared.command()
@click.argument("run", type=shared.RUN_PATH)
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    required=True,
    help=" ".join(
        f"{', '.join(names)}: {words}."
        for words, names in groupby(FORMATS, lambda name: FORMATS[name][1])
    ),
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
    "as_agent",
    type=shared.TEXT,
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
@shared.out_file("FILE", "Write to FILE; atif: to a new folder. [stdout]")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@shared.trust
def export(run: str, form: str, file: str | None, **options: Any) -> None:
    """Write a run as training data, as a table, or for another viewer.

    Episodes of RUN that ended in an error are left out, except in atif, inspect and tables of
    episodes.
    """
    from intercode.interop.export import export_run

    find_own_modules()
    episodes, rows = export_run(run, form, output=file, trust=shared.is_trusted(), **options)
    click.echo(
        f"intercode: {rows} rows from {episodes} episodes" + (f" in {file}" if file else ""),
        err=True,
    )
