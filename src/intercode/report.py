"""Runs as numbers: a summary that other programs can rely on, and a table of several.

The interval is Wilson's at 95 %. Episodes of one task are alike, so with several epochs they count for less than as
many different tasks: the number of episodes is divided by the design effect, the variance of the mean over tasks
(clusters) against that of independent episodes. With one epoch this is plain Wilson. Episodes without a reward are not
scored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from math import sqrt
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from intercode.errors import UsageError
from intercode.types import Episode

Z95 = 1.959963984540054

LEVELS = ("simple", "easy", "moderate", "medium", "challenging", "hard", "extra")
"""The names that data sets give their levels of hardness, the easiest first."""

Summary = dict[str, Any]


def summary(config: Mapping[str, Any], episodes: Sequence[Episode]) -> Summary:
    """The fixed keys of `eval --json` and `report --json`.

    `episodes` counts the scored ones and those in `errors`; `seconds` is time spent executing actions. Means are over
    scored episodes and None where there are none.
    """
    scored = [episode for episode in episodes if episode.reward is not None]
    errors = sum(episode.error is not None for episode in episodes)
    used = [episode.usage for episode in episodes]
    return {
        **{key: config.get(key) for key in ("run", "env", "agent", "model", "reward")},
        "episodes": len(scored) + errors,
        "success_rate": _mean([episode.success for episode in scored]),
        "ci95": list(interval(scored)),
        "mean_reward": _mean([episode.reward or 0.0 for episode in scored]),
        "mean_turns": _mean([_actions(episode) for episode in scored]),
        "errors": errors,
        "seconds": round(sum(turn.seconds for episode in episodes for turn in episode.turns), 3),
        "tokens": sum(usage.prompt_tokens + usage.completion_tokens for usage in used),
        "cost": round(sum(usage.cost for usage in used), 6),
        **({"wall": config["wall"]} if "wall" in config else {}),
        **_by_hardness(config, scored),
        **(_robust(scored) if config.get("robust") else {}),
    }


def _robust(scored: Sequence[Episode]) -> dict[str, float | None]:
    """`robust_rate`, for a run with --robust: the share of the episodes played on second contents as well that held there."""
    held = [bool(episode.parts["robust"]) for episode in scored if "robust" in episode.parts]
    return {"robust_rate": _mean(held)} if held else {}


def _by_hardness(config: Mapping[str, Any], scored: Sequence[Episode]) -> dict[str, Any]:
    """`by_hardness`: episodes and success rate of each level that the data set names, the easiest first; nothing without."""
    levels = config.get("hardness") or {}
    found = sorted({levels[episode.task] for episode in scored if episode.task in levels}, key=_hardness)
    groups = {level: [episode for episode in scored if levels.get(episode.task) == level] for level in found}
    rates = {
        level: {"episodes": len(group), "success_rate": _mean([episode.success for episode in group]), "ci95": interval(group)}
        for level, group in groups.items()
    }
    return {"by_hardness": rates} if rates else {}


def _hardness(level: str) -> tuple[int, str]:
    return (LEVELS.index(level) if level in LEVELS else len(LEVELS), level)


def reasons(episodes: Sequence[Episode], most: int = 5) -> list[str]:
    """Why episodes have no result: each distinct error with its count, the frequent ones first, `most` of them."""
    counts = Counter(episode.error for episode in episodes if episode.error).most_common()
    listed = [f"{count} × {error}" for error, count in counts[:most]]
    return listed + ([f"and {len(counts) - most} more"] if len(counts) > most else [])


def interval(scored: Sequence[Episode]) -> tuple[float, float]:
    """The 95 % interval of the success rate; (0, 1) when nothing is known."""
    by_task = sorted(scored, key=lambda episode: episode.task)
    clusters = [[e.success for e in group] for _, group in groupby(by_task, lambda episode: episode.task)]
    if not clusters:
        return 0.0, 1.0
    return wilson(sum(map(sum, clusters)) / len(scored), _effective(clusters))


def wilson(rate: float, count: float) -> tuple[float, float]:
    """Wilson's score interval for a rate seen in `count` independent trials (Wilson 1927)."""
    z2 = Z95 * Z95 / count
    middle = (rate + z2 / 2) / (1 + z2)
    half = Z95 / (1 + z2) * sqrt(rate * (1 - rate) / count + z2 / (4 * count))
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return 0.0 if rate == 0 else low, 1.0 if rate == 1 else high  # exact there, whatever the rounding


