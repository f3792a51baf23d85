"""Commands that execute again what is known: `check` golds, `replay` a recording."""

from __future__ import annotations

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
    if out:
        _require_place(out)
    found = _read(env, options, as_json) if static else _examined(env, options, workers, as_json)
    if out:
        _write_report(out, found, f"{env}: {options['data'] or 'starter set'}")
    sys.exit(1 if found["broken"] else 0)


def _read(env: str, options: dict[str, Any], as_json: bool) -> dict[str, Any]:
    from intercode.runner.check import look

    _say_unheeded(env, options)
    furnished = bool(options["tree"] or options["image"])
    found = look(
        env, furnished=furnished, **{name: options[name] for name in ("data", "gold_fields", "limit", "task", "assets")}
    )
    _show_findings(found, as_json)
    return found


def _say_unheeded(env: str, options: dict[str, Any]) -> None:
    """What decides how golds are executed says nothing of texts; of files, that there are some."""
    from intercode.envs import environment_class

    files = {"assets", "tree", "image", "everything"} if environment_class(env).language == "ctf" else set()
    heeded = {"data", "gold_fields", "limit", "task", *files}
    given = [f"--{name}" for name, value in options.items() if value and name not in heeded and value != "submit"]
    if given:
        say(f"intercode: --static executes nothing, so it does not heed {', '.join(sorted(given))}", err=True)


def _examined(env: str, options: dict[str, Any], workers: int, as_json: bool) -> dict[str, Any]:
    """What is found is shown before it is kept: a cache that takes nothing costs the next `eval` a check, no more."""
    from intercode.runner.check import check, passes
    from intercode.runner.exclusion import remember
    from intercode.runner.selection import prepare_some

    setting = prepare_some(env, max_turns=None, **options)
    with bar("checking", passes(setting.tasks), quiet=as_json) as advance:
        found = check(setting, setting.tasks, left_out=setting.left_out, workers=workers, tick=lambda: advance("checking"))
    _show_findings(found, as_json, unplayed=len({task.id for task, _ in setting.left_out}))
    try:
        remember(env, setting, found)
    except OSError as error:
        say(f"intercode: the findings cannot be kept for --exclude-broken ({error})", err=True)
    return found


def _require_place(file: str) -> None:
    """Before the work, not after it."""
    import os

    from intercode.errors import UsageError

    folder = os.path.dirname(os.path.abspath(file))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{file} cannot be written: {folder} is no folder that can be written to")


def _write_report(file: str, found: dict[str, Any], title: str) -> None:
    from pathlib import Path

    from intercode.report.findings import markdown

    with written(file):
        Path(file).write_text(markdown(found, title), "utf-8")


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
    from intercode.runner.replay import prepare_replay
    from intercode.runner.replay import replay as execute

    find_own_modules()
    recording, setting, tasks = prepare_replay(log, env, **options)
    with progress(len(tasks), quiet=as_json) as tick:
        found = execute(recording, setting, tasks, workers=workers, on_episode=tick)
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
