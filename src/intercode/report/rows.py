"""The tables of a report as rows of text, the same on the terminal and on the page. Rates are in percent.

A row is a dict from column to cell; all rows of a table have the same columns. The texts of episodes are as they came:
whoever shows them makes them harmless.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from intercode.report.summary import Summary, hardness
from intercode.report.turns import KINDS

Row = dict[str, str]
Found = Mapping[str, Any]

WORDS = frozenset(
    {"", "run", "agent", "model", "env", "data set", "turns that ask for code", "category", "tasks like", "rule", "hardness"}
)
"""Columns of words; the others are numbers."""
EACH_TURN = 50
"""Turns with a row each in the table by turn."""
SHARES = {"errors": "errors %", "no_code": "no code in the reply %", "timed_out": "out of time %", "repeated": "repeated %"}


# -- runs side by side --------------------------------------------------------------------------------------------------


def overview(summaries: Sequence[Summary]) -> list[Row]:
    """One row a run, best success first; columns that say nothing are left out."""
    rows = [_cells(row, label) for row, label in _best_first(summaries)]
    said = {name for name in rows[0] if any(row[name] not in ("–", "0") for row in rows)} | {"run", "agent"}
    if len(rows) == 1:
        said.remove("run")
    return [{name: cell for name, cell in row.items() if name in said} for row in rows]


def levels(summaries: Sequence[Summary]) -> list[Row]:
    """Success by level of hardness, with the episodes of each; no rows if no data set names levels."""
    found = sorted({level for row in summaries for level in row.get("by_hardness", {})}, key=hardness)
    return [{"run": label, **_levels(row, found)} for row, label in (_best_first(summaries) if found else [])]


def labels(summaries: Sequence[Summary]) -> list[str]:
    """What runs are called: the last part of their path, all of it where that is not enough."""
    paths = [Path(str(row["run"])) for row in summaries]
    short = [path.stem if path.suffix == ".json" else path.name or str(path) for path in paths]
    return short if len(set(short)) == len(short) else [f"{at}: {path}" for at, path in enumerate(paths, 1)]


def _best_first(summaries: Sequence[Summary]) -> list[tuple[Summary, str]]:
    return sorted(zip(summaries, labels(summaries), strict=True), key=lambda each: -(each[0]["success_rate"] or 0))


def _levels(row: Summary, found: Sequence[str]) -> Row:
    parts = row.get("by_hardness", {})
    shown = {level: f"{number(part['success_rate'], 100)} of {part['episodes']}" for level, part in parts.items()}
    return {level: shown.get(level, "–") for level in found}


def _cells(row: Summary, label: str) -> Row:
    return {
        "run": label,
        "agent": str(row["agent"]),
        "model": str(row["model"] or "–"),
        "env": str(row["env"]),
        "reward": str(row["reward"]),
        "n": str(row["episodes"]),
        "success %": number(row["success_rate"], 100),
        "95 %": span(row["ci95"]),
        "mean": number(row["mean_reward"], digits=3),
        "robust %": number(row.get("robust_rate"), 100),
        "turns": number(row["mean_turns"]),
        "errors": str(row["errors"]),
        "s": f"{row['seconds']:.1f}" if row["seconds"] else "0",
        "tokens": str(row["tokens"]),
        "cost $": f"{row['cost']:.4f}" if row["cost"] else "–",
    }


# -- one run looked at closely ------------------------------------------------------------------------------------------


def chances(summary: Summary) -> list[Row]:
    """pass@k for the powers of two and the last k; no rows with one epoch."""
    found = summary.get("pass_at_k") or {}
    some = [k for k in found if int(k) & (int(k) - 1) == 0 or int(k) == len(found)]
    return [{"k": k, "pass@k": number(found[k]["rate"], 100), "95 %": span(found[k]["ci95"])} for k in some]


def turns(found: Found) -> list[Row]:
    """The first turns each, then the powers of two and the last."""
    every = found["by_turn"]
    return [
        {
            "turn": str(row["turn"]),
            "episodes": str(row["episodes"]),
            "solved": number(row["solved"], 100),
            "errors": number(row["errors"], 100),
        }
        for at, row in enumerate(every, 1)
        if at <= EACH_TURN or at & (at - 1) == 0 or at == len(every)
    ]


def actions(found: Found) -> list[Row]:
    """Turns that ask for code and the shares of them that `analysis` counts: of all, of solved and of failed episodes."""
    groups = found["actions"]
    if not groups["all"]["turns"]:
        return []
    each = {group: part["turns"] / part["episodes"] if part["episodes"] else None for group, part in groups.items()}
    counts = [
        {"turns that ask for code": "number", **{group: str(part["turns"]) for group, part in groups.items()}},
        {"turns that ask for code": "an episode", **{group: number(mean) for group, mean in each.items()}},
    ]
    shares = {**SHARES, **{kind: f"{kind} %" for kind in KINDS if kind in groups["all"]}}
    return counts + [
        {"turns that ask for code": title, **{group: number(part.get(share), 100) for group, part in groups.items()}}
        for share, title in shares.items()
    ]


def data_sets(found: Found) -> list[Row]:
    """No rows for a single one: it is the whole run."""
    parts = found["by_data"]
    return [{"data set": label, **_rate(part)} for label, part in parts.items()] if len(parts) > 1 else []


def failures(found: Found) -> list[Row]:
    return [
        {
            "category": row["name"],
            "episodes": str(row["episodes"]),
            "%": number(row["share"], 100),
            "tasks like": ", ".join(example["task"] for example in row["examples"]),
            "rule": row["rule"],
        }
        for row in found["failures"]
    ]


def sentences(found: Found) -> list[str]:
    """Recovery, expense and a judge's opinion, in words."""
    after, spent, said = found["recovery"], found["per_solved"], []
    if after["next_turn_fine"] is not None:
        said.append(f"After an error the next turn was fine in {number(after['next_turn_fine'], 100)} %.")
    if after["episodes_with_error"]:
        said.append(
            f"Of the {after['episodes_with_error']} episodes with an error {number(after['solved_with_error'], 100)} % "
            f"were solved, of those without {number(after['solved_without_error'], 100)} %."
        )
    if spent["tokens"]:
        price = f" and ${spent['cost']:.4f}" if spent["cost"] else ""
        said.append(f"Spent in all episodes for each solved one: {spent['tokens']:.0f} tokens{price}.")
    return [*said, *map(_opinion, found.get("judged", ()))]


