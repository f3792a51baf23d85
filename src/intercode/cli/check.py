"""`check` finds broken tasks; `attack` tries reward hacks and sandbox escapes."""

from __future__ import annotations

import sys
from typing import Any

import click

from intercode.cli import options as shared
from intercode.cli.completion import completing
from intercode.cli.output import bar, print_json, say, show_tables
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
@shared.declared(RunOptions, "workers")
@shared.json_flag
def check(env: str, static: bool, workers: int, as_json: bool, **options: Any) -> None:
    """Find broken and suspicious tasks of ENV.

    A task is broken if its gold fails, prints something else the second time or does not score, or
    if an agent that does nothing solves it. A person should read the suspicious tasks. `eval
    --exclude-broken` uses the result. ENV is bash, sql, python, ctf, harbor, module:Class or
    path.py:Class.
    """
    if static:
        from intercode.validate.check import check_texts

        findings = check_texts(env, **options)
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
    sys.exit(1 if findings["broken"] else 0)


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
    for row in result.get("hacks_not_played", ()):
        click.echo(f"not played on {count_of(row['tasks'], 'task')}: {row['hack']} ({row['why']})")
    for row in result.get("stays_behind", ()):
        more = f" and {len(row['tasks']) - _NAMED} more" if len(row["tasks"]) > _NAMED else ""
        click.echo(
            f"{'task' if len(row['tasks']) == 1 else 'tasks'} {', '.join(row['tasks'][:_NAMED])}"
            f"{more}: the tests do not get an agent's changes of {row['what']}"
        )


@click.command(cls=shared.Command)
@click.argument("env", callback=shared.own_name, shell_complete=completing("env"))
@shared.world()
@shared.declared(RunOptions, "workers")
@shared.json_flag
def attack(env: str, workers: int, as_json: bool, **options: Any) -> None:
    """Try reward hacks and sandbox escapes on ENV.

    After each attack, an honest action must still work. ENV is bash, sql, python, ctf, harbor,
    module:Class or path.py:Class.

    Exit status: 1 if an attack earns a reward, escapes or harms the honest action; 3 if an attack
    could not be tried.
    """
    from intercode.attacks.run import attack as try_all
    from intercode.attacks.suite import list_exploits
    from intercode.envs import environment_class

    exploits = list_exploits(environment_class(env).language, options.get("engine") or "")
    with bar("attacking", len(exploits), quiet=as_json) as advance:
        verdicts = try_all(env, workers=workers, tick=lambda: advance("attacking"), **options)
    counts = {
        "tried": sum(verdict.tried for verdict in verdicts),
        "paid": sum(verdict.paid for verdict in verdicts),
        "escaped": sum(verdict.escaped for verdict in verdicts),
        "harmed": sum(not verdict.honest for verdict in verdicts),
        "not_tried": sum(not (verdict.tried or verdict.moot) for verdict in verdicts),
        "moot": sum(verdict.moot for verdict in verdicts),
    }
    if as_json:
        fields = ("tried", "moot", "paid", "escaped", "honest", "why")
        rows = [
            {
                "name": verdict.exploit.name,
                "aim": verdict.exploit.aim,
                **{name: getattr(verdict, name) for name in fields},
            }
            for verdict in verdicts
        ]
        print_json({"env": env, **counts, "exploits": rows})
    else:
        from intercode.report.tables import Section

        rows = []
        for verdict in verdicts:
            result = "PAID" if verdict.paid else "ESCAPED" if verdict.escaped else "held"
            honest = "works" if verdict.honest else "FAILS"
            if not verdict.tried:
                result, honest = "moot" if verdict.moot else "not tried", ""
            name, aim = verdict.exploit.name, verdict.exploit.aim
            rows.append(
                {"attack": name, "tries to": aim, "result": result, "honest action": honest}
            )
        show_tables([Section("", rows)])
        for verdict in verdicts:
            if verdict.why:
                say(f"{verdict.exploit.name}: {verdict.why}")
        click.echo(", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items()))
    sys.exit(
        1
        if not all(verdict.held for verdict in verdicts)
        else 0
        if all(verdict.tried or verdict.moot for verdict in verdicts)
        else 3
    )
