"""The tables of a report, as rows of text that terminal and page share, and a table for the
terminal. Rates are in percent.

A row is a dict from column to text; all rows of a table have the same columns. Rows hold the texts
of episodes as they are; the code that prints a row makes them harmless.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from intercode.report.summary import (
    FIGURES,
    Config,
    Summary,
    grouped,
    hardness_order,
    number,
    ratio,
    span,
)
from intercode.report.text import count_of, one_line, visible
from intercode.report.turns import KINDS

Row = dict[str, str]

WORDS = frozenset(
    (
        *("run", "agent", "model", "env", "data set", "turns that ask for code", "category"),
        *("tasks like", "rule", "hardness", "attack", "tries to", "result", "honest action"),
        "data",
    )
)
"""Columns of words; the others hold numbers."""
EACH_TURN = 50
"""Turns up to this one have a row each in the table by turn; then come powers of two and the last
turn."""
LONG_WORD = 12
"""Characters of a word, such as the name of a run, that the head of a column of numbers does not
break."""
FLIPS = 10
"""The most tasks solved more often, and less often, that the terminal lists."""
SHARES = {
    "errors": "errors %",
    "next_turn_fine": "fine right after an error %",
    "no_code": "no code in the reply %",
    "cut_off": "replies cut off %",
    "refused": "refused or filtered %",
    "timed_out": "out of time %",
    "repeated": "repeated %",
}


_GROUPS = {
    "by_round": "round",
    "by_length": "length",
    "by_data": "data set",
    "by_distance": "distance",
}


class Section(NamedTuple):
    """A table with its title; without rows, a line of text."""

    title: str
    rows: Sequence[Row] = ()


# -- the sections of a report ----------------------------------------------------------------------


def overview(summaries: Sequence[Summary]) -> Iterator[Section]:
    """Yield what `eval` prints: success, pass@k with several epochs, and success by hardness. Runs
    of several environments have a table for each of them. Runs are in the order given."""
    pairs = zip(summaries, labels(summaries), strict=True)
    by_env = grouped(pairs, lambda run: str(run[0]["env"]))
    for env, runs in by_env.items():
        rows = overview_rows(runs, named=len(summaries) > 1)
        yield Section(env if len(by_env) > 1 else "", rows)
    if len(summaries) == 1 and (by_k := summaries[0].get("pass_at_k")):
        rows = []
        for k, chance in by_k.items():
            if int(k) & (int(k) - 1) == 0 or int(k) == len(by_k):  # powers of two, and the last
                all_of_k = summaries[0]["pass_hat_k"][k]["rate"]
                rows.append(
                    {
                        "k": k,
                        "pass@k": number(chance["rate"], 100),
                        "95 %": span(chance["ci95"]),
                        "pass^k": number(all_of_k, 100),
                    }
                )
        yield Section("success % with k attempts", rows)
    for env, runs in by_env.items():
        if rows := _hardness_rows(runs):
            where = f" in {env}" if len(by_env) > 1 else ""
            yield Section(f"success % by hardness{where}", rows)


def _hardness_rows(runs: Sequence[tuple[Summary, str]]) -> list[Row]:
    levels = set().union(*(run.get("by_hardness", ()) for run, _ in runs))
    rows = []
    for run, label in runs:
        row = {"run": label}
        for level in sorted(levels, key=hardness_order):
            row[level] = "–"
            if part := run.get("by_hardness", {}).get(level):
                row[level] = f"{number(part['success_rate'], 100)} of {part['episodes']:,}"
        rows.append(row)
    return rows if levels else []


def details(analysis: Config) -> Iterator[Section]:
    """Yield the tables of one run's `analysis`, without empty ones."""
    title, turns = "by turn: episodes solved so far, and code that failed, in %", []
    for at, row in enumerate(analysis["by_turn"], 1):
        if at <= EACH_TURN or at & (at - 1) == 0 or at == len(analysis["by_turn"]):
            turn = {
                "turn": str(row["turn"]),
                "episodes": f"{row['episodes']:,}",
                "solved": number(row["solved"], 100),
                "errors": number(row["errors"], 100),
            }
            if "value" in row:
                turn["value"] = number(row["value"], digits=3)
            turns.append(turn)
    if turns:
        if "value" in turns[0]:
            title += "; mean reward of a submission right after the turn"
        yield Section(title, turns)
    if analysis["actions"]["all"]["turns"]:
        yield Section("turns by what happened", action_rows(analysis))
    yield from map(Section, sentences(analysis))
    for name, column in _GROUPS.items():
        rows = []
        for label, part in analysis[name].items():
            row = {
                column: label,
                "episodes": f"{part['episodes']:,}",
                "success %": number(part["success_rate"], 100),
                "95 %": span(part["ci95"]),
            }
            if "held" in part:
                row["broken demands"] = f"{part['broken']} of {part['held']}"
            rows.append(row)
        if len(rows) > 1:
            yield Section(f"success by {column}", rows)
    failures = []
    for row in analysis["failures"]:
        failures.append(
            {
                "category": row["name"],
                "episodes": f"{row['episodes']:,}",
                "%": number(row["share"], 100),
                "tasks like": ", ".join(example["task"] for example in row["examples"]),
                "rule": row["rule"],
            }
        )
    if failures:
        yield Section("why episodes failed", failures)


