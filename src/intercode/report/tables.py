"""The tables of a report: rows of text, which terminal and page share, and the tables of the terminal. Rates are in percent.

A row is a dict from column to cell; all rows of a table have the same columns. Rows hold the texts of episodes as they are;
the code that shows a row makes them harmless.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from intercode.report.summary import Summary, hardness_order
from intercode.report.text import one_line, visible
from intercode.report.turns import KINDS

Row = dict[str, str]
Found = Mapping[str, Any]

WORDS = frozenset(
    {"", "run", "agent", "model", "env", "data set", "turns that ask for code", "category", "tasks like", "rule", "hardness"}
)
"""Columns of words; the others hold numbers."""
EACH_TURN = 50
"""Turns up to this one have a row each in the table by turn."""
FLIPS = 10
"""Tasks that the terminal lists of those gained, and of those lost."""
SHARES = {"errors": "errors %", "no_code": "no code in the reply %", "timed_out": "out of time %", "repeated": "repeated %"}


# -- runs side by side --------------------------------------------------------------------------------------------------


def overview_rows(summaries: Sequence[Summary]) -> list[Row]:
    """Return one row for each run, best success first, without columns that are empty in all rows."""
    rows = [
        {
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
        for row, label in _best_first(summaries)
    ]
    kept = {name for name in rows[0] if any(row[name] not in ("–", "0") for row in rows)} | {"run", "agent"}
    if len(rows) == 1:
        kept.remove("run")
    return [{name: cell for name, cell in row.items() if name in kept} for row in rows]


def hardness_rows(summaries: Sequence[Summary]) -> list[Row]:
    """Return success by level of hardness for each run; no rows if no data set names levels."""
    levels = sorted({level for row in summaries for level in row.get("by_hardness", {})}, key=hardness_order)
    rows = []
    for run, label in _best_first(summaries) if levels else ():
        parts = run.get("by_hardness", {})
        shown = {level: f"{number(part['success_rate'], 100)} of {part['episodes']}" for level, part in parts.items()}
        rows.append({"run": label, **{level: shown.get(level, "–") for level in levels}})
    return rows


def labels(summaries: Sequence[Summary]) -> list[str]:
    """Return a name for each run: the last part of its path, or a number and the path if these are not distinct."""
    paths = [Path(str(row["run"])) for row in summaries]
    short = [path.stem if path.suffix == ".json" else path.name or str(path) for path in paths]
    return short if len(set(short)) == len(short) else [f"{at}: {path}" for at, path in enumerate(paths, 1)]


def _best_first(summaries: Sequence[Summary]) -> list[tuple[Summary, str]]:
    return sorted(zip(summaries, labels(summaries), strict=True), key=lambda each: -(each[0]["success_rate"] or 0))


# -- one run looked at closely ------------------------------------------------------------------------------------------


def pass_at_k_rows(summary: Summary) -> list[Row]:
    """Return pass@k for powers of two and the last k; no rows with one epoch."""
    found = summary.get("pass_at_k") or {}
    some = [k for k in found if int(k) & (int(k) - 1) == 0 or int(k) == len(found)]
    return [{"k": k, "pass@k": number(found[k]["rate"], 100), "95 %": span(found[k]["ci95"])} for k in some]


def turn_rows(found: Found) -> list[Row]:
    """Return a row for each of the first turns, then for powers of two and the last."""
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


def action_rows(found: Found) -> list[Row]:
    """Return the turns that ask for code, and shares of them, in all, solved and failed episodes."""
    groups = found["actions"]
    if not groups["all"]["turns"]:
        return []
    each = {group: part["turns"] / part["episodes"] if part["episodes"] else None for group, part in groups.items()}
    counts = [
        {"turns that ask for code": "number", **{group: str(part["turns"]) for group, part in groups.items()}},
        {"turns that ask for code": "per episode", **{group: number(mean) for group, mean in each.items()}},
    ]
    shares = {**SHARES, **{kind: f"{kind} %" for kind in KINDS if kind in groups["all"]}}
    return counts + [
        {"turns that ask for code": title, **{group: number(part.get(share), 100) for group, part in groups.items()}}
        for share, title in shares.items()
    ]


def data_set_rows(found: Found) -> list[Row]:
    """Return success by data set; no rows for a single one."""
    return [
        {
            "data set": label,
            "episodes": str(part["episodes"]),
            "success %": number(part["success_rate"], 100),
            "95 %": span(part["ci95"]),
        }
        for label, part in (found["by_data"].items() if len(found["by_data"]) > 1 else ())
    ]


def failure_rows(found: Found) -> list[Row]:
    """Return a row for each category of failed episodes."""
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
    """Return sentences about recovery, expense and the judges' verdicts."""
    after, spent, lines = found["recovery"], found["per_solved"], []
    if after["next_turn_fine"] is not None:
        lines.append(f"After an error the next turn was fine in {number(after['next_turn_fine'], 100)} %.")
    if after["episodes_with_error"]:
        lines.append(
            f"Of the {after['episodes_with_error']} episodes with an error {number(after['solved_with_error'], 100)} % "
            f"were solved, of those without {number(after['solved_without_error'], 100)} %."
        )
    if spent["tokens"]:
        price = f" and ${spent['cost']:.4f}" if spent["cost"] else ""
        lines.append(f"All episodes together spent {spent['tokens']:.0f} tokens{price} for each solved one.")
    for judged in found.get("judged", ()):
        unclear = f", {judged['none']} unclear" if judged["none"] else ""
        lines.append(
            f"{judged['ambiguous']} refused answers are ambiguous. The judge {judged['judge']} read {judged['asked']} of them: "
            f"{judged['same']} equal to the gold, {judged['different']} different{unclear} (it agrees with the reward in "
            f"{number(judged['agrees'], 100)} %). No other figure counts these verdicts."
        )
    return lines


