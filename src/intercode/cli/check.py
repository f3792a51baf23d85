"""`check` finds broken tasks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from intercode.cli import options as shared
from intercode.cli.completion import completing
from intercode.cli.output import bar, print_json, say
from intercode.options import RunOptions

_NAMED = 8
"""Tasks that a line names."""


@shared.command()
@click.argument("env", callback=shared.own_name, shell_complete=completing("env"))
@shared.world()
@shared.declared(RunOptions, "task")
@click.option(
    "--static",
    is_flag=True,
    help="Read the texts of the tasks only: execute nothing and need no databases.",
)
@click.option(
    "--against",
    metavar="OTHER",
    help="Find the tasks that are in OTHER too: what --data takes, or `starter`.",
)
@click.option(
    "--warm",
    is_flag=True,
    help="harbor: Run tests that download once with this machine's network, and keep what they"
    " fetch for runs without one.",
)
@shared.declared(RunOptions, "workers")
@shared.json_flag
def check(
    env: str,
    task: Sequence[str],
    static: bool,
    against: str | None,
    warm: bool,
    workers: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Find broken and suspicious tasks of ENV.

    A task is broken if its gold fails, prints something else the second time or does not score, or
    if an agent that does nothing solves it. A person should read the suspicious tasks. `eval
    --exclude-broken` uses the result. ENV is bash, sql, python, ctf, harbor, module:Class or
    path.py:Class.
    """
    from intercode.validate.overlap import read_others

    others = read_others(env, against, **options) if against else []
    if warm:
        options["warm"] = True
    if static:
        from intercode.validate.check import check_texts

        findings, unplayed = check_texts(env, task=task, others=others, **options), ""
    else:
        from intercode.envs import environment_class
        from intercode.runner.run import prepare_some
        from intercode.validate import check as checks
        from intercode.validate import validation_cache

        factory = prepare_some(env, task=task, max_turns=None, **options)
        left_out, tasks, unplayed = factory.left_out, factory.tasks, ""
        steps = checks.count_steps(tasks, environment_class(env))
        with bar("checking", steps, quiet=as_json) as advance:
            findings = checks.check(
                factory,
                tasks,
                left_out=left_out,
                others=others,
                workers=workers,
                on_task=lambda: advance("checking"),
            )
        if left_out:
            unplayed = f", {len({task.id for task, _ in left_out})} of which cannot be played"
            if hasattr(factory.options, "everything"):
                unplayed += " (--keep-unplayable tries)"
        try:
            validation_cache.write(env, factory, findings)
        except OSError as error:  # without the cache, the next `eval --exclude-broken` checks again
            say(f"intercode: the findings cannot be kept for --exclude-broken ({error})", err=True)
    if as_json:
        print_json(findings)
    else:
        _print_issues(findings, unplayed)
        if against:
            kinds = findings["kinds"]
            same, near = kinds.get("in_both", 0), kinds.get("near_in_both", 0)
            click.echo(f"in {against} too: {same}, and almost the same: {near}")
    sys.exit(1 if findings["broken"] or "misspelt" in findings else 0)


def _print_issues(result: dict[str, Any], unplayed: str) -> None:
    from intercode.report.text import count_of

    for severity in ("broken", "suspicious"):
        for issue in result[severity]:
            say("task {task}: {severity}, {kind}: {why}".format(severity=severity, **issue))
    tasks = count_of(result["tasks"], "task")
    if result["gold_ok"] is None:
        click.echo(f"{tasks}: only the texts were read")
        return
    line = f"{tasks}{unplayed}: " + (
        "gold succeeds on {gold_ok}, {nondeterministic} differ between two executions, "
        "doing nothing succeeds on {noop_paid}"
    ).format_map(result)
    if "hacks_paid" in result:
        line += f", hacks of the tests paid: {len(result['hacks_paid'])}"
    click.echo(line)
    if guesses := result.get("solved_without_asking"):
        click.echo(
            f"without asking, the records' `unclarified` succeeds on {len(guesses['tasks'])} of "
            f"{count_of(guesses['of'], 'task')}"
        )
    for row in result.get("hacks_not_played", ()):
        click.echo(f"not played on {count_of(row['tasks'], 'task')}: {row['hack']} ({row['why']})")
    for row in result.get("stays_behind", ()):
        ids = row["tasks"]
        names = f"task{'s' * (len(ids) > 1)} {', '.join(ids[:_NAMED])}"
        if len(ids) > _NAMED:
            names += f" and {len(ids) - _NAMED} more"
        click.echo(f"{names}: the tests do not get an agent's changes to {row['what']}")