def comparison(whole: Config) -> Iterator[Section]:
    """Yield the comparison of two runs: all tasks, by hardness, and the first tasks that one run
    solved more often."""
    yield from comparisons(whole)
    for title, flips in changed_tasks(whole).items():
        yield Section(title)
        for flip in flips[:FLIPS]:
            task = flip["task"]
            if {flip["a"], flip["b"]} != {0, 1}:
                task += f" ({flip['a']:.0%} → {flip['b']:.0%})"
            yield Section("  " + one_line(f"{task}: {flip['query']}", 77))
        if len(flips) > FLIPS:
            yield Section(f"  and {len(flips) - FLIPS} more: --json and --html list them all")


def changed_tasks(whole: Config) -> dict[str, Sequence[Config]]:
    """Return the tasks that each of two runs solved more often than the other, by a title that
    names the runs."""
    first, second = labels(whole["runs"])
    compared = whole["comparison"]
    if compared is None:
        return {}
    gained, lost = compared["gained"], compared["lost"]
    return {
        f"{count_of(len(gained), 'task')} solved more often by {second} than by {first}": gained,
        f"{count_of(len(lost), 'task')} solved less often by {second} than by {first}": lost,
    }


def comparisons(whole: Config) -> Iterator[Section]:
    """Yield the differences between each other run and the first, on all tasks and by hardness."""
    first, *names = labels(whole["runs"])
    compared = whole.get("comparisons", [whole.get("comparison")])
    for name, difference in zip(names, compared, strict=False):
        yield from _difference(first, name, difference)


def _difference(first: str, second: str, compared: Config | None) -> Iterator[Section]:
    if compared is None:
        yield Section(f"no task is scored in both {second} and {first}, so they are not compared")
        return
    rows = []
    for label, part in {"all": compared, **compared["by_hardness"]}.items():
        p_value = format(part["p_value"], ".3f" if part["p_value"] >= 0.001 else ".1e")
        low, high = part["ci95"]
        rows.append(
            {
                "hardness": label,
                "tasks": f"{part['tasks']:,}",
                f"{first} %": number(part["rate_a"], 100),
                f"{second} %": number(part["rate_b"], 100),
                "difference": f"{100 * part['difference']:+.1f}",
                "95 %": f"{100 * low:+.1f} to {100 * high:+.1f}",
                "p": p_value.replace("-", "\N{MINUS SIGN}"),
            }
        )
    shared = count_of(compared["tasks"], "shared task")
    yield Section(f"{second} minus {first}: success on {shared}", rows)
    if compared["unpaired"]:
        alone = count_of(compared["unpaired"], "task is", "tasks are")
        yield Section(f"{alone} scored in one of the runs only, and left out")


# -- their rows and sentences ----------------------------------------------------------------------


def overview_rows(runs: Sequence[tuple[Summary, str]], *, named: bool) -> list[Row]:
    """Return a row for each run, without columns that are empty in all rows, and with `data` only
    where runs differ in them; `named`: with names of the runs."""
    rows = []
    data = {row.get("data") for row, _ in runs}
    for row, label in runs:
        rows.append(
            {
                "run": label,
                "date": minute(row.get("date")),
                "agent": str(row["agent"]),
                "model": str(row["model"] or "–"),
                "env": str(row["env"] or "–"),
                "data": str(row["data"]) if len(data) > 1 else "–",
                "reward": str(row["reward"] or "its own"),
                **figure_cells(row),
            }
        )
    rows = without_empty(rows, keep=("run", "agent"))
    if not named:
        del rows[0]["run"]
    return rows


