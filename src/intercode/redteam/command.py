"""`attack` tries reward hacks and sandbox escapes."""

from __future__ import annotations

import sys
from typing import Any

import click

from intercode.cli import options as shared
from intercode.cli.completion import completing
from intercode.cli.output import bar, print_json, say, show_tables
from intercode.options import RunOptions


@shared.command()
@click.argument("env", callback=shared.own_name, shell_complete=completing("env"))
@shared.world()
@shared.declared(RunOptions, "workers")
@click.option("--values", is_flag=True, help="Ask for the value after each action too.")
@shared.json_flag
def attack(env: str, workers: int, values: bool, as_json: bool, **options: Any) -> None:
    """Try reward hacks and sandbox escapes on ENV.

    After each attack, an honest action must still work. ENV is bash, sql, python, ctf, harbor,
    module:Class or path.py:Class.

    Exit status: 1 if an attack earns a reward, escapes or harms the honest action; 3 if an attack
    could not be tried.
    """
    from intercode.envs import environment_class
    from intercode.redteam.run import attack as try_all
    from intercode.redteam.suite import list_exploits

    owner = environment_class(env)
    exploits = list_exploits(owner.language, options.get("engine") or "")
    with bar("attacking", len(exploits), quiet=as_json) as advance:
        verdicts = try_all(
            env, workers=workers, values=values, tick=lambda: advance("attacking"), **options
        )
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
        if ":" in env and not owner.language.shell:
            say(f"attacks on the sandbox were left out: {owner.__name__}.language has no `shell`")
        click.echo(", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items()))
    sys.exit(
        1
        if not all(verdict.held for verdict in verdicts)
        else 0
        if all(verdict.tried or verdict.moot for verdict in verdicts)
        else 3
    )
