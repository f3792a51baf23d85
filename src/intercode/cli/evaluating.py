"""Commands that play: `eval` lets an agent act, `score` plays predictions that were made beforehand."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from intercode.cli.options import (
    ENV_HELP,
    FOLDER,
    TEXT,
    Finite,
    exclude,
    given_options,
    in_here,
    json_flag,
    mended,
    out,
    played,
    protocol,
    resume_line,
    scoring,
    task,
    workers,
    world,
)
from intercode.cli.show import progress, resumable, say, show_failing_golds, show_reasons, show_summaries
from intercode.errors import UsageError

POSITIVE = Finite(0, min_open=True)


def _price(context: click.Context, option: click.Parameter, text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        tokens_in, tokens_out = (float(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not two numbers, such as 0.15,0.60") from None
    if not (0 <= tokens_in < float("inf") and 0 <= tokens_out < float("inf")):
        raise click.BadParameter(f"{text!r} is no price: both numbers are 0 or more")
    return tokens_in, tokens_out


def _address(context: click.Context, option: click.Parameter, url: str | None) -> str | None:
    """The address by which a run is resumed as well, whatever the variables say then."""
    return url or os.environ.get("INTERCODE_BASE_URL") or os.environ.get("OPENAI_BASE_URL")


@click.command("eval")
@played
@world
@task
@click.option("--failed-in", type=FOLDER, metavar="RUN", help="Only the tasks that no episode of RUN solved.")
@click.option("--shuffle", is_flag=True, help="Play in an order that --seed draws; --limit takes the first N of it.")
@exclude
@click.option(
    "--agent",
    callback=in_here,
    default="try_again",
    show_default=True,
    help="With a model: try_again (try_again_blind sees no scores), react, plan_solve, plan_solve_refine, tools, best_of[:N], "
    "tree_search; without: gold, noop, retrieval, replay:PATH, static:PATH; your own: module:function or path.py:function.",
)
@click.option(
    "--model",
    type=TEXT,
    help="A name at an OpenAI-compatible server ($OPENAI_API_KEY), or scripted:FILE.",
)
@click.option("--base-url", type=TEXT, callback=_address, metavar="URL", help="The model's server. [$INTERCODE_BASE_URL]")
@click.option("--turns", type=click.IntRange(1), default=10, show_default=True, help="Actions before the submission.")
@click.option("--epochs", type=click.IntRange(1), default=1, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--temperature", type=Finite(0), default=0.0, show_default=True)
@click.option("--reply-tokens", type=click.IntRange(1), metavar="N", help="Cut each reply at N tokens. [the server's limit]")
@click.option("--reply-seconds", type=POSITIVE, metavar="S", help="Wait so long for a reply before asking again. [300]")
@click.option("--price", callback=_price, metavar="IN,OUT", help="US dollars for a million tokens in and out. [prices.toml]")
@click.option("--max-cost", type=POSITIVE, metavar="USD", help="Stop the run at this cost; needs a price.")
@click.option("--max-tokens", type=click.IntRange(1), help="Stop the run at this many tokens.")
@click.option("--max-seconds", type=POSITIVE, help="Stop the run after this time.")
@click.option("--episode-cost", type=POSITIVE, metavar="USD", help="End each episode at this cost, and score it.")
@click.option("--episode-tokens", type=click.IntRange(1), help="End each episode at this many tokens, and score it.")
@click.option("--episode-seconds", type=POSITIVE, help="End each episode after this time, and score it.")
@protocol
@scoring
@workers
@out("runs/ENV-AGENT-TIME")
@click.option(
    "--retry-errors/--keep-errors",
    default=True,
    help="With --resume: play the episodes that failed by a fault again (default), or only those that were not played.",
)
@mended
@json_flag
def evaluate(env: str, **options: Any) -> None:
    """Let an agent act on every task of ENV (bash, sql, python, ctf, module:Class or path.py:Class) and score it."""
    if options["agent"] == "human":
        raise UsageError(f"a human plays with `intercode play {env}`")
    _carry_out(env, **options)


@click.command()
@click.argument("predictions", type=click.Path(exists=True, dir_okay=False))
@click.option("--env", callback=in_here, required=True, metavar="ENV", help=ENV_HELP)
@world
@exclude
@protocol
@scoring
@workers
@out("runs/ENV-AGENT-TIME")
@mended
@json_flag
def score(predictions: str, env: str, **options: Any) -> None:
    """Score PREDICTIONS that were made beforehand: JSONL {"task", "action"}, or one action a line in the order of the tasks."""
    _carry_out(env, agent=f"static:{predictions}", turns=1, **options)


def _carry_out(
    env: str,
    *,
    out: str | None,
    resume: str | None,
    mended: bool,
    workers: int,
    as_json: bool,
    exclude_broken: bool,
    retry_errors: bool = True,
    **options: Any,
) -> None:
    from intercode.envs import environment_class
    from intercode.evaluation import Evaluation
    from intercode.report import summary

    evaluation = Evaluation.plan(env, **options)
    if exclude_broken:
        evaluation.exclude_broken(workers=workers)
    if left_out := evaluation.config.get("left_out"):
        click.echo(f"intercode: {len(left_out)} tasks are left out (run.json says why; --all plays them)", err=True)
    evaluation.config["options"] = given_options()
    with evaluation.open(out, resume=bool(resume), workers=workers, mended=mended) as store:
        begun = " (it held no run: a new one begins)" if resume and store.begins else ""
        say(f"run: {store.path}{begun}", err=True)
        with resumable(store.path), progress(len(evaluation.tasks) * evaluation.epochs, quiet=as_json) as tick:
            config, episodes = evaluation.run(store, workers=workers, on_episode=tick, retry_errors=retry_errors)
    found = summary(config, episodes)
    show_summaries([found], as_json)
    show_reasons(episodes)
    if shortened := sum(any(turn.left_out for turn in episode.turns) for episode in episodes):
        plural = "1 conversation was" if shortened == 1 else f"{shortened} conversations were"
        click.echo(f"intercode: {plural} too long for the model; the oldest parts were left out (see left_out)", err=True)
    if evaluation.agent.name == "gold" and environment_class(env).language == "bash":
        show_failing_golds(evaluation.tasks, episodes)
    if evaluation.stopped:
        say(f"intercode: stopped early: {evaluation.stopped}; go on with {resume_line(store.path)}", err=True)
    if evaluation.fault:
        raise evaluation.fault
    sys.exit(3 if found["errors"] else 0)


COMMANDS = (evaluate, score)