def figure_cells(row: Summary) -> Row:
    """Return the text of each figure of a run."""
    return {figure.title: figure.text(row) for figure in FIGURES}


def without_empty(rows: Sequence[Row], keep: Sequence[str] = ()) -> list[Row]:
    """Return the rows without the columns that say nothing in any of them."""
    names = set(keep)
    for row in rows:
        names.update(name for name, text in row.items() if text not in ("–", "0"))
    return [{name: text for name, text in row.items() if name in names} for row in rows]


def labels(summaries: Sequence[Summary]) -> list[str]:
    """Return a name for each run: its path from the folder that holds all of them, or a number and
    the path if these are not distinct."""
    paths = [Path(str(row["run"])) for row in summaries]
    names = [str(path).removesuffix(".json") for path in paths]
    with suppress(ValueError):  # relative and absolute paths
        top = os.path.commonpath([path.parent for path in paths])
        names = [str(Path(name).relative_to(top)) for name in names]
    if len(set(names)) < len(names):
        return [f"{at}: {path}" for at, path in enumerate(paths, 1)]
    return names


def action_rows(analysis: Config) -> list[Row]:
    """Return the turns that ask for code, and their shares, in all, solved and failed episodes."""
    groups = analysis["actions"]
    whole = groups["all"]
    titles = {**SHARES, **{kind: f"{kind} %" for kind in KINDS if kind in whole}}
    if "explored_first_share" in whole:
        titles["explored_first_share"] = "exploring before anything else %"
    for name in ("cut_off", "refused"):
        if not whole[name]:
            del titles[name]
    if whole["next_turn_fine"] is None:
        del titles["next_turn_fine"]
    rows = [("number", [f"{part['turns']:,}" for part in groups.values()])]
    means = [number(ratio(part["turns"], part["episodes"])) for part in groups.values()]
    rows.append(("per episode", means))
    for name, title in titles.items():
        rows.append((title, [number(part.get(name), 100) for part in groups.values()]))
    if "explored_first" in whole:
        means = [number(part.get("explored_first")) for part in groups.values()]
        rows.append(("exploring before anything else, per episode", means))
    names = ("turns that ask for code", *groups)
    return [dict(zip(names, (title, *texts), strict=True)) for title, texts in rows]


def sentences(analysis: Config) -> Iterator[str]:
    """Yield sentences about errors, limits, expense and the judges' verdicts."""
    after, spent = analysis["recovery"], analysis["per_solved"]
    if after["episodes_with_error"]:
        without = after["solved_without_error"]
        of_others = f", of those without {number(without, 100)} %" * (without is not None)
        yield (
            f"Of the {after['episodes_with_error']:,} episodes with an error "
            f"{number(after['solved_with_error'], 100)} % were solved{of_others}."
        )
    if analysis["limits"]:
        hits = []
        for name, hit in analysis["limits"].items():
            hits.append("{} in {turns:,} turns of {episodes:,} episodes".format(name, **hit))
        yield f"Limits of the sandbox were hit: {'; '.join(hits)}."
    if spent["tokens"]:
        price = f" and ${spent['cost']:.4f}" if spent["cost"] else ""
        yield (
            f"All episodes together spent {spent['tokens']:,.0f} tokens{price} for each solved one."
        )
    for judged in analysis.get("judged", ()):
        unclear = ", {none} unclear" * bool(judged["none"])
        sentence = (
            "{ambiguous} refused answers are ambiguous. The judge {judge} read {asked} of them: "
            f"{{same}} equal to the gold, {{different}} different{unclear} (it agrees with the "
            f"reward in {number(judged['agrees'], 100)} %). No other figure counts these verdicts."
        )
        yield sentence.format_map(judged)


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
        texts, head = [row[name] for row in rows], Text(visible(name))
        if name in WORDS:
            longest = max(map(len, " ".join([name, *texts]).split()), default=0)
            drawn.add_column(head, min_width=min(6, longest), overflow="fold")
        else:
            words = [word[:LONG_WORD] for word in name.split()]  # only the head may be wrapped
            width = max(map(len, [*words, *texts]))
            drawn.add_column(head, justify="right", min_width=width, overflow="fold")
    for row in rows:
        # not str: brackets in a name are not markup
        drawn.add_row(*map(Text, map(visible, row.values())))
    return drawn
