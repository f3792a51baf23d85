"""`view` shows runs in the browser."""

from __future__ import annotations

import click

from intercode.cli import options as shared
from intercode.errors import UsageError
from intercode.reading import present


@shared.command()
@click.argument("runs", nargs=-1, type=shared.RUN_PATH, metavar="[RUN|FOLDER...]")
@shared.listening
@shared.data_now
def view(runs: tuple[str, ...], host: str, port: int, data: str | None) -> None:
    """Look at runs and their episodes in the browser, also while they are played.

    RUN is a run folder, ATIF trajectories (a file, or a folder), or a log file of InterCode v1.
    FOLDER contains runs, also some levels deep. [runs]

    The printed address contains a secret: anyone who knows it can read the runs. Ctrl-C ends the
    viewer.
    """
    from pathlib import Path

    try:
        from intercode.view.app import serve
    except ImportError as error:
        raise shared.lacks_viewer("`view`", error) from error
    if not runs and present("runs") != "folder":
        raise UsageError("there is no folder runs here; name a run, or a folder of runs")
    folders = [Path(run) for run in runs or ("runs",)]
    with shared.listening_at(host, port):
        serve(folders, host, port, lambda url: click.echo(f"view: {url}"), data)
