"""`eval` lets an agent act on tasks; `score` plays actions that were predicted beforehand."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import click

from intercode.cli import options as shared
from intercode.cli.options import COUNT, TEXT, Finite, own_name
from intercode.cli.output import resumable, say, show_reasons, show_summaries
from intercode.cli.progress import progress
from intercode.errors import IntercodeError, UsageError

if TYPE_CHECKING:
    from intercode.cluster.driver import RayCrew
    from intercode.evaluation import Evaluation

POSITIVE = Finite(0, min_open=True)


def _price(
    context: click.Context, option: click.Parameter, text: str | None
) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        tokens_in, tokens_out = (
            Finite(0).convert(part, option, context) for part in text.split(",")
        )
    except ValueError:
        raise click.BadParameter(f"{text!r} is not two numbers, such as 0.15,0.60") from None
    return tokens_in, tokens_out


def _base_url(context: click.Context, option: click.Parameter, url: str | None) -> str | None:
    """Return the address that the run stores, so that a change of the variables does not change a
    resumed run."""
    return url or os.environ.get("INTERCODE_BASE_URL") or os.environ.get("OPENAI_BASE_URL")


@click.command("eval", cls=shared.Command)
@shared.env_argument
@shared.data_options
@shared.split
@shared.task
@click.option(
    "--failed-in",
    type=shared.EXISTING_FOLDER,
    metavar="RUN",
    help="Use only the tasks that RUN never solved.",
)
@click.option(
    "--shuffle", is_flag=True, help="Shuffle the tasks by --seed, before --limit takes the first N."
)
@shared.exclude_broken
@click.option(
    "--agent",
    callback=own_name,
    default="try_again",
    show_default=True,
    help=(
        "Choose the agent. With a model: try_again, try_again_blind (sees no scores), react, "
        "plan_solve, plan_solve_refine, tools, best_of[:N], tree_search. Without a model: gold "
        "(plays the reference solution), noop (submits at once), retrieval (copies the gold of a "
        "similar task), replay:RUN, static:FILE. Your own: module:function or path.py:function."
    ),
)
@click.option(
    "--model",
    type=TEXT,
    metavar="NAME",
    help=(
        "Ask the model NAME at an OpenAI-compatible server ($OPENAI_API_KEY), "
        "or read replies from a file (scripted:FILE)."
    ),
)
@click.option(
    "--base-url",
    type=TEXT,
    callback=_base_url,
    metavar="URL",
    help="Set the model server's address. [$INTERCODE_BASE_URL]",
)
@click.option(
    "--turns",
    type=COUNT,
    default=10,
    show_default=True,
    metavar="N",
    help="Allow N actions before the submission.",
)
@click.option(
    "--epochs",
    type=COUNT,
    default=1,
    show_default=True,
    metavar="N",
    help="Play each task N times.",
)
@shared.seed
@click.option(
    "--temperature",
    type=Finite(0),
    default=0.0,
    show_default=True,
    metavar="T",
    help="Set the model's sampling temperature.",
)
@click.option(
    "--reply-tokens",
    type=COUNT,
    metavar="N",
    help="Cut each reply at N tokens. [the server's limit]",
)
@click.option(
    "--reply-seconds",
    type=POSITIVE,
    metavar="S",
    help="Wait S seconds for a reply, then ask again. [300]",
)
@click.option(
    "--price",
    callback=_price,
    metavar="IN,OUT",
    help="Set the price of a million tokens, in US dollars. [prices.toml]",
)
@click.option(
    "--max-cost",
    type=POSITIVE,
    metavar="USD",
    help="Stop the run when it has cost this much; needs a price.",
)
@click.option("--max-tokens", type=COUNT, metavar="N", help="Stop the run after N tokens.")
@click.option("--max-seconds", type=POSITIVE, metavar="S", help="Stop the run after S seconds.")
@click.option(
    "--episode-cost",
    type=POSITIVE,
    metavar="USD",
    help="End an episode when it has cost this much, and score it.",
)
@click.option(
    "--episode-tokens", type=COUNT, metavar="N", help="End an episode after N tokens, and score it."
)
@click.option(
    "--episode-seconds",
    type=POSITIVE,
    metavar="S",
    help="End an episode after S seconds, and score it.",
)
@shared.protocol
@shared.scoring_options
@shared.workers
@shared.shard
@click.option(
    "--on",
    type=TEXT,
    default="local",
    show_default=True,
    metavar="local|ray|ADDRESS",
    help=(
        "Play on this machine, or on all nodes of a Ray cluster, each with --workers: the one "
        "of this machine or of $RAY_ADDRESS (ray), or the one at HOST:PORT or ray://HOST:PORT."
    ),
)
@shared.run_folder("runs/ENV-AGENT-TIME")
@click.option(
    "--retry-errors/--no-retry-errors",
    cls=shared.Renamed,
    old="--keep-errors",
    default=True,
    help=(
        "With --resume: "
        "play episodes that ended in an error again (the default), or leave them as they are."
    ),
)
@shared.allow_code_change
@shared.json_flag
def evaluate(env: str, **options: Any) -> None:
    """Let an agent act on the tasks of ENV, and score it.

    ENV is bash, sql, python, ctf, module:Class or path.py:Class.
    """
    if options["agent"] == "human":
        raise UsageError(f"a human plays with `intercode play {env}`")
    _run(env, **options)


@click.command(cls=shared.Command)
@click.argument("predictions", type=click.Path(exists=True, dir_okay=False))
@click.option("--env", callback=own_name, required=True, metavar="ENV", help=shared.ENV_HELP)
@shared.data_options
@shared.split
@shared.exclude_broken
@shared.protocol
@shared.scoring_options
@shared.workers
@shared.run_folder("runs/ENV-AGENT-TIME")
@shared.allow_code_change
@shared.json_flag
def score(predictions: str, env: str, **options: Any) -> None:
    """Score actions that were predicted beforehand.

    PREDICTIONS is a file with one action for each task: JSON lines {"task": ID, "action": TEXT}, or
    plain lines in the order of the tasks.
    """
    _run(env, agent=f"static:{predictions}", turns=1, **options)


def _crew(
    on: str, env: str, evaluation: Evaluation, options: dict[str, Any], workers: int
) -> RayCrew:
    from intercode.cluster.driver import RayCrew

    return RayCrew(on, evaluation, {"env": env, **options}, workers=workers)


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
    **options: Any,
) -> None:
    from intercode.evaluation import Evaluation
    from intercode.report import summary
    from intercode.runner.run import is_played
    from intercode.signing import key_fault
    from intercode.trust import acting
    from intercode.view.index import Index, indexing

    evaluation = Evaluation.plan(env, **options)
    if exclude_broken:
        evaluation.exclude_broken(workers=workers)
    if left_out := evaluation.config.get("left_out"):
        click.echo(f"intercode: {len(left_out)} tasks are left out (run.json says why)", err=True)
    evaluation.config["options"] = shared.options_to_store()
    with ExitStack() as opened:
        crew = (
            opened.enter_context(_crew(on, env, evaluation, options, workers))
            if on != "local"
            else None
        )
        store = opened.enter_context(
            evaluation.open(
                out, resume=bool(resume), workers=workers, allow_code_change=allow_code_change
            )
        )
        begun = " (it held no run: a new one begins)" if resume and store.begins else ""
        say(f"run: {store.path}{begun}", err=True)
        total = evaluation.planned
        earlier = [
            episode for episode in store.episodes() if is_played(episode, retry_errors=retry_errors)
        ]
        index = Index(store.path, evaluation.config)
        if store.begins and acting(evaluation.config) and (fault := key_fault()):
            say(
                f"intercode: the run is not signed, so --resume will ask for --trust: {fault}",
                err=True,
            )
        nodes = crew.line if crew else None
        with (
            resumable(store.path),
            progress(total, earlier, model=evaluation.model, quiet=as_json, nodes=nodes) as tick,
        ):
            watch = indexing(index, tick)
            config, episodes = evaluation.run(
                store, workers=workers, on_episode=watch, retry_errors=retry_errors, crew=crew
            )
            for note in crew.notes() if crew else ():
                say(f"intercode: {note}", err=True)
        with suppress(IntercodeError):
            index.update()
    found = summary(config, episodes)
    show_summaries([found], as_json)
    show_reasons(episodes)
    if shortened := sum(any(turn.left_out for turn in episode.turns) for episode in episodes):
        plural = "1 conversation was" if shortened == 1 else f"{shortened} conversations were"
        click.echo(
            f"intercode: {plural} too long for the model; "
            "the oldest parts were left out (see left_out)",
            err=True,
        )
    if evaluation.stopped:
        say(
            f"intercode: stopped early: {evaluation.stopped}; "
            f"go on with {shared.resume_line(store.path)}",
            err=True,
        )
    if evaluation.fault:
        raise evaluation.fault
    sys.exit(3 if found["errors"] else 0)
