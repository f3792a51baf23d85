"""`attack` tries reward hacks and sandbox escapes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from intercode.cli import options as shared
from intercode.cli.completion import completing
from intercode.cli.output import bar, print_json, say, show_tables
from intercode.options import RunOptions

if TYPE_CHECKING:
    from intercode.redteam.run import ExploitResult

_FACTS = ("tried", "moot", "paid", "escaped", "honest", "why")


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
    counts = dict.fromkeys(("tried", "paid", "escaped", "harmed", "not_tried", "moot"), 0)
    rows = []
    table = []
    for verdict in verdicts:
        counts["tried"] += verdict.tried
        counts["paid"] += verdict.paid
        counts["escaped"] += verdict.escaped
        counts["harmed"] += not verdict.honest
        counts["not_tried"] += not (verdict.tried or verdict.moot)
        counts["moot"] += verdict.moot
        facts = {name: getattr(verdict, name) for name in _FACTS}
        rows.append({"name": verdict.exploit.name, "aim": verdict.exploit.aim, **facts})
        result, honest = _outcome(verdict)
        table.append(
            {
                "attack": verdict.exploit.name,
                "tries to": verdict.exploit.aim,
                "result": result,
                "honest action": honest,
            }
        )
    if as_json:
        print_json({"env": env, **counts, "exploits": rows})
    else:
        from intercode.report.tables import Section

        show_tables([Section("", table)])
        for verdict in verdicts:
            if verdict.why:
                say(f"{verdict.exploit.name}: {verdict.why}")
        if ":" in env and not owner.language.shell:
            say(f"attacks on the sandbox were left out: {owner.__name__}.language has no `shell`")
        click.echo(", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items()))
    if counts["paid"] or counts["escaped"] or counts["harmed"]:
        sys.exit(1)
    if counts["not_tried"]:
        sys.exit(3)


def _outcome(verdict: ExploitResult) -> tuple[str, str]:
    """Return the words for the result, and for the honest action."""
    if verdict.moot:
        return "moot", ""
    if not verdict.tried:
        return "not tried", ""
    honest = "works" if verdict.honest else "FAILS"
    if verdict.paid:
        return "PAID", honest
    return "ESCAPED" if verdict.escaped else "held", honest