def _effective(clusters: Sequence[Sequence[bool]]) -> float:
    """How many independent episodes these are worth: between the number of tasks and that of episodes.

    The variance is that of a ratio mean over k clusters: Σ(successes − rate · size)² · k/(k−1) / n² (Cochran, Sampling
    Techniques).
    """
    tasks, total = len(clusters), sum(map(len, clusters))
    rate = sum(map(sum, clusters)) / total
    if tasks == total or tasks == 1 or rate in (0, 1):
        return tasks
    variance = sum((sum(c) - rate * len(c)) ** 2 for c in clusters) * tasks / (tasks - 1) / total**2
    return float(total if variance == 0 else min(total, max(tasks, rate * (1 - rate) / variance)))


def require_comparable(configs: Sequence[Mapping[str, Any]], *, force: bool = False) -> None:
    """Raise `UsageError` if the runs come from different userlands: the tools' versions are part of the score."""
    userlands = {str(config.get("userland")) for config in configs}
    if len(userlands) > 1 and not force:
        listed = "; ".join(f"{config.get('run')}: {config.get('userland')}" for config in configs)
        raise UsageError(f"these runs were made on different userlands ({listed}); add --force to compare them anyway")


def table(summaries: Sequence[Summary]) -> Table:
    """The comparison as people read it, best success first, rates in percent; columns that say nothing are left out."""
    rows = [_cells(row) for row in _best_first(summaries)]
    return _made(rows, [name for name in rows[0] if name == "agent" or any(row[name] not in ("–", "0") for row in rows)])


def hardness_table(summaries: Sequence[Summary]) -> Table | None:
    """Success by level of hardness in percent, with the episodes of each; None if no data set names levels."""
    levels = sorted({level for row in summaries for level in row.get("by_hardness", {})}, key=_hardness)
    return _made([_levels(row, levels) for row in _best_first(summaries)], ["agent", *levels]) if levels else None


def _best_first(summaries: Sequence[Summary]) -> list[Summary]:
    return sorted(summaries, key=lambda row: -(row["success_rate"] or 0))


def _levels(row: Summary, levels: Sequence[str]) -> dict[str, str]:
    found = row.get("by_hardness", {})
    shown = {level: f"{_number(group['success_rate'], 100)} of {group['episodes']}" for level, group in found.items()}
    return {"agent": str(row["agent"]), **{level: shown.get(level, "–") for level in levels}}


def _made(rows: Sequence[Mapping[str, str]], shown: Sequence[str]) -> Table:
    made = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in shown:
        text = name in ("agent", "model", "env")  # a long one is folded, so that no number is cut
        made.add_column(name, justify="left" if text else "right", no_wrap=not text, overflow="fold" if text else "ellipsis")
    for row in rows:
        made.add_row(*(Text(row[name]) for name in shown))  # as they are: brackets in a name are no markup
    return made


def _cells(row: Summary) -> dict[str, str]:
    low, high = row["ci95"]
    return {
        "agent": str(row["agent"]),
        "model": str(row["model"] or "–"),
        "env": str(row["env"]),
        "wall": row.get("wall", "–"),
        "reward": str(row["reward"]),
        "n": str(row["episodes"]),
        "success %": _number(row["success_rate"], 100),
        "95 %": f"{100 * low:.1f}–{100 * high:.1f}",
        "mean": _number(row["mean_reward"], digits=3),
        "robust %": _number(row.get("robust_rate"), 100),
        "turns": _number(row["mean_turns"]),
        "errors": str(row["errors"]),
        "s": f"{row['seconds']:.1f}",
        "tokens": str(row["tokens"]),
        "cost $": f"{row['cost']:.4f}" if row["cost"] else "–",
    }


def _number(value: float | None, scale: float = 1, digits: int = 1) -> str:
    return "–" if value is None else f"{scale * value:.{digits}f}"


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _actions(episode: Episode) -> int:
    """Turns that acted, or cost a turn for want of code; a question that led to no action is none."""
    return sum(turn.action is not None or bool(turn.observation) for turn in episode.turns)
