"""Commands that make something new of a run: `export` for other programs, `rescore` under another reward."""

from __future__ import annotations

import click


@click.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--format",
    "form",
    type=click.Choice(["sft", "chat", "jsonl", "parquet", "intercode"]),
    required=True,
    help="sft: prompt and completion for each reply; chat: whole conversations with weights; jsonl, parquet: one turn a row; "
    "intercode: a log as the first system wrote it.",
)
@click.option("--only", type=click.Choice(["all", "successful", "human"]), default="all", show_default=True)
@click.option("--output", type=click.Path(dir_okay=False), metavar="FILE", help="[stdout]")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def export(run: str, form: str, only: str, output: str | None, force: bool) -> None:
    """Write the episodes of RUN that have a result as training data, or as a table for analysis."""
    from intercode.export import export_run

    episodes, rows = export_run(run, form, only=only, output=output, force=force)
    click.echo(f"intercode: {rows} rows from {episodes} episodes" + (f" in {output}" if output else ""), err=True)


COMMANDS = (export,)
