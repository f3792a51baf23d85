"""Commands that make something new of a run: `export` for other programs, `rescore` under another reward."""

from __future__ import annotations

import sys
from typing import Any

import click

from intercode.cli.options import FOLDER, TEXT, find_own_modules, given_options, json_flag, out, workers, world


@click.command()
@click.argument("run", type=FOLDER)
@click.option(
    "--format",
    "form",
    type=click.Choice(["sft", "chat", "jsonl", "parquet", "intercode"]),
    required=True,
    help="sft: prompt and completion for each reply; chat: whole conversations with weights; jsonl, parquet: one turn a row; "
    "intercode: a log as the first system wrote it.",
)
@click.option("--only", type=click.Choice(["all", "successful", "human"]), default="all", show_default=True)
@click.option("--output", type=click.Path(dir_okay=False), metavar="FILE", help="[stdout]")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def export(run: str, form: str, only: str, output: str | None, force: bool) -> None:
    """Write the episodes of RUN that have a result as training data, or as a table for analysis."""
    from intercode.export import export_run

    episodes, rows = export_run(run, form, only=only, output=output, force=force)
    click.echo(f"intercode: {rows} rows from {episodes} episodes" + (f" in {output}" if output else ""), err=True)


@click.command()
@click.argument("run", type=FOLDER)
@click.option("--reward", type=click.Choice(["exact", "paper"]), help="Into a new run.")
@click.option(
    "--judge", type=TEXT, metavar="MODEL", help="Ask MODEL where `exact` was unsure; what it says goes into RUN/judged/."
)
@world
@workers
@out("runs/ENV-AGENT-REWARD-TIME")
@click.option("--force", is_flag=True, help="Score on another userland than the run's all the same.")
@json_flag
def rescore(
    run: str,
    reward: str | None,
    judge: str | None,
    workers: int,
    out: str | None,
    resume: str | None,
    force: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Score RUN by another reward, into a new run: from what was recorded where that decides it, else by executing it again.

    Or have a model judge the answers that `exact` was unsure of: no reward is changed by it. Options about data are the run's
    own unless they are given.
    """
    find_own_modules()
    if (reward is None) == (judge is None):
        raise click.UsageError("give --reward or --judge")
    if reward is None:
        _judge(run, str(judge), force, as_json, options)
        return
    from pathlib import Path

    from intercode.cli.show import print_json, progress, resumable, say
    from intercode.evaluation import new_folder
    from intercode.report import summary
    from intercode.rescoring.rescore import Rescoring
    from intercode.store import RunStore

    todo = Rescoring(run, reward, force=force, **options)
    folder = out or new_folder(Path("runs"), todo.env, f"{todo.config['agent']}-{reward}")
    config = {**todo.config, "run": str(folder), "options": given_options()}
    with RunStore.create(folder, config, resume=bool(resume)) as store:
        with resumable(store.path), progress(len(todo.episodes), quiet=as_json) as tick:
            done = todo.run(store, workers=workers, tick=tick)
        found = summary({**todo.config, "run": str(folder)}, [each.episode for each in done])
    rows = [each.row() for each in done]
    if as_json:
        print_json({**found, "rescored_from": run, "rescored": rows})
    else:
        for row in rows:
            name = f"task {row['task']}" + (f" epoch {row['epoch']}" if row["epoch"] else "")
            if row["reward"] is None:
                say(f"{name}: {row['how']}, no result: {row['error'] or 'cut off'}")
                continue
            note = "" if row["differs"] is None else f" (turn {row['differs']} printed something else)"
            say(f"{name}: {row['how']}, {row['recorded']:.2f} then, {row['reward']:.2f} now{note}")
        then, pairs = summary({}, todo.episodes), []
        for name, key, form in (("success", "success_rate", ".1%"), ("mean reward", "mean_reward", ".3f")):
            old, new = ("–" if each[key] is None else format(each[key], form) for each in (then, found))
            pairs.append(f"{name} {old} then, {new} now")
        click.echo(f"{'; '.join(pairs)}\nrun: {folder}")
    sys.exit(3 if found["errors"] else 0)


def _judge(run: str, name: str, force: bool, as_json: bool, options: dict[str, Any]) -> None:
    from intercode.cli.show import print_json, say
    from intercode.models import make_model
    from intercode.rescoring.judge import judge_run, summary
    from intercode.store import read_run

    model = make_model(name)
    verdicts = judge_run(run, model, force=force, **options)
    found = summary(run, model, read_run(run)[1], verdicts)
    if as_json:
        print_json(found)
        return
    for each in verdicts:
        none = "no verdict" if each.reply is not None else "no verdict: too long to be shown whole, so not asked"
        say(f"task {each.task}{f' epoch {each.epoch}' if each.epoch else ''}: {each.says or none}")
    words = f"{found['same']} the same, {found['different']} different, {found['none']} without a verdict"
    click.echo(
        f"solved: {found['solved']} of {found['episodes']}, which no judge changes\njudged: {found['unsure']} unsure: {words}"
    )
    if any(each.reply is not None and each.says is None for each in verdicts):
        click.echo(f"a reply in another form is kept as well: to have it asked again, remove {run}/judged/replies.jsonl")


COMMANDS = (export, rescore)
