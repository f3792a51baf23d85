"""The tables of a report, as rows of text that terminal and page share, and a table for the
terminal. Rates are in percent.

A row is a dict from column to text; all rows of a table have the same columns. Rows hold the texts
of episodes as they are; the code that prints a row makes them harmless.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from intercode.report.summary import FIGURES, Summary, hardness_order, number, span
from intercode.report.text import count_of, one_line, visible
from intercode.report.turns import KINDS

Row = dict[str, str]
Analysis = Mapping[str, Any]

WORDS = frozenset(
    {
        "run",
        "agent",
        "model",
        "env",
        "data set",
        "turns that ask for code",
        "category",
        "tasks like",
        "rule",
        "hardness",
    }
    | {"attack", "tries to", "result", "honest action"}
)
"""Columns of words; the others hold numbers."""
EACH_TURN = 50
"""Turns up to this one have a row each in the table by turn; then come powers of two and the last
turn."""
FLIPS = 10
"""The most gained tasks, and lost tasks, that the terminal lists."""
SHARES = {
    "errors": "errors %",
    "next_turn_fine": "fine right after an error %",
    "no_code": "no code in the reply %",
    "cut_off": "replies cut off %",
    "refused": "refused or filtered %",
    "timed_out": "out of time %",
    "repeated": "repeated %",
}


class Section(NamedTuple):
    """A table with its title; without rows, a line of text."""

    title: str
    rows: Sequence[Row] = ()


# -- the sections of a report ----------------------------------------------------------------------


def overview(summaries: Sequence[Summary]) -> Iterator[Section]:
    """Yield what `eval` prints: success, pass@k with several epochs, and success by hardness. Runs
    of several environments have a table for each of them."""
    pairs = zip(summaries, labels(summaries), strict=True)
    runs = sorted(pairs, key=lambda pair: -(pair[0]["success_rate"] or 0))  # the best first
    envs = list(dict.fromkeys(str(row["env"]) for row in summaries))
    by_env = {env: [run for run in runs if str(run[0]["env"]) == env] for env in envs}
    for env in envs:
        yield Section(env if len(envs) > 1 else "", overview_rows(by_env[env], named=len(runs) > 1))
    if len(summaries) == 1 and (by_k := summaries[0].get("pass_at_k")):
        # powers of two, and the last
        some = [k for k in by_k if int(k) & (int(k) - 1) == 0 or int(k) == len(by_k)]
        rows = [
            {
                "k": k,
                "pass@k": number(by_k[k]["rate"], 100),
                "95 %": span(by_k[k]["ci95"]),
                "pass^k": number(summaries[0]["pass_hat_k"][k]["rate"], 100),
            }
            for k in some
        ]
        yield Section("success % with k attempts", rows)
    for env in envs:
        occurring = {level for run, _ in by_env[env] for level in run.get("by_hardness", {})}
        if not (levels := sorted(occurring, key=hardness_order)):
            continue
        rows = []
        for run, label in by_env[env]:
            parts = run.get("by_hardness", {})
            rates = {
                level: f"{number(part['success_rate'], 100)} of {part['episodes']}"
                for level, part in parts.items()
            }
            rows.append({"run": label, **{level: rates.get(level, "–") for level in levels}})
        yield Section(f"success % by hardness{f' in {env}' if len(envs) > 1 else ''}", rows)


def details(analysis: Analysis) -> Iterator[Section]:
    """Yield the tables of one run's `analysis`, without empty ones."""
    turns = [
        {"turn": str(row["turn"]), "episodes": str(row["episodes"])}
        | {name: number(row[name], 100) for name in ("solved", "errors")}
        | ({"value": number(row["value"], digits=3)} if "value" in row else {})
        for at, row in enumerate(analysis["by_turn"], 1)
        if at <= EACH_TURN or at & (at - 1) == 0 or at == len(analysis["by_turn"])
    ]
    failures = [
        {"category": row["name"], "episodes": str(row["episodes"]), "%": number(row["share"], 100)}
        | {
            "tasks like": ", ".join(example["task"] for example in row["examples"]),
            "rule": row["rule"],
        }
        for row in analysis["failures"]
    ]
    if turns:
        title = "by turn: episodes solved so far, and code that failed, in %"
        if "value" in turns[0]:
            title += "; mean reward of a submission right after the turn"
        yield Section(title, turns)
    if analysis["actions"]["all"]["turns"]:
        yield Section("turns by what happened", action_rows(analysis))
    yield from map(Section, sentences(analysis))
    for name, column in (("by_data", "data set"), ("by_distance", "distance")):
        if len(analysis[name]) > 1:
            yield Section(f"success by {column}", list(_grouped(analysis[name], column)))
    if failures:
        yield Section("why episodes failed", failures)


