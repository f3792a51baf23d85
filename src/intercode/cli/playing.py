"""`play`: a person is the agent, at the keyboard, task after task; the run is one like any other."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import click

from intercode.cli.options import given_options, mended, out, played, protocol, resume_line, scoring, task, world


@click.command()
@played
@world
@task
@click.option("--turns", type=click.IntRange(1), default=100, show_default=True, help="Actions before the submission.")
@click.option("--score", "live", is_flag=True, help="Show after each action what a submission would earn now.")
@click.option("--seed", type=int, default=0, show_default=True)
@protocol
@scoring
@out("runs/ENV-AGENT-TIME")
@mended
def play(env: str, live: bool, out: str | None, resume: str | None, mended: bool, **options: Any) -> None:
    """Solve the tasks of ENV (bash, sql, python, ctf, module:Class or path.py:Class) yourself, in this terminal.

    Each task that you end is an episode of the run; one that you leave is not recorded.
    """
    from intercode.cli.keyboard import Left, note
    from intercode.cli.player import Player
    from intercode.cli.show import resumable, show_summaries
    from intercode.evaluation import Evaluation
    from intercode.report import summary

    evaluation = Evaluation.plan(env, agent="human", **options)
    evaluation.config |= {"live_score": live, "options": given_options()}
    with evaluation.open(out, resume=bool(resume), workers=1, mended=mended) as store:
        try:
            with resumable(store.path), closing(evaluation.factory()) as table:
                Player(evaluation, store, table, live=live).play()
        except Left:
            note(f"\nA task that was not ended is not recorded. Go on with {resume_line(store.path)}")
        finally:
            if episodes := store.episodes():
                show_summaries([summary({**evaluation.config, "run": str(store.path)}, episodes)], False)


COMMANDS = (play,)
