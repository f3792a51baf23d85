"""`view` shows runs in the browser."""

from __future__ import annotations

import click

from intercode.cli import options as shared
from intercode.errors import UsageError


@click.command(cls=shared.Command)
@click.argument("runs", nargs=-1, type=shared.EXISTING_PATH, metavar="[RUN|FOLDER...]")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Listen on this IP address.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="Listen on this port. [a free one]",
)
@shared.data_now
def view(runs: tuple[str, ...], host: str, port: int, data: str | None) -> None:
    """Look at runs and their episodes in the browser, also while they are played.

    RUN is a run folder or a log file of InterCode v1, FOLDER contains runs, also some
    levels deep. [runs]

    The printed address contains a secret: anyone who knows it can read the runs. Ctrl-C ends the
    viewer.
    """
    import os
    from ipaddress import ip_address
    from pathlib import Path

    try:
        from intercode.view.app import serve
    except ImportError as error:
        raise shared.lacks_viewer("`view`", error) from error
    if not runs and not os.path.isdir("runs"):
        raise UsageError("there is no folder runs here; name a run, or a folder of runs")
    try:
        if host != "localhost":
            ip_address(host)
        serve(
            [Path(run) for run in runs or ("runs",)],
            host,
            port,
            lambda url: click.echo(f"view: {url}"),
            data,
        )
    except ValueError:
        raise UsageError(f"--host {host}: give an IP address or localhost") from None
    except OSError as error:
        raise UsageError(
            f"{host} port {port} cannot be used: {error.strerror}; choose another with --port"
        ) from error
