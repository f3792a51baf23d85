"""Commands for finished runs: `report` shows them, `merge` joins shards, `replay` and `rescore`
execute and score them again."""

from __future__ import annotations

import sys
from typing import Any

import click

from intercode.cli import options as shared
from intercode.cli.output import (
    print_json,
    resumable,
    say,
    show_reasons,
    show_summaries,
    show_tables,
    writing,
)
from intercode.cli.progress import progress
from intercode.doors import part
from intercode.errors import UsageError
from intercode.options import RunOptions
from intercode.plugins import find_own_modules
from intercode.reading import present, read_entries


@shared.command()
@click.argument("runs", nargs=-1, required=True, type=shared.RUN_PATH, metavar="RUN...")
@click.option(
    "--force",
    is_flag=True,
    help="Compare runs although their sandboxes had different programs (userlands).",
)
@click.option(
    "--html", type=shared.NEW_FILE, metavar="FILE", help="Also write the report as one web page."
)
@click.option(
    "--plots",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Also write each chart as an SVG file to DIR.",
)
@shared.json_flag
def report(
    runs: tuple[str, ...], force: bool, html: str | None, plots: str | None, as_json: bool
) -> None:
    """Show results: one run in detail, or several side by side.

    RUN is a run folder, a folder that contains runs, ATIF trajectories (a file, or a folder), or a
    log file of InterCode v1. Each run after the first is compared with the first, task by task:
    "B minus A" for `report A B`.
    """
    from intercode.report.analysis import side_by_side
    from intercode.report.summary import lean, load_run, require_comparable, runs_in

    if html:
        try:
            page = part("page")
        except ImportError as error:
            raise shared.lacks_viewer("--html", error) from error
        if present(html) == "file" and not html.lower().endswith((".html", ".htm")):
            raise UsageError(f"{html} exists and is not a page; name a file that ends in .html")
    loaded = []
    for folder in runs:
        loaded += list(read_entries(runs_in(folder), load_run))
    require_comparable([config for config, _ in loaded], force=force)
    figured = [(config, lean(episodes)) for config, episodes in loaded]
    whole = side_by_side(figured)
    if html:
        with writing(html), open(html, "w", encoding="utf-8") as file:
            file.write(page(whole, loaded))
        say(f"intercode: the page is in {html}", err=True)
    if plots:
        from intercode.report.charts import draw

        with writing(plots):
            draw(whole, plots)
    if as_json:
        print_json(whole["runs"][0] if len(loaded) == 1 else whole)
    else:
        from intercode.report.tables import comparison, comparisons, details

        show_summaries(whole["runs"], as_json=False)
        if len(loaded) == 1:
            show_tables(details(whole["runs"][0]["analysis"]))
        elif "comparison" in whole:
            show_tables(comparison(whole))
        else:
            show_tables(comparisons(whole))
    for config, episodes in figured:
        show_reasons(episodes, f" in {config['run']}" * (len(loaded) > 1))


@shared.command()
@click.argument("log", type=shared.RUN_PATH)
@click.option(
    "--env", callback=shared.own_name, metavar="ENV", help=f"{shared.ENV_HELP} [the recording's]"
)
@shared.world(leave="split protocol")
@shared.declared(RunOptions, "workers")
@shared.trust
@shared.json_flag
def replay(log: str, env: str | None, workers: int, as_json: bool, **options: Any) -> None:
    """Execute the actions of a run again, and compare.

    LOG is a run folder, ATIF trajectories (a file, or a folder), or a log file of InterCode v1. The
    output and the score of each turn are compared with the recorded ones. Settings are the
    recording's (for a log of InterCode v1: the paper's) unless you give an option.
    """
    from intercode.rescoring.replay import prepare_replay
    from intercode.rescoring.replay import replay as execute

    find_own_modules()
    recording, factory, tasks = prepare_replay(log, env, trust=shared.is_trusted(), **options)
    if present(log) == "file":
        for key, what in recording.settings.get("left_out", {}).items():
            say(f"left out of episode {key}: {what}", err=True)
    with progress(len(tasks), quiet=as_json) as tick:
        result = execute(recording, factory, tasks, workers=workers, on_episode=tick)
    if as_json:
        print_json(result)
        return
    for row in result["disagreements"]:
        line = "task {task} turn {turn}: {recorded} then, {replayed} now: {action!r}"
        say(line.format_map(row))
    rewards, before = "no rewards are recorded", "unknown"
    if result["agreement"] is not None:
        rewards = "{agree} of {turns} rewards agree ({agreement:.1%})".format_map(result)
        before = f"{result['recorded_success_rate']:.1%}"
    click.echo(
        f"{rewards}, {result['observations_equal']} observations are equal; success "
        f"{before} then, {result['replayed_success_rate']:.1%} now"
    )


