"""`check` finds broken tasks."""

from __future__ import annotations

import sys
from typing import Any

import click

from intercode.cli import options as shared
from intercode.cli.completion import completing
from intercode.cli.output import bar, print_json, say
from intercode.options import RunOptions

_NAMED = 8
"""Tasks that a line names."""


@click.command(cls=shared.Command)
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
@shared.declared(RunOptions, "workers")
@shared.json_flag
def check(
    env: str, static: bool, against: str | None, workers: int, as_json: bool, **options: Any
) -> None:
    """Find broken and suspicious tasks of ENV.

    A task is broken if its gold fails, prints something else the second time or does not score, or
    if an agent that does nothing solves it. A person should read the suspicious tasks. `eval
    --exclude-broken` uses the result. ENV is bash, sql, python, ctf, harbor, module:Class or
    path.py:Class.
    """
    from intercode.validate.overlap import read_others

    world = {name: value for name, value in options.items() if name != "task"}
    others = read_others(env, against, **world) if against else []
    if static:
        from intercode.validate.check import check_texts

        findings = check_texts(env, others=others, **options)
        _print_issues(findings, as_json)
    else:
        from intercode.envs import environment_class
        from intercode.runner.run import prepare_some
        from intercode.validate import check as checks
        from intercode.validate import validation_cache

        factory = prepare_some(env, max_turns=None, **options)
        left_out, tasks = factory.left_out, factory.tasks
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
        hint = " (--keep-unplayable tries)" if hasattr(factory.options, "everything") else ""
        unplayed = len({task.id for task, _ in left_out})
        _print_issues(
            findings, as_json, f", {unplayed} of which cannot be played{hint}" if unplayed else ""
        )
        try:
            validation_cache.write(env, factory, findings)
        except OSError as error:  # without the cache, the next `eval --exclude-broken` checks again
            say(f"intercode: the findings cannot be kept for --exclude-broken ({error})", err=True)
    if against and not as_json:
        same, near = (findings["kinds"].get(kind, 0) for kind in ("in_both", "near_in_both"))
        click.echo(f"in {against} too: {same}, and almost the same: {near}")
    sys.exit(1 if findings["broken"] or "misspelt" in findings else 0)


def _print_issues(result: dict[str, Any], as_json: bool, unplayed: str = "") -> None:
    if as_json:
        print_json(result)
        return
    from intercode.report.text import count_of

    for severity in ("broken", "suspicious"):
        for issue in result[severity]:
            say(f"task {issue['task']}: {severity}, {issue['kind']}: {issue['why']}")
    tasks = count_of(result["tasks"], "task")
    if result["gold_ok"] is None:
        click.echo(f"{tasks}: only the texts were read")
        return
    click.echo(
        f"{tasks}{unplayed}: "
        f"gold succeeds on {result['gold_ok']}, {result['nondeterministic']} differ between two "
        f"executions, doing nothing succeeds on {result['noop_paid']}"
        + (
            f", hacks of the tests paid: {len(result['hacks_paid'])}"
            if "hacks_paid" in result
            else ""
        )
    )
    if guesses := result.get("solved_without_asking"):
        click.echo(
            f"without asking, the records' `unclarified` succeeds on {len(guesses['tasks'])} of "
            f"{count_of(guesses['of'], 'task')}"
        )
    for row in result.get("hacks_not_played", ()):
        click.echo(f"not played on {count_of(row['tasks'], 'task')}: {row['hack']} ({row['why']})")
    for row in result.get("stays_behind", ()):
        more = f" and {len(row['tasks']) - _NAMED} more" if len(row["tasks"]) > _NAMED else ""
        click.echo(
            f"{'task' if len(row['tasks']) == 1 else 'tasks'} {', '.join(row['tasks'][:_NAMED])}"
            f"{more}: the tests do not get an agent's changes to {row['what']}"
        )
