"""Commands that execute again what is known: `check` golds, `replay` a recording."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from intercode.cli.options import (
    ENV_HELP,
    NEW_FILE,
    THERE,
    find_own_modules,
    in_here,
    json_flag,
    protocol,
    scoring,
    task,
    workers,
    world,
)
from intercode.cli.show import bar, print_json, progress, say, written
from intercode.errors import UsageError


@click.command()
@click.argument("env", callback=in_here)
@world
@task
@protocol
@scoring
@click.option("--static", is_flag=True, help="Look at the texts alone: execute nothing, so that no databases are needed.")
@click.option("--out", type=NEW_FILE, metavar="FILE", help="Also write a report (Markdown).")
@workers
@json_flag
def check(env: str, static: bool, out: str | None, workers: int, as_json: bool, **options: Any) -> None:
    """Find broken tasks: golds that fail, differ between executions or do not score, tasks that doing nothing solves; and
    suspicious ones, which a person should look at. The findings are kept for `eval --exclude-broken`."""
    if out and not os.access(folder := os.path.dirname(os.path.abspath(out)), os.W_OK | os.X_OK):
        raise UsageError(f"{out} cannot be written: {folder} is no folder that can be written to")
    if static:
        found = _look(env, options)
        _show_findings(found, as_json)
    else:
        from intercode.runner.selection import prepare_some
        from intercode.validate import check as checks
        from intercode.validate.validation_cache import remember

        factory = prepare_some(env, max_turns=None, **options)
        left_out, tasks = factory.left_out, factory.tasks
        with bar("checking", checks.passes(tasks), quiet=as_json) as advance:
            found = checks.check(factory, tasks, left_out=left_out, workers=workers, tick=lambda: advance("checking"))
        _show_findings(found, as_json, unplayed=len({task.id for task, _ in left_out}))
        try:
            remember(env, factory, found)
        except OSError as error:  # a cache that takes nothing costs the next `eval` a check, no more
            say(f"intercode: the findings cannot be kept for --exclude-broken ({error})", err=True)
    if out:
        from intercode.report.findings import markdown

        with written(out), open(out, "w", encoding="utf-8") as file:
            file.write(markdown(found, f"{env}: {options['data'] or 'starter set'}"))
    sys.exit(1 if found["broken"] else 0)


def _look(env: str, options: dict[str, Any]) -> dict[str, Any]:
    """Look at the texts alone. What decides how golds are executed says nothing of them; of files, that there are some."""
    from intercode.envs import environment_class
    from intercode.validate.check import look

    files = {"assets", "tree", "image", "everything"} if environment_class(env).language == "ctf" else set()
    heeded = {"data", "gold_fields", "limit", "task", *files}
    if given := [f"--{name}" for name, value in options.items() if value and name not in heeded and value != "submit"]:
        say(f"intercode: --static executes nothing, so it does not heed {', '.join(sorted(given))}", err=True)
    chosen = {name: options[name] for name in ("data", "gold_fields", "limit", "task", "assets")}
    return look(env, furnished=bool(options["tree"] or options["image"]), **chosen)


def _show_findings(found: dict[str, Any], as_json: bool, unplayed: int = 0) -> None:
    if as_json:
        print_json(found)
        return
    for severity in ("broken", "suspicious"):
        for finding in found[severity]:
            say(f"task {finding['task']}: {severity}, {finding['kind']}: {finding['why']}")
    if found["gold_ok"] is None:
        click.echo(f"{found['tasks']} tasks: their texts alone were looked at")
        return
    left_out = f", {unplayed} of which cannot be played (--all tries)" if unplayed else ""
    click.echo(
        f"{found['tasks']} tasks{left_out}: gold succeeds on {found['gold_ok']}, {found['nondeterministic']} differ between "
        f"two executions, doing nothing succeeds on {found['noop_paid']}"
    )


@click.command()
@click.argument("log", type=THERE)
@click.option("--env", callback=in_here, metavar="ENV", help=f"{ENV_HELP} [the recording's]")
@world
@scoring
@workers
@json_flag
def replay(log: str, env: str | None, workers: int, as_json: bool, **options: Any) -> None:
    """Execute a recording again (a run folder, or the first system's log) and compare it turn by turn.

    Protocol, reward and session are the recording's own (a log of the first system: the paper's); --reward and --session
    change the latter two. So are the options about data of a run folder, unless they are given.
    """
    from intercode.rescoring.replay import prepare_replay
    from intercode.rescoring.replay import replay as execute

    find_own_modules()
    recording, factory, tasks = prepare_replay(log, env, **options)
    with progress(len(tasks), quiet=as_json) as tick:
        found = execute(recording, factory, tasks, workers=workers, on_episode=tick)
    if as_json:
        print_json(found)
        return
    for row in found["disagreements"]:
        say(f"task {row['task']} turn {row['turn']}: {row['recorded']} then, {row['replayed']} now: {row['action']!r}")
    click.echo(
        f"{found['agree']} of {found['turns']} rewards agree ({found['agreement']:.1%}), "
        f"{found['observations_equal']} observations are equal; success {found['recorded_success_rate']:.1%} then, "
        f"{found['replayed_success_rate']:.1%} now"
    )


COMMANDS = (check, replay)