def _opinion(judged: Found) -> str:
    unclear = f", {judged['none']} times nothing clear" if judged["none"] else ""
    return (
        f"Of the {judged['unsure']} answers that were refused in doubt, the judge {judged['judge']} was asked of "
        f"{judged['asked']}: it says of {judged['same']} that they tell the same as the gold, of {judged['different']} "
        f"that they do not{unclear} (it agrees with the reward in {number(judged['agrees'], 100)} %). "
        "No figure here counts that."
    )


# -- two runs compared --------------------------------------------------------------------------------------------------


def differences(found: Found) -> list[Row]:
    """Overall, and by hardness where levels are known."""
    parts = {"all": found, **found["by_hardness"]}
    return [{"hardness": label, **_compared(part)} for label, part in parts.items()]


def flip(found: Found) -> str:
    """A task that changed sides, in words; its shares of solved episodes where they are not none and all."""
    shares = "" if {found["a"], found["b"]} == {0, 1} else f" ({found['a']:.0%} → {found['b']:.0%})"
    return f"{found['task']}{shares}: {found['query']}"


def _compared(part: Found) -> Row:
    low, high = part["ci95"]
    return {
        "tasks": str(part["tasks"]),
        "first": number(part["rate_a"], 100),
        "second": number(part["rate_b"], 100),
        "change": f"{100 * part['difference']:+.1f}",
        "95 %": f"{100 * low:+.1f} to {100 * high:+.1f}",
        "p": f"{part['p_value']:.3f}" if part["p_value"] >= 0.001 else f"{part['p_value']:.1e}".replace("-", "\N{MINUS SIGN}"),
    }


def _rate(part: Found) -> Row:
    return {"episodes": str(part["episodes"]), "success %": number(part["success_rate"], 100), "95 %": span(part["ci95"])}


def number(value: float | None, scale: float = 1, digits: int = 1) -> str:
    return "–" if value is None else f"{scale * value:.{digits}f}"


def span(interval: Sequence[float]) -> str:
    return f"{100 * interval[0]:.1f}–{100 * interval[1]:.1f}"
