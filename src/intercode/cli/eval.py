"""`eval` lets an agent act on tasks; `score` plays actions that were predicted beforehand."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from intercode.cli import options as shared
from intercode.cli.completion import completing
from intercode.cli.grid import GridCommand, config_options
from intercode.cli.options import own_name
from intercode.cli.output import resumable, say, show_reasons, show_summaries
from intercode.cli.progress import progress
from intercode.errors import IntercodeError, UsageError
from intercode.options import RunOptions

if TYPE_CHECKING:
    from intercode.runs.evaluation import Evaluation
    from intercode.types import Episode


@click.command("eval", cls=GridCommand)
@shared.env_argument
@shared.world()
@shared.declared(RunOptions)
@shared.run_folder("runs/ENV-AGENT-TIME")
@config_options
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
def eval_command(env: str, **options: Any) -> Callable[..., int]:
    """Let an agent act on the tasks of ENV, and score it.

    ENV is bash, sql, python, ctf, harbor, module:Class or path.py:Class.
    """
    if options["agent"] == "human":
        raise UsageError(f"a human plays with `intercode play {env}`")
    return _plan(env, **options)


@shared.command()
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
    sys.exit(_plan(env, agent=f"static:{predictions}", turns=1, **options)())


def _plan(
    env: str,
    *,
    out: str | None,
    resume: str | None,
    allow_code_change: bool,
    as_json: bool,
    retry_errors: bool = True,
    **options: Any,
) -> Callable[..., int]:
    """Plan a run; return `_play` for it."""
    from intercode.runs.evaluation import Evaluation

    return partial(
        _play,
        Evaluation.plan(env, **options),
        out=out,
        resume=bool(resume),
        allow_code_change=allow_code_change,
        as_json=as_json,
        retry_errors=retry_errors,
    )


def _play(
    evaluation: Evaluation,
    *,
    out: str | None,
    resume: bool,
    allow_code_change: bool,
    as_json: bool,
    retry_errors: bool,
) -> int:
    """Play a run and report it; return the exit status."""
    from intercode.envs import environment_class
    from intercode.factory import misspelt_fields
    from intercode.report.summary import lean
    from intercode.runner.run import is_played
    from intercode.runs.index import Index, indexing
    from intercode.runs.signing import key_fault
    from intercode.runs.trust import settings_that_need_trust

    if evaluation.options.exclude_broken:
        evaluation.exclude_broken()
    if left_out := evaluation.config.get("left_out"):
        _note(f"{len(left_out)} tasks are left out (run.json says why)")
    evaluation.config["options"] = shared.options_to_store()
    with (
        evaluation.executor() as executor,
        evaluation.open(out, resume=resume, allow_code_change=allow_code_change) as store,
    ):
        begun = " (it held no run: a new one begins)" if resume and store.begins else ""
        say(f"run: {store.path}{begun}", err=True)
        earlier = lean(
            episode for episode in store.episodes() if is_played(episode, retry_errors=retry_errors)
        )
        index = Index(store.path, evaluation.config)
        if store.begins and settings_that_need_trust(evaluation.config) and (fault := key_fault()):
            _note(f"the run is not signed, so --resume will ask for --trust: {fault}")
        nodes = executor.line if executor else None
        with (
            resumable(store),
            progress(
                evaluation.planned, earlier, model=evaluation.model, quiet=as_json, nodes=nodes
            ) as tick,
        ):
            config, played = evaluation.run(
                store,
                on_episode=indexing(index, tick),
                retry_errors=retry_errors,
                executor=executor,
            )
            for note in executor.notes() if executor else ():
                _note(note)
        with suppress(IntercodeError):
            index.update()
        episodes = lean(played)
    errors = _report(config, episodes, evaluation.given.get("data"), as_json)
    misspelt = misspelt_fields(environment_class(evaluation.config["env"]), evaluation.tasks)
    for sentence in misspelt:
        _note(sentence)
    if evaluation.stopped:
        line = shared.resume_line(store.path)
        _note(f"stopped early: {evaluation.stopped}; continue with {line}")
    if evaluation.fault:
        raise evaluation.fault
    return 3 if errors else int(bool(misspelt))


def _report(
    config: dict[str, Any], episodes: Sequence[Episode], data: str | None, as_json: bool
) -> int:
    """Print the figures and advice; return the number of errors."""
    from intercode.report.advice import about_golds, about_replies, about_rounds, next_step
    from intercode.report.summary import summary

    figures = summary(config, episodes)
    show_summaries([figures], as_json)
    show_reasons(episodes)
    if note := about_golds(config, episodes, data):
        _note(note)
    if note := about_rounds(episodes):
        _note(note)
    if not as_json:
        say(next_step(config, episodes))
    for note in about_replies(config, episodes):
        _note(note)
    errors: int = figures["errors"]
    return errors


def _note(text: str) -> None:
    say(f"intercode: {text}", err=True)