def _grouped(groups: Mapping[str, Mapping[str, Any]], column: str) -> Iterator[dict[str, str]]:
    for label, part in groups.items():
        yield {
            column: label,
            "episodes": str(part["episodes"]),
            "success %": number(part["success_rate"], 100),
            "95 %": span(part["ci95"]),
        }


def comparison(compared: Analysis | None) -> Iterator[Section]:
    """Yield the comparison of two runs: all tasks, by hardness, and the first tasks that one run
    solved more often."""
    yield from differences(compared)
    if compared is None:
        return
    for name in ("gained", "lost"):
        yield Section(f"{name} ({len(compared[name])})")
        for flip in compared[name][:FLIPS]:
            shares = (
                "" if {flip["a"], flip["b"]} == {0, 1} else f" ({flip['a']:.0%} → {flip['b']:.0%})"
            )
            yield Section("  " + one_line(f"{flip['task']}{shares}: {flip['query']}", 77))
        if len(compared[name]) > FLIPS:
            yield Section(
                f"  and {len(compared[name]) - FLIPS} more: --json and --html list them all"
            )


def comparisons(whole: Analysis) -> Iterator[Section]:
    """Yield the differences between each other run and the first."""
    first, *others = labels(whole["runs"])
    for name, compared in zip(others, whole["comparisons"], strict=True):
        yield Section(f"{name} minus {first}")
        yield from differences(compared)


def differences(compared: Analysis | None) -> Iterator[Section]:
    """Yield the difference between two runs on all tasks and by hardness."""
    if compared is None:
        yield Section("the runs have no task in common, so they are not compared")
        return
    rows = []
    for label, part in {"all": compared, **compared["by_hardness"]}.items():
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
    shared = count_of(compared["tasks"], "shared task")
    yield Section(f"success % on {shared}, the second run minus the first", rows)
    if compared["unpaired"]:
        yield Section(f"{compared['unpaired']} tasks are in one of the runs only, and are left out")


# -- their rows and sentences ----------------------------------------------------------------------


def overview_rows(runs: Sequence[tuple[Summary, str]], *, named: bool) -> list[Row]:
    """Return a row for each run, without columns that are empty in all rows; `named`: with names of
    the runs."""
    rows = [
        {
            "run": label,
            "date": minute(row.get("date")),
            "agent": str(row["agent"]),
            "model": str(row["model"] or "–"),
            "env": str(row["env"] or "–"),
            "reward": str(row["reward"] or "its own"),
            **figure_cells(row),
        }
        for row, label in runs
    ]
    rows = without_empty(rows, keep=("run", "agent"))
    if not named:
        del rows[0]["run"]
    return rows


def figure_cells(row: Summary) -> Row:
    """Return the text of each figure of a run."""
    return {figure.title: figure.text(row) for figure in FIGURES}


def without_empty(rows: Sequence[Row], keep: Sequence[str] = ()) -> list[Row]:
    """Return the rows without the columns that say nothing in any of them."""
    said = [
        name
        for name in (rows[0] if rows else ())
        if name in keep or any(row[name] not in ("–", "0") for row in rows)
    ]
    return [{name: row[name] for name in said} for row in rows]


def labels(summaries: Sequence[Summary]) -> list[str]:
    """Return a name for each run: its path from the folder that holds all of them, or a number and
    the path if these are not distinct."""
    paths = [Path(str(row["run"])) for row in summaries]
    whole = [path.with_suffix("") if path.suffix == ".json" else path for path in paths]
    short = list(map(str, whole))
    with suppress(ValueError):  # relative and absolute paths
        top = os.path.commonpath([path.parent for path in whole])
        short = [str(path.relative_to(top)) for path in whole]
    return (
        short
        if len(set(short)) == len(short)
        else [f"{at}: {path}" for at, path in enumerate(paths, 1)]
    )


