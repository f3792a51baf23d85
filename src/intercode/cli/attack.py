"""`attack`: reward hacks and sandbox escapes, tried on an environment."""

from __future__ import annotations

import sys
from typing import Any

import click

from intercode.cli import options as shared
from intercode.cli.output import bar, print_json, say


@click.command(cls=shared.Command)
@click.argument("env", callback=shared.own_name)
@shared.data_options
@shared.protocol
@shared.scoring_options
@shared.workers
@shared.json_flag
def attack(env: str, workers: int, as_json: bool, **options: Any) -> None:
    """Try reward hacks and sandbox escapes on ENV.

    After each attack, an honest action must still work. ENV is bash, sql, python, ctf, module:Class or path.py:Class.

    Exit status: 1 if an attack earns a reward, escapes or harms the honest action; 3 if an attack could not be tried.
    """
    from intercode.attacks.run import attack as try_all
    from intercode.attacks.suite import list_exploits
    from intercode.envs import environment_class

    with bar("attacking", len(list_exploits(environment_class(env).language)), quiet=as_json) as advance:
        found = try_all(env, workers=workers, tick=lambda: advance("attacking"), **options)
    counts = {
        "tried": sum(each.tried for each in found),
        "paid": sum(each.paid for each in found),
        "escaped": sum(each.escaped for each in found),
        "harmed": sum(not each.honest for each in found),
        "not_tried": sum(not (each.tried or each.moot) for each in found),
        "moot": sum(each.moot for each in found),
    }
    if as_json:
        fields = ("tried", "moot", "paid", "escaped", "honest", "why")
        rows = [
            {"name": each.exploit.name, "aim": each.exploit.aim, **{name: getattr(each, name) for name in fields}}
            for each in found
        ]
        print_json({"env": env, **counts, "exploits": rows})
    else:
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table

        table = Table("attack", "tries to", "result", "honest action", box=SIMPLE_HEAD, pad_edge=False)
        for each in found:
            result = "PAID" if each.paid else "ESCAPED" if each.escaped else "held"
            honest = "works" if each.honest else "FAILS"
            if not each.tried:
                result, honest = "moot" if each.moot else "not tried", ""
            table.add_row(each.exploit.name, each.exploit.aim, result, honest)
        Console().print(table)
        for each in found:
            if each.why:
                say(f"{each.exploit.name}: {each.why}")
        click.echo(", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items()))
    sys.exit(1 if not all(each.held for each in found) else 0 if all(each.tried or each.moot for each in found) else 3)