# -- two runs compared --------------------------------------------------------------------------------------------------


def difference_rows(found: Found) -> list[Row]:
    """Return the difference of two runs over all tasks, and by hardness where levels are known."""
    rows = []
    for label, part in {"all": found, **found["by_hardness"]}.items():
        p_value = f"{part['p_value']:.3f}" if part["p_value"] >= 0.001 else f"{part['p_value']:.1e}"
        rows.append(
            {
                "hardness": label,
                "tasks": str(part["tasks"]),
                "first": number(part["rate_a"], 100),
                "second": number(part["rate_b"], 100),
                "change": f"{100 * part['difference']:+.1f}",
                "95 %": f"{100 * part['ci95'][0]:+.1f} to {100 * part['ci95'][1]:+.1f}",
                "p": p_value.replace("-", "\N{MINUS SIGN}"),
            }
        )
    return rows


def flip(found: Found) -> str:
    """Return one line on a task that one run solved more often: its shares, unless they are none and all, and its query."""
    shares = "" if {found["a"], found["b"]} == {0, 1} else f" ({found['a']:.0%} → {found['b']:.0%})"
    return f"{found['task']}{shares}: {found['query']}"


def number(value: float | None, scale: float = 1, digits: int = 1) -> str:
    return "–" if value is None else f"{scale * value:.{digits}f}"


def span(interval: Sequence[float]) -> str:
    return f"{100 * interval[0]:.1f}–{100 * interval[1]:.1f}"


# -- the terminal -------------------------------------------------------------------------------------------------------


def table(found: Sequence[Row]) -> Table:
    """Return rows as a table for the terminal; long words are folded, so that no number is cut."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in found[0]:
        words = name in WORDS
        cells = [name, *(row[name] for row in found)]
        longest = max(len(word) for cell in cells for word in (cell.split() or [""])) if words else max(map(len, cells))
        made.add_column(
            Text(visible(name)),
            justify="left" if words else "right",
            no_wrap=not words,
            min_width=min(longest, 6) if words else longest,
            overflow="fold",
        )
    for row in found:
        made.add_row(*(Text(visible(cell)) for cell in row.values()))  # no str: brackets in a name are no markup
    return made


def overview(summaries: Sequence[Summary]) -> Iterator[RenderableType]:
    """Yield what `eval` prints: success, pass@k with several epochs, and success by hardness."""
    yield table(overview_rows(summaries))
    if len(summaries) == 1:
        yield from _titled("success % with k attempts", pass_at_k_rows(summaries[0]))
    yield from _titled("success % by hardness", hardness_rows(summaries))


def details(found: Found) -> Iterator[RenderableType]:
    """Yield the tables of one run's `analysis`."""
    yield from _titled("by turn: episodes solved so far, and code that failed, in %", turn_rows(found))
    yield from _titled("turns by what happened", action_rows(found))
    yield from (Text(sentence) for sentence in sentences(found))
    yield from _titled("success by data set", data_set_rows(found))
    yield from _titled("why episodes failed", failure_rows(found))


def comparison(found: Found | None) -> Iterator[RenderableType]:
    """Yield the comparison of two runs: all tasks, by hardness, and the tasks that one run solved more often."""
    if found is None:
        yield Text("the runs have no task in common, so they are not compared")
        return
    yield from _titled("success % on the same tasks, the second run minus the first", difference_rows(found))
    if found["unpaired"]:
        yield Text(f"{found['unpaired']} tasks are in one of the runs only, and are left out")
    for name in ("gained", "lost"):
        flips = found[name]
        yield Text(f"{name} ({len(flips)})")
        yield from (Text(f"  {one_line(flip(each), 77)}") for each in flips[:FLIPS])
        if len(flips) > FLIPS:
            yield Text(f"  and {len(flips) - FLIPS} more: --json and --html list them all")


def _titled(title: str, found: Sequence[Row]) -> Iterator[RenderableType]:
    if found:
        yield Text(title)
        yield table(found)