def action_rows(analysis: Analysis) -> list[Row]:
    """Return the turns that ask for code, and their shares, in all, solved and failed episodes."""
    groups = analysis["actions"]
    per_episode = {
        group: part["turns"] / part["episodes"] if part["episodes"] else None
        for group, part in groups.items()
    }
    shares = {**SHARES, **{kind: f"{kind} %" for kind in KINDS if kind in groups["all"]}}
    if "explored_first_share" in groups["all"]:
        shares["explored_first_share"] = "exploring before anything else %"
    for name in ("cut_off", "refused"):
        if not groups["all"][name]:
            del shares[name]
    if groups["all"]["next_turn_fine"] is None:
        del shares["next_turn_fine"]
    rows = {
        "number": {group: str(part["turns"]) for group, part in groups.items()},
        "per episode": {group: number(mean) for group, mean in per_episode.items()},
        **{
            shares[name]: {group: number(part.get(name), 100) for group, part in groups.items()}
            for name in shares
        },
    }
    if "explored_first" in groups["all"]:
        rows["exploring before anything else, per episode"] = {
            group: number(part.get("explored_first")) for group, part in groups.items()
        }
    return [{"turns that ask for code": title, **row} for title, row in rows.items()]


def sentences(analysis: Analysis) -> list[str]:
    """Return sentences about errors, limits, expense and the judges' verdicts."""
    after, spent, lines = analysis["recovery"], analysis["per_solved"], []
    if after["episodes_with_error"]:
        without = after["solved_without_error"]
        others = "" if without is None else f", of those without {number(without, 100)} %"
        lines.append(
            f"Of the {after['episodes_with_error']} episodes with an error "
            f"{number(after['solved_with_error'], 100)} % were solved{others}."
        )
    if analysis["limits"]:
        hits = [
            f"{name} in {hit['turns']} turns of {hit['episodes']} episodes"
            for name, hit in analysis["limits"].items()
        ]
        lines.append(f"Limits of the sandbox were hit: {'; '.join(hits)}.")
    if spent["tokens"]:
        price = f" and ${spent['cost']:.4f}" if spent["cost"] else ""
        lines.append(
            f"All episodes together spent {spent['tokens']:.0f} tokens{price} for each solved one."
        )
    for judged in analysis.get("judged", ()):
        unclear = f", {judged['none']} unclear" if judged["none"] else ""
        lines.append(
            f"{judged['ambiguous']} refused answers are ambiguous. "
            f"The judge {judged['judge']} read {judged['asked']} of them: {judged['same']} equal "
            f"to the gold, {judged['different']} different{unclear} (it agrees with the reward in "
            f"{number(judged['agrees'], 100)} %). No other figure counts these verdicts."
        )
    return lines


def minute(date: object) -> str:
    """Return a date of run.json up to the minute, in local time."""
    try:
        return datetime.fromisoformat(str(date)).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return str(date or "–")


# -- the terminal ----------------------------------------------------------------------------------


def render(sections: Iterable[Section]) -> Iterator[RenderableType]:
    """Yield the titles and tables for the terminal."""
    for title, rows in sections:
        if title:
            yield Text(visible(title))
        if rows:
            yield table(rows)


def table(rows: Sequence[Row]) -> Table:
    """Return rows as a table for the terminal; long words are folded, so that no number is cut."""
    drawn = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in rows[0]:
        texts = [name, *(row[name] for row in rows)]
        if name in WORDS:
            width = min(6, max(len(word) for text in texts for word in [*text.split(), ""]))
            drawn.add_column(Text(visible(name)), min_width=width, overflow="fold")
        else:
            cells = [*name.split(), *(row[name] for row in rows)]  # only the head may be wrapped
            drawn.add_column(Text(visible(name)), justify="right", min_width=max(map(len, cells)))
    for row in rows:
        # not str: brackets in a name are not markup
        drawn.add_row(*(Text(visible(text)) for text in row.values()))
    return drawn
