"""The command that reads what was played: `report`, on the terminal, as JSON, as a page and as plots."""

from __future__ import annotations

import os

import click

from intercode.cli.options import NEW_FILE, THERE, json_flag
from intercode.cli.show import print_json, show_reasons, show_summaries, show_tables, written
from intercode.errors import UsageError


@click.command()
@click.argument("runs", nargs=-1, required=True, type=THERE, metavar="RUN...")
@click.option("--force", is_flag=True, help="Put runs with different userlands side by side all the same.")
@click.option("--html", type=NEW_FILE, metavar="FILE", help="Also write one page to FILE.")
@click.option("--plots", type=click.Path(file_okay=False), metavar="DIR", help="Also draw each chart to an SVG file in DIR.")
@json_flag
def report(runs: tuple[str, ...], force: bool, html: str | None, plots: str | None, as_json: bool) -> None:
    """Look at one run closely, or at several side by side; two are compared task by task.

    RUN is a folder that `eval` made, a folder of such folders, or a log file of the first InterCode. With two, the
    difference is the second less the first.
    """
    from intercode.report import require_comparable
    from intercode.report.compare import side_by_side
    from intercode.report.loading import load, runs_in

    if html and os.path.isfile(html) and not html.lower().endswith((".html", ".htm")):
        raise UsageError(f"{html} exists and is no page; name a file that ends in .html")
    found = [load(path) for folder in runs for path in runs_in(folder)]
    require_comparable([config for config, _ in found], force=force)
    whole = side_by_side(found)
    if html:
        from intercode.report.page import page

        with written(html), open(html, "w", encoding="utf-8") as file:
            file.write(page(whole))
    if plots:
        from intercode.report.svg import draw

        with written(plots):
            draw(whole, plots)
    if as_json:
        print_json(whole["runs"][0] if len(found) == 1 else whole)
    else:
        from intercode.report.tables import closely, comparison

        show_summaries(whole["runs"], as_json=False)
        if len(found) == 1:
            show_tables(closely(whole["runs"][0]["analysis"]))
        elif "comparison" in whole:
            show_tables(comparison(whole["comparison"]))
    for config, episodes in found:
        show_reasons(episodes, f" in {config['run']}" if len(found) > 1 else "")


COMMANDS = (report,)
