"""Commands about this machine: public data (`data`), userlands (`image`), and what works here (`doctor`)."""

from __future__ import annotations

import sys

import click

from intercode.cli.options import json_flag
from intercode.cli.show import print_json


@click.group()
def data() -> None:
    """Public data sets: what there is, and how to get it."""


@data.command("list")
def data_list() -> None:
    """Names, sizes and licences of the public data sets."""
    from intercode.tasks import list_entries

    for entry in list_entries():
        note = "" if entry.checked else "  (address not verified)"
        click.echo(f"{entry.name:14} {entry.count:5} tasks  {entry.env:7} {entry.licence:24} {entry.description}{note}")


@data.command("get")
@click.argument("name")
def data_get(name: str) -> None:
    """Download a data set into the cache, verified; an interrupted download goes on where it stopped."""
    from intercode.tasks import get

    click.echo(get(name))


@click.group()
def image() -> None:
    """Userlands: root file systems with a listed set of packages, or made from an image of Docker's."""


@image.command("build")
@click.argument("name")
@click.option("--package", "packages", multiple=True, help="A Debian package; may be repeated. [a set for shell tasks]")
@click.option("--suite", default="bookworm", show_default=True)
@click.option("--force", is_flag=True, help="Replace an image of that name.")
def image_build(name: str, packages: tuple[str, ...], suite: str, force: bool) -> None:
    """Make the image NAME with mmdebstrap; use it with --image NAME. NAME v1-bash has the packages of the paper's Bash root."""
    from intercode.sandbox.image import build_image

    click.echo(build_image(name, packages, suite=suite, force=force, progress=lambda line: click.echo(line, err=True)))


@image.command("export")
@click.argument("reference", metavar="IMAGE")
@click.argument("name", required=False)
@click.option("--force", is_flag=True, help="Replace an image of that name.")
@click.option("--output", type=click.Path(dir_okay=False), metavar="TAR", help="Write a tar for --image TAR, and keep nothing.")
def image_export(reference: str, name: str | None, force: bool, output: str | None) -> None:
    """Keep Docker's IMAGE as NAME, for --image NAME without Docker; ENV and WORKDIR come along, but for a tar."""
    from pathlib import Path

    from intercode.sandbox.docker.export import export_image, export_tar

    if output is None:
        click.echo(export_image(reference, name, force=force))
        return
    if name is not None:
        raise click.UsageError("NAME is for the cache; leave it out with --output")
    target = Path(output)
    if target.exists() and not force:
        raise click.UsageError(f"{output} is there already; choose another file, or replace it with --force")
    export_tar(reference, target)
    click.echo(output)


@click.command()
@click.option("--clean", is_flag=True, help="First remove what processes that are gone have left.")
@json_flag
def doctor(clean: bool, as_json: bool) -> None:
    """What works on this machine, and the line that mends what does not."""
    from intercode.doctor import clean as remove
    from intercode.doctor import examine

    for removed in remove() if clean else ():
        click.echo(f"removed {removed}", err=True)
    findings = examine()
    if as_json:
        print_json({"findings": [finding._asdict() for finding in findings]})
    else:
        for finding in findings:
            mark = {True: "ok  ", False: "FAIL", None: "note"}[finding.ok]
            click.echo(f"{mark}  {finding.what}: {finding.detail}")
            if finding.mend and not finding.ok:
                click.echo(f"      mend: {finding.mend}")
    sys.exit(1 if any(finding.ok is False for finding in findings) else 0)


COMMANDS = (data, image, doctor)
