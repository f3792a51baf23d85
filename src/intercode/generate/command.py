"""`data generate` writes a data set of generated tasks."""

from __future__ import annotations

import shlex
from typing import Any, Literal

import click

from intercode.cli.completion import completing
from intercode.cli.options import COUNT, StrictCommand, declared
from intercode.cli.output import bar
from intercode.doors import part
from intercode.errors import UsageError
from intercode.options import RunOptions
from intercode.reading import present


class Numbers(click.ParamType[tuple[int, ...]]):
    """Whole numbers that are separated by commas."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return tuple(map(int, value.split(",")))
        except ValueError:
            return self.fail(f"{value!r} is not a list of numbers such as 1,2.", param, ctx)


@click.command("generate", cls=StrictCommand)
@click.argument("family", shell_complete=completing("family"))
@click.option(
    "--n",
    type=COUNT,
    default=200,
    show_default=True,
    metavar="N",
    help="Generate N tasks, every fifth for the split test.",
)
@click.option(
    "--asks",
    type=click.IntRange(0, 2),
    default=0,
    show_default=True,
    metavar="N",
    help="Leave out N clauses (1 or 2) of each query, about which the agent can ask the user.",
)
@click.option(
    "--steps",
    type=click.IntRange(2, 8),
    metavar="N",
    help="Compose each task of N steps (only for composed families; 4 unless given).",
)
@click.option(
    "--hops",
    type=click.IntRange(2, 6),
    metavar="N",
    help="Ask questions of N look-ups (only for families of questions; 2 to 5 unless given).",
)
@click.option(
    "--split", type=click.Choice(("train", "test")), help="Generate all N tasks for this split."
)
@click.option(
    "--difficulty",
    type=Numbers(),
    default=(),
    metavar="N,N",
    help="Generate only tasks of these difficulties, such as 1,2 (not for composed families).",
)
@declared(RunOptions, "seed")
@click.option("--out", required=True, metavar="DIR", help="Write the data to this new folder.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["harbor"]),
    help="Write the tasks for Harbor, too, to DIR/harbor, as `export` does.",
)
@click.option(
    "--resume", is_flag=True, help="Go on with a generation into DIR that was interrupted."
)
def data_generate(
    family: str,
    n: int,
    split: Literal["train", "test"] | None,
    out: str,
    form: str | None,
    **options: Any,
) -> None:
    """Generate tasks of FAMILY, with files or databases and solutions.

    `data list` lists the families. The folder has the splits train and test, and works like any
    data folder; its card.json says how it was made. The same options give the same bytes.
    """
    from intercode.generate import FAMILIES, generate
    from intercode.generate.ladder import NEW_FAMILY

    if form and options["asks"]:
        raise UsageError(f"--asks makes tasks that ask a user, and --format {form} has none")
    if not (form and options["resume"] and present(f"{out}/card.json")):
        with bar("generating", n, quiet=False) as advance:
            generated = generate(
                family, n=n, split=split, out=out, on_task=lambda: advance("generating"), **options
            )
        splits = [
            f"{count} tasks of the split {split}" for split, count in generated.splits.items()
        ]
        click.echo(f"{out}: {', '.join(splits)}")
        if count := generated.rungs.get(NEW_FAMILY):
            click.echo(f"{count} of the test tasks are of another family (distance 4)")
        yields = [f"{kind} {part:.0%}" for kind, part in generated.yields().items()]
        click.echo(f"kept of what was drawn: {', '.join(yields)}")
        click.echo(
            f"next: intercode eval {FAMILIES[family].env} --data {shlex.quote(out)} "
            f"--split {split or 'test'} --agent gold"
        )
    if form:
        part("export_tasks")(out, f"{out}/{form}", env=FAMILIES[family].env)
