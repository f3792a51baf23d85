"""One run looked at closely: what happened turn by turn, what errors led to, what a success cost, and why episodes failed.

Each figure's rule is in docs/report.md. Only scored episodes count, but for what was spent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from intercode.report.failures import failures
from intercode.report.summary import groups, mean
from intercode.report.turns import KINDS, acted, failed, is_submission, kind, repeats, solved_at, tried
from intercode.types import Episode, Turn

if TYPE_CHECKING:
    from intercode.rescoring.judge import Verdict


def analysis(config: Mapping[str, Any], episodes: Sequence[Episode]) -> dict[str, Any]:
    """What `report --json` adds to the summary, under `analysis`. Shares are in [0, 1], and None where there is nothing."""
    scored = [episode for episode in episodes if episode.reward is not None]
    env = str(config.get("env"))
    return {
        "by_turn": by_turn(scored),
        "by_data": groups(config.get("data_set") or {}, scored),
        "actions": {
            "all": actions(scored, env),
            "solved": actions([episode for episode in scored if episode.success], env),
            "failed": actions([episode for episode in scored if not episode.success], env),
        },
        "recovery": recovery(scored),
        "per_solved": per_solved(episodes),
        "failures": failures(config, scored),
        **({"judged": judged(config, scored)} if config.get("verdicts") else {}),
    }


def by_turn(scored: Sequence[Episode]) -> list[dict[str, Any]]:
    """For each turn: the episodes that had it, the share of all solved by then, the share of its code that failed."""
    solved, played = [solved_at(episode) for episode in scored], [acted(episode) for episode in scored]
    rows = []
    for at in range(1, max(map(len, played), default=0) + 1):
        now = [turns[at - 1] for turns in played if len(turns) >= at]
        rows.append(
            {
                "turn": at,
                "episodes": len(now),
                "solved": mean([done is not None and done <= at for done in solved]),
                "errors": mean([failed(turn) for turn in now if not is_submission(turn)]),
            }
        )
    return rows


def actions(scored: Sequence[Episode], env: str) -> dict[str, Any]:
    """Turns in which code was asked for, and shares of them: failed, without code, out of time, repeated, of each kind."""
    turns = [turn for episode in scored for turn in tried(episode)]
    kinds = [kind(turn.action, env) for turn in turns if turn.action is not None]
    return {
        "episodes": len(scored),
        "turns": len(turns),
        "errors": mean([failed(turn) for turn in turns]),
        "no_code": mean([turn.action is None for turn in turns]),
        "timed_out": mean([turn.timed_out for turn in turns]),
        "repeated": mean([again for episode in scored for again in repeats(tried(episode))]),
        **{name: mean([each == name for each in kinds]) for name in KINDS if name in kinds},
    }


def recovery(scored: Sequence[Episode]) -> dict[str, Any]:
    """What came after errors: the share of next turns that were fine, and how many episodes with and without were solved."""
    met = [any(map(failed, tried(episode))) for episode in scored]
    pairs = [pair for episode in scored for pair in pairwise(tried(episode))]
    return {
        "episodes_with_error": sum(met),
        "solved_with_error": mean([episode.success for episode, error in zip(scored, met, strict=True) if error]),
        "solved_without_error": mean([episode.success for episode, error in zip(scored, met, strict=True) if not error]),
        "next_turn_fine": mean([not failed(after) for before, after in pairs if failed(before)]),
    }


def per_solved(episodes: Sequence[Episode]) -> dict[str, float | None]:
    """What all episodes spent, divided by those that were solved."""
    solved = sum(episode.success for episode in episodes)
    spent: dict[str, Callable[[Turn], float]] = {
        "tokens": lambda turn: turn.usage.prompt_tokens + turn.usage.completion_tokens,
        "cost": lambda turn: turn.usage.cost,
        "seconds": lambda turn: turn.seconds,
    }
    turns = [turn for episode in episodes for turn in episode.turns]
    return {name: sum(map(of, turns)) / solved if solved else None for name, of in spent.items()}


def judged(config: Mapping[str, Any], scored: Sequence[Episode]) -> list[dict[str, Any]]:
    """What each judge said of the answers that `exact` refused and was unsure of: opinions, of which no other figure knows.

    `asked` are those that it was asked of, of which some may be newer than its verdicts; `agrees` is the share of its
    verdicts that say what `exact` says.
    """
    unsure = {(episode.task, episode.epoch) for episode in scored if episode.unsure}
    judges = dict.fromkeys(verdict.judge for verdict in config["verdicts"])
    return [_opinion(judge, config["verdicts"], unsure) for judge in judges]


def _opinion(judge: str, verdicts: Sequence[Verdict], unsure: set[tuple[str, int]]) -> dict[str, Any]:
    asked = (each for each in verdicts if each.judge == judge and each.reply is not None)
    verdicts = [each for each in asked if (each.task, each.epoch) in unsure]
    says = Counter(verdict.says or "none" for verdict in verdicts)
    return {
        "judge": judge,
        "unsure": len(unsure),
        "asked": len(verdicts),
        **{each: says[each] for each in ("same", "different", "none")},
        "agrees": mean([verdict.says == "different" for verdict in verdicts if verdict.says]),
    }