@shared.command()
@click.argument("runs", nargs=-1, required=True, type=shared.EXISTING_FOLDER, metavar="RUN...")
@click.option(
    "--out",
    required=True,
    metavar="DIR",
    help="Write the run to this new folder.",
)
@shared.trust
@shared.json_flag
def merge(runs: tuple[str, ...], out: str, as_json: bool) -> None:
    """Merge the shards that `eval --shard` played into one run.

    Settings, data and userland of the shards must be the same. Exit status 1 if episodes are
    missing; the command that plays them is printed.
    """
    from pathlib import Path

    from intercode.report.summary import lean, load_run, summary
    from intercode.runner.shards import merge_runs
    from intercode.runs.index import Index

    config, missing = merge_runs(runs, out, trust=shared.is_trusted())
    episodes = lean(load_run(out)[1])
    Index(Path(out), config).update()
    show_summaries([summary(config, episodes)], as_json)
    show_reasons(episodes)
    if missing:
        names = [f"{task}{f' (epoch {epoch})' * bool(epoch)}" for task, epoch in missing[:10]]
        if len(missing) > 10:
            names.append("…")
        are = "episode is" if len(missing) == 1 else "episodes are"
        say(
            f"intercode: {len(missing)} {are} missing: {', '.join(names)}; "
            f"play the rest with {shared.resume_line(out, 'eval')}",
            err=True,
        )
    sys.exit(1 if missing else 0)


@shared.command()
@click.argument("run", type=shared.EXISTING_FOLDER)
@click.option(
    "--reward",
    metavar="exact|paper|NAME",
    help="Score by this reward of the environment, and write a new run.",
)
@click.option(
    "--judge",
    metavar="MODEL",
    help=(
        "Ask MODEL about the ambiguous answers, and write its verdicts to RUN/judged/. "
        "No reward changes."
    ),
)
@shared.world(leave="split protocol session reward sandbox submits tell")
@shared.declared(RunOptions, "workers")
@shared.run_folder("runs/ENV-AGENT-REWARD-TIME")
@click.option(
    "--force",
    is_flag=True,
    help="Score although the programs of the sandbox (its userland) differ from the run's.",
)
@shared.json_flag
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
    """Score a run with another reward, or let a model judge it.

    The score comes from what RUN recorded; where that is not enough, the actions are executed
    again. Options about data are RUN's own unless you give them.
    """
    find_own_modules()
    if (reward is None) == (judge is None):
        raise click.UsageError("give --reward or --judge")
    if reward is None:
        _judge(run, str(judge), force, as_json, options)
        return
    from pathlib import Path

    from intercode.report.summary import lean, summary
    from intercode.rescoring.rescore import Rescoring
    from intercode.runs.evaluation import new_folder
    from intercode.runs.store import RunStore

    rescoring = Rescoring(run, reward, force=force, trust=shared.is_trusted(), **options)
    config = rescoring.config
    folder = out or new_folder(Path("runs"), rescoring.env, f"{config['agent']}-{reward}")
    config["run"] = str(folder)
    stored = {**config, "options": shared.options_to_store()}
    with RunStore.create(folder, stored, resume=bool(resume), sign=rescoring.signs) as store:
        earlier = lean(episode for episode in store.episodes() if episode.reward is not None)
        total = len(rescoring.episodes)
        with resumable(store), progress(total, earlier, quiet=as_json) as tick:
            rows = rescoring.run(store, workers=workers, tick=tick)
        after = summary(config, store.episodes())
    if as_json:
        print_json({**after, "rescored_from": run, "rescored": rows})
    else:
        for row in rows:
            say(_rescored(row))
        before, pairs = summary({}, rescoring.episodes), []
        scores = ("success", "success_rate", ".1%"), ("mean reward", "mean_reward", ".3f")
        for name, key, form in scores:
            shown = []
            for value in (before[key], after[key]):
                shown.append("–" if value is None else format(value, form))
            pairs.append(f"{name} {shown[0]} then, {shown[1]} now")
        click.echo(f"{'; '.join(pairs)}\nrun: {folder}")
    sys.exit(3 if after["errors"] else 0)


def _rescored(row: dict[str, Any]) -> str:
    """Return a line on an episode that was scored again."""
    name = _name_of(row["task"], row["epoch"])
    if row["reward"] is None:
        return f"{name}: {row['how']}, no result: {row['error'] or 'cut off'}"
    line = "{how}, {recorded:.2f} then, {reward:.2f} now"
    if row["differs"] is not None:
        line += " (turn {differs} printed something else)"
    return f"{name}: {line.format_map(row)}"


def _name_of(task: str, epoch: int) -> str:
    return f"task {task} epoch {epoch}" if epoch else f"task {task}"


def _judge(run: str, name: str, force: bool, as_json: bool, options: dict[str, Any]) -> None:
    from intercode.models import make_model
    from intercode.rescoring.judge import judge_run, summary
    from intercode.runs.store import stream_run

    model = make_model(name)
    verdicts = judge_run(run, model, force=force, trust=shared.is_trusted(), **options)
    figures = summary(run, model, stream_run(run)[1], verdicts)
    if as_json:
        print_json(figures)
        return
    unreadable = False
    for verdict in verdicts:
        says = str(verdict.says or "no verdict")
        if verdict.reply is None:
            says = "no verdict: too long to be read whole, so not asked"
        elif not verdict.says:
            unreadable = True
        say(f"{_name_of(verdict.task, verdict.epoch)}: {says}")
    lines = (
        "solved: {solved} of {episodes}, which no judge changes\n"
        "judged: {ambiguous} ambiguous: {same} the same, {different} different, "
        "{none} without a verdict"
    )
    click.echo(lines.format_map(figures))
    if unreadable:
        click.echo(
            f"unreadable replies are kept too: to ask again, remove {run}/judged/replies.jsonl"
        )
