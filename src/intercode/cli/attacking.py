"""`attack`: reward hacks and escapes, tried on an environment."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from intercode.cli.options import in_here, json_flag, protocol, scoring, workers, world
from intercode.cli.show import bar, print_json, say

if TYPE_CHECKING:
    from intercode.attacks.run import Verdict


@click.command()
@click.argument("env", callback=in_here)
@world
@protocol
@scoring
@workers
@json_flag
def attack(env: str, workers: int, as_json: bool, **options: Any) -> None:
    """Try reward hacks and escapes on ENV (bash, sql, python, ctf, module:Class or path.py:Class), and an honest step after
    each.

    Exit status 1 if one pays, escapes or harms the next honest step; 3 if one could not be tried.
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
        _show(found)
        click.echo(", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items()))
    sys.exit(1 if not all(each.held for each in found) else 0 if all(each.tried or each.moot for each in found) else 3)


def _show(found: list[Verdict]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    made = Table("mechanism", "tried to", "came of it", "honest step", box=SIMPLE_HEAD, pad_edge=False)
    for each in found:
        came = "PAID" if each.paid else "ESCAPED" if each.escaped else "held"
        honest = "works" if each.honest else "FAILS"
        if not each.tried:
            came, honest = "moot" if each.moot else "not tried", ""
        made.add_row(each.exploit.name, each.exploit.aim, came, honest)
    Console().print(made)
    for each in found:
        if each.why:
            say(f"{each.exploit.name}: {each.why}")


COMMANDS = (attack,)
