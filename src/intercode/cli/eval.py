"""`eval` lets an agent act on tasks; `score` plays actions that were predicted beforehand."""

from __future__ import annotations

import sys
from contextlib import ExitStack, suppress
from typing import Any

import click

from intercode.cli import options as shared
from intercode.cli.completion import completing
from intercode.cli.options import own_name
from intercode.cli.output import resumable, say, show_reasons, show_summaries
from intercode.cli.progress import progress
from intercode.errors import IntercodeError, UsageError
from intercode.options import RunOptions


@click.command("eval", cls=shared.Command)
@shared.env_argument
@shared.world()
@shared.declared(RunOptions)
@shared.run_folder("runs/ENV-AGENT-TIME")
@click.option(
    "--retry-errors/--no-retry-errors",
    default=True,
    help=(
        "With --resume: "
        "play episodes that ended in an error again (the default), or leave them as they are."
    ),
)
@shared.allow_code_change
@shared.json_flag
def eval_command(env: str, **options: Any) -> None:
    """Let an agent act on the tasks of ENV, and score it.

    ENV is bash, sql, python, ctf, harbor, module:Class or path.py:Class.
    """
    if options["agent"] == "human":
        raise UsageError(f"a human plays with `intercode play {env}`")
    _run(env, **options)


@click.command(cls=shared.Command)
@click.argument("predictions", type=shared.EXISTING_FILE)
@click.option(
    "--env",
    callback=own_name,
    required=True,
    metavar="ENV",
    help=shared.ENV_HELP,
    shell_complete=completing("env"),
)
@shared.world()
@shared.declared(RunOptions, "exclude_broken", "workers")
@click.option(
    "--only-predicted", is_flag=True, help="Use only the tasks that PREDICTIONS has an action for."
)
@shared.run_folder("runs/ENV-AGENT-TIME")
@shared.allow_code_change
@shared.json_flag
def score(predictions: str, env: str, only_predicted: bool, **options: Any) -> None:
    """Score actions that were predicted beforehand.

    PREDICTIONS is a file with one action for each task: JSON lines or a JSON list of {"task": ID,
    "action": TEXT}, or plain lines or a JSON list of texts in the order of the tasks.
    """
    if only_predicted:
        from intercode.rescoring.recordings import predicted_tasks

        options["task"] = predicted_tasks(predictions)
    _run(env, agent=f"static:{predictions}", turns=1, **options)


def _run(
    env: str,
    *,
    out: str | None,
    resume: str | None,
    allow_code_change: bool,
    workers: int,
    as_json: bool,
    exclude_broken: bool,
    retry_errors: bool = True,
    on: str = "local",
    hosts: int | None = None,
    **options: Any,
) -> None:
    import shlex

    from intercode.report.summary import lean, summary
    from intercode.report.text import count_of
    from intercode.report.turns import is_cut_off
    from intercode.runner.run import is_played
    from intercode.runs.evaluation import Evaluation
    from intercode.runs.index import Index, indexing
    from intercode.runs.signing import key_fault
    from intercode.runs.trust import settings_that_need_trust

    evaluation = Evaluation.plan(env, **options)
    if exclude_broken:
        evaluation.exclude_broken(workers=workers)
    if left_out := evaluation.config.get("left_out"):
        click.echo(f"intercode: {len(left_out)} tasks are left out (run.json says why)", err=True)
    evaluation.config["options"] = shared.options_to_store()
    with ExitStack() as opened:
        planned = {"env": env, **options}
        executor = opened.enter_context(
            evaluation.executor(planned, workers=workers, on=on, hosts=hosts)
        )
        store = opened.enter_context(
            evaluation.open(
                out, resume=bool(resume), workers=workers, allow_code_change=allow_code_change
            )
        )
        begun = " (it held no run: a new one begins)" if resume and store.begins else ""
        say(f"run: {store.path}{begun}", err=True)
        total = evaluation.planned
        earlier = lean(
            episode for episode in store.episodes() if is_played(episode, retry_errors=retry_errors)
        )
        index = Index(store.path, evaluation.config)
        if store.begins and settings_that_need_trust(evaluation.config) and (fault := key_fault()):
            say(
                f"intercode: the run is not signed, so --resume will ask for --trust: {fault}",
                err=True,
            )
        nodes = executor.line if executor else None
        with (
            resumable(store.path),
            progress(total, earlier, model=evaluation.model, quiet=as_json, nodes=nodes) as tick,
        ):
            watch = indexing(index, tick)
            config, played = evaluation.run(
                store,
                workers=workers,
                on_episode=watch,
                retry_errors=retry_errors,
                executor=executor,
            )
            for note in executor.notes() if executor else ():
                say(f"intercode: {note}", err=True)
        with suppress(IntercodeError):
            index.update()
        episodes = lean(played)
    figures = summary(config, episodes)
    show_summaries([figures], as_json)
    show_reasons(episodes)
    failed = sum(episode.reward is not None and not episode.success for episode in episodes)
    faults = sum((episode.error or "").startswith("data") for episode in episodes)
    excluded = sum(why.startswith("gold_") for why in config.get("excluded", {}).values())
    if config["agent"] == "gold" and failed + faults + excluded:
        data = f" --data {shlex.quote(options['data'])}" if options.get("data") else ""
        say(
            f"intercode: {count_of(failed + faults + excluded, 'gold')} failed; "
            f"`intercode check {env}{data}` says why",
            err=True,
        )
    if not as_json:
        # of what a reader looks for, the first that there is
        flag = " --failed" if failed else " --ended error" if figures["errors"] else ""
        what = "the failed episodes" if failed else "the errors" if flag else "the episodes"
        say(f"next: `intercode show {shlex.quote(str(store.path))}{flag}` lists {what}")
    if shortened := sum(any(turn.left_out for turn in episode.turns) for episode in episodes):
        plural = "1 conversation was" if shortened == 1 else f"{shortened} conversations were"
        click.echo(
            f"intercode: {plural} too long for the model or its limits; "
            "the oldest parts were left out (see left_out)",
            err=True,
        )
    replies = [turn for episode in episodes for turn in episode.turns if turn.finish_reason]
    if cut := sum(map(is_cut_off, replies)):
        limit = "raise" if options.get("reply_tokens") else "set"
        say(
            f"intercode: {cut} of {count_of(len(replies), 'reply', 'replies')} reached their "
            f"token limit, so nothing in them was executed; {limit} --reply-tokens",
            err=True,
        )
    if evaluation.stopped:
        say(
            f"intercode: stopped early: {evaluation.stopped}; "
            f"continue with {shared.resume_line(store.path)}",
            err=True,
        )
    if evaluation.fault:
        raise evaluation.fault
    sys.exit(3 if figures["errors"] else 0)
