"""`data`, `image` and `doctor`: prepare this machine, with data sets, the sandbox's programs, and a
check of both."""

from __future__ import annotations

import sys

import click

from intercode.cli.completion import completing
from intercode.cli.lazy import LazyGroup
from intercode.cli.options import StrictCommand, json_flag, out_file
from intercode.cli.output import print_json
from intercode.doors import PARTS, part
from intercode.reading import present


@click.group(cls=LazyGroup, lazy={"generate": PARTS["data_generate"]})
def data() -> None:
    """List, download and generate data sets."""


@data.command("list")
def data_list() -> None:
    """List the public data sets, with size, environment and licence, and the families of generated
    tasks."""
    from intercode.tasks import list_entries, open_data
    from intercode.tasks.catalog import downloaded

    for entry in list_entries():
        count: object = entry.count
        if count is None:  # the catalog does not know it before the first download
            count = "some"
            if downloaded(entry.name):
                count = len(open_data(entry.name, env=entry.env).tasks)
        click.echo(
            f"{entry.name:14} {count:>5} tasks  {entry.env:7} {entry.licence:32} "
            f"{entry.description}"
        )
    click.echo("\nFamilies, for `intercode data generate FAMILY --out DIR`:")
    for family in part("families").values():
        click.echo(f"{family.name:14}  {family.env:7} {family.about}")


@data.command("get", cls=StrictCommand)
@click.argument("name", shell_complete=completing("data"))
@click.option(
    "--from",
    "source",
    metavar="PLACE",
    help="Take the files from this clone of the repository that publishes them, or from the mirror "
    "at this address.  [default: $INTERCODE_MIRROR, or the repository]",
)
def data_get(name: str, source: str | None) -> None:
    """Download the data set NAME, and verify it.

    Each file must be the published one. An interrupted download continues where it stopped. `eval
    --data NAME` then uses the data set.
    """
    from intercode.cli.output import bar
    from intercode.tasks import get, list_entries

    percent = 0

    def show(done: int, total: int) -> None:
        nonlocal percent
        for _ in range(percent, 100 * done // max(total, 1)):
            percent += 1
            advance(f"downloading {name}")

    with bar(f"downloading {name}", 100, quiet=False) as advance:
        folder = get(name, source=source, progress=show)
    click.echo(folder)
    entry = next(entry for entry in list_entries() if entry.name == name)
    click.echo(f"next: intercode check {entry.env} --data {name}", err=True)


@click.group()
def image() -> None:
    """Build images: the programs available in a sandbox."""


@image.command("build", cls=StrictCommand)
@click.argument("name")
@click.option(
    "--package",
    "packages",
    multiple=True,
    metavar="NAME",
    help="Install this Debian package. May be repeated. [a set for shell tasks]",
)
@click.option(
    "--suite",
    default="bookworm",
    show_default=True,
    help="Take the packages from this Debian release.",
)
@click.option("--force", is_flag=True, help="Replace an image of that name.")
def image_build(name: str, packages: tuple[str, ...], suite: str, force: bool) -> None:
    """Build an image from Debian packages.

    Use it with --image NAME. The name v1-bash selects the packages of the paper's Bash image.
    Requires mmdebstrap.
    """
    from intercode_sandbox.image import build_image

    click.echo(
        build_image(
            name,
            packages,
            suite=suite,
            force=force,
            progress=lambda line: click.echo(line, err=True),
        )
    )


@image.command("export", cls=StrictCommand)
@click.argument("reference", metavar="IMAGE")
@click.argument("name", required=False)
@click.option("--force", is_flag=True, help="Replace an image of that name, or the file TAR.")
@out_file("TAR", "Write a tar file for --image TAR, and keep no image.")
def image_export(reference: str, name: str | None, force: bool, file: str | None) -> None:
    """Copy a Docker image, to use it without Docker.

    Use it with --image NAME. The image's ENV and WORKDIR are kept, except in a tar file.
    """
    from pathlib import Path

    from intercode_sandbox.docker.images import export_image, export_tar

    if file is None:
        click.echo(export_image(reference, name, force=force))
        return
    if name is not None:
        raise click.UsageError("NAME is for the cache; leave it out with --out")
    target = Path(file)
    if present(target) and not force:
        raise click.UsageError(f"{file} exists; choose another file, or replace it with --force")
    export_tar(reference, target)
    click.echo(file)


@click.command(cls=StrictCommand)
@click.option(
    "--clean",
    is_flag=True,
    help="First remove what dead processes of intercode left on this machine.",
)
@click.option(
    "--on",
    default="local",
    metavar="local|ray|ADDRESS",
    help="Check each node of a Ray cluster, as for `eval`.",
)
@json_flag
def doctor(clean: bool, on: str, as_json: bool) -> None:
    """Check this machine, and print the command that repairs each problem.

    Exit status 1 if something does not work.
    """
    from intercode.cli.doctor import examine
    from intercode_sandbox.doctor import clean as remove

    for removed in remove() if clean else ():
        click.echo(f"removed {removed}", err=True)
    findings = examine() if on == "local" else part("cluster_nodes")(on)
    if as_json:
        print_json({"findings": [finding.record() for finding in findings]})
    else:
        for finding in findings:
            click.echo(finding)
    sys.exit(1 if any(finding.ok is False for finding in findings) else 0)
