"""Load runs, and summarize one in a few numbers, whose keys other programs rely on.

    episodes.jsonl ─────┐
                        ├─► EpisodeRow ── FIGURES ──► keys of `--json`, columns of tables
    index of the viewer ┘

The interval is Wilson's at 95 %. Epochs of one task depend on each other, so they carry less
information than as many different tasks: the number of episodes is divided by the design effect,
the variance of the mean over tasks (clusters) divided by that of independent episodes. With one
epoch this is plain Wilson. Episodes without a reward are not scored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import comb, sqrt
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from intercode.doors import part
from intercode.errors import StoreError, UsageError
from intercode.options import agent_name
from intercode.reading import listed, present
from intercode.report.text import LONGEST, one_line, shortened
from intercode.report.transcript import State, state_of
from intercode.report.turns import counted_turns
from intercode.rescoring.recordings import load_recording
from intercode.runs.store import stream_run
from intercode.types import Episode

Z95 = 1.959963984540054

LEVELS = ("simple", "easy", "moderate", "medium", "challenging", "hard", "extra")
"""The names that data sets give to levels of hardness, the easiest first."""

DEEPEST = 4
"""Levels of folders in which runs are looked for."""

Config = Mapping[str, Any]
Summary = dict[str, Any]
Entry = TypeVar("Entry")
Key = TypeVar("Key")


class EpisodeRow(NamedTuple):
    """The facts of an episode that figures read. The viewer's index has a column for each field."""

    task: str
    query: str
    epoch: int
    state: State
    reward: float | None
    turns: int
    tokens: int
    cost: float
    seconds: float
    robust: bool | None
    asks: int | None

    @classmethod
    def of(cls, episode: Episode, config: Config) -> EpisodeRow:
        used, asks, robust = episode.usage, None, None
        if episode.takes_questions:
            asks = sum(turn.asked is not None for turn in episode.turns)
        if config.get("robust") and "robust" in episode.parts:
            robust = bool(episode.parts["robust"])
        return cls(
            episode.task,
            episode.query[:LONGEST],
            episode.epoch,
            state_of(episode),
            episode.reward,
            len(counted_turns(episode)),
            used.tokens,
            used.cost,
            sum(column(episode.turns, "seconds")),
            robust,
            asks,
        )

    @property
    def success(self) -> bool:
        return self.state == "solved"


Scored = Episode | EpisodeRow
Row = TypeVar("Row", Episode, EpisodeRow)


class Figure(NamedTuple):
    """A figure of a run: a column of the report, its page and the viewer, and a key of `--json`.

    Args:
        title: the head of the column.
        text: a cell of the column, from all figures of the run.
        key: the key in JSON.
        value: the figure, from all rows and from the scored ones.
        optional: leave the key out where the value is None.
    """

    title: str
    text: Callable[[Summary], str]
    key: str
    value: Callable[[Sequence[EpisodeRow], Sequence[EpisodeRow]], Any]
    optional: bool = False


def number(value: float | None, scale: float = 1, digits: int = 1) -> str:
    return "–" if value is None else f"{scale * value:,.{digits}f}"


def span(interval: Sequence[float]) -> str:
    return f"{100 * interval[0]:.1f}–{100 * interval[1]:.1f}"


def episodes_of(figures: Config) -> str:
    """Return the number of episodes; for an unfinished run "2 of 12"."""
    episodes, planned = figures["episodes"], figures.get("planned")
    return f"{episodes:,} of {planned:,}" if planned and planned > episodes else f"{episodes:,}"


def _mean_asks(rows: Sequence[EpisodeRow]) -> dict[str, float | None] | None:
    """Return the mean questions to the user of solved and of failed episodes; None if no task takes
    questions."""
    asks: dict[str, list[int]] = {"solved": [], "failed": []}
    for row in rows:
        if row.asks is not None:
            asks["solved" if row.success else "failed"].append(row.asks)
    if not any(asks.values()):
        return None
    return {name: mean(values) for name, values in asks.items()}


FIGURES = (
    Figure(
        "n",
        episodes_of,
        "episodes",
        lambda rows, scored: len(scored) + column(rows, "state").count("fault"),
    ),
    Figure(
        "success %",
        lambda figures: number(figures["success_rate"], 100),
        "success_rate",
        lambda rows, scored: mean(column(scored, "success")),
    ),
    Figure(
        "95 %",
        lambda figures: "–" if figures["success_rate"] is None else span(figures["ci95"]),
        "ci95",
        lambda rows, scored: list(interval(scored)),
    ),
    Figure(
        "mean reward",
        lambda figures: number(figures["mean_reward"], digits=3),
        "mean_reward",
        lambda rows, scored: mean(row.reward or 0.0 for row in scored),
    ),
    Figure(
        "robust %",  # of the episodes that also ran on variant data
        lambda figures: number(figures.get("robust_rate"), 100),
        "robust_rate",
        lambda rows, scored: mean(row.robust for row in scored if row.robust is not None),
        optional=True,
    ),
    Figure(
        "mean turns",
        lambda figures: number(figures["mean_turns"]),
        "mean_turns",
        lambda rows, scored: mean(column(scored, "turns")),
    ),
    Figure(
        "asks (solved, failed)",  # mean questions to the user in tasks that take them
        lambda figures: ", ".join(map(number, (figures.get("asks") or {}).values())) or "–",
        "asks",
        lambda rows, scored: _mean_asks(scored),
        optional=True,
    ),
    Figure(
        "errors",
        lambda figures: str(figures["errors"]),
        "errors",
        lambda rows, scored: column(rows, "state").count("fault"),
    ),
    Figure(
        "action s",
        lambda figures: number(figures["seconds"]) if figures["seconds"] else "0",
        "seconds",
        lambda rows, scored: round(sum(column(rows, "seconds")), 3),
    ),
    Figure(
        "total tokens",
        lambda figures: f"{figures['tokens']:,}",
        "tokens",
        lambda rows, scored: sum(column(rows, "tokens")),
    ),
    Figure(
        "total cost $",
        lambda figures: f"{figures['cost']:.4f}" if figures["cost"] else "–",
        "cost",
        lambda rows, scored: round(sum(column(rows, "cost")), 6),
    ),
)
"""The figures of a run, in the order of the columns. `seconds` is the time spent executing actions,
without the time of the model. Means are over scored episodes, and None if there are none."""


def figures(config: Config, rows: Sequence[EpisodeRow]) -> Summary:
    """Return the run's settings, and its `FIGURES` by key; for an unfinished run also how many
    episodes are `planned`."""
    scored = scored_of(rows)
    values: Summary = {key: config.get(key) for key in ("run", "env", "agent", "model", "reward")}
    values["agent"] = agent_name(str(values["agent"]))
    for figure in FIGURES:
        value = figure.value(rows, scored)
        if value is not None or not figure.optional:
            values[figure.key] = value
    if values["tokens"] and not config.get("price"):
        values["cost"] = values["cost"] or None  # a sum of 0 without a price is unknown
    planned = config.get("planned")
    if isinstance(planned, int) and planned > values["episodes"]:
        values["planned"] = planned
    return values


def data_name(config: Config) -> str | None:
    """Return the name of a run's data, with the beginning of their digest."""
    name, digest = config.get("data"), config.get("data_digest")
    return f"{name} ({str(digest)[:6]})" if digest else name


def find_runs(path: Path, depth: int = DEEPEST) -> Iterator[Path]:
    """Yield the run folders in `path`, or `path` itself if it is one. Hidden folders, and folders
    below links, are left out; a link or folder that cannot be read is named (`listed`)."""
    entries = listed(path)
    if any(entry.name == "run.json" for entry in entries):
        yield path
        return
    for entry in entries:
        is_link = entry.is_symlink()
        if depth and (is_link or entry.is_dir()) and not entry.name.startswith("."):
            yield from find_runs(path / entry.name, 0 if is_link else depth - 1)


def runs_in(path: str | Path) -> list[Path]:
    """Return the run folders in `path`, or `path` itself if it is a run or contains none."""
    return list(find_runs(Path(path))) or [Path(path)]


def is_recorded(path: Path) -> bool:
    """Return whether `path` is a recording in another form than a run folder: a file, or a folder
    of trajectories without runs."""
    return present(path) == "file" or (
        not any(find_runs(path)) and any(part("recorded_files")(path))
    )


def load_run(path: str | Path) -> tuple[Summary, Sequence[Episode]]:
    """Return the settings and episodes of a run folder or of a recording in another form; a run's
    settings with `verdicts`.

    Raises what `stream_run` and `load_recording` raise, and `StoreError` for settings that lack env
    or agent.
    """
    path = Path(path)
    if is_recorded(path):
        recording = load_recording(path)
        return dict(recording.settings), recording.episodes
    config, episodes = stream_run(path)
    require_names(path, config)
    verdicts: Sequence[object] = ()
    if present(path / "judged"):
        # few runs are judged, and the judge imports much
        from intercode.rescoring.judge import read_verdicts

        verdicts = read_verdicts(path)
    return {**config, "verdicts": verdicts}, episodes


def require_names(path: Path, config: Config) -> None:
    """Raise `StoreError` if the settings of the run in `path` lack env or agent."""
    if lacking := [name for name in ("env", "agent") if not isinstance(config.get(name), str)]:
        raise StoreError(
            f"{path / 'run.json'} is damaged: {', '.join(lacking)} must be there, as text"
        )


def lean(episodes: Iterable[Episode]) -> list[Episode]:
    """Return what figures need of the episodes, since a run may be larger than memory: without
    messages, replies and samples, and with `shortened` outputs."""
    lean_episodes = []
    for episode in episodes:
        turns = []
        for turn in episode.turns:
            output = shortened(turn.observation)
            bare = replace(turn, ask=None, reply=None, thought=None, reasoning=None, calls=None)
            turns.append(replace(bare, observation=output, sample=None))
        outcomes = {
            key: value for key, value in episode.outcomes.items() if key in ("failed", "rounds")
        }
        lean_episodes.append(replace(episode, turns=tuple(turns), outcomes=outcomes))
    return lean_episodes


def summary(config: Config, episodes: Sequence[Episode]) -> Summary:
    """Return the fixed keys of `eval --json` and `report --json`.

    `episodes` counts scored episodes and errors; an unfinished run also has `planned`, which counts
    all.
    """
    rows = [EpisodeRow.of(episode, config) for episode in episodes]
    scored = scored_of(rows)
    values = figures(config, rows)
    if any(column(scored, "epoch")):
        values |= {"pass_at_k": pass_at_k(scored), "pass_hat_k": pass_hat_k(scored)}
    if levels := groups(config.get("hardness") or {}, scored):
        values["by_hardness"] = levels
    if "excluded" in config:
        values["excluded"] = list(config["excluded"])
    return values


def scored_of(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.reward is not None]


def groups(labels: Mapping[str, str], scored: Sequence[Scored]) -> dict[str, Summary]:
    """Return episodes, success rate and interval of each group of tasks that `labels` names; the
    easiest level first."""
    by_label = grouped(scored, lambda episode: labels.get(episode.task))
    rows = {}
    for label in sorted(by_label, key=hardness_order):
        rows[label] = success_of(by_label[label])
    return rows


def success_of(episodes: Sequence[Scored]) -> Summary:
    return {
        "episodes": len(episodes),
        "success_rate": mean(column(episodes, "success")),
        "ci95": interval(episodes),
    }


def grouped(entries: Iterable[Entry], key: Callable[[Entry], Key | None]) -> dict[Key, list[Entry]]:
    """Return the entries by their keys, without those whose key is None."""
    by_key: dict[Key, list[Entry]] = {}
    for entry in entries:
        if (name := key(entry)) is not None:
            by_key.setdefault(name, []).append(entry)
    return by_key


def hardness_order(level: str) -> tuple[int, str]:
    """Return a key that sorts levels of hardness: known names from easy to hard, then others by
    name."""
    return (LEVELS.index(level) if level in LEVELS else len(LEVELS), level)


def reasons(episodes: Sequence[Episode], most: int = 5) -> list[str]:
    """Return why episodes have no result: the `most` frequent errors with their counts."""
    counts = Counter(episode.error for episode in episodes if episode.error)
    lines = [f"{count} × {error}" for error, count in counts.most_common(most)]
    if len(counts) > most:
        lines.append(f"and {len(counts) - most} more")
    return lines


def interval(scored: Sequence[Scored]) -> tuple[float, float]:
    """Return the 95 % interval of the success rate; (0, 1) without episodes."""
    return interval_of_counts(_by_task(scored))


def interval_of_counts(counts: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """Return the 95 % interval of the success rate, from the episodes and the solved ones of each
    task.

    The variance is that of a ratio mean over k clusters: Σ(successes − rate · size)² · k/(k−1) / n²
    (Cochran, Sampling Techniques).
    """
    tasks, total = len(counts), sum(size for size, _ in counts)
    if not tasks:
        return 0.0, 1.0
    rate = sum(solved for _, solved in counts) / total
    # the equivalent number of independent episodes, between those of tasks and episodes
    count = float(tasks)
    if 1 < tasks < total:
        squares = sum((solved - rate * size) ** 2 for size, solved in counts)
        variance = squares * tasks / (tasks - 1) / total**2
        count = min(total, _independent(rate, variance, tasks))
        if variance == 0 < rate < 1:
            count = total
    return wilson(rate, count)


def wilson(rate: float, count: float) -> tuple[float, float]:
    """Return Wilson's score interval for a rate in `count` independent trials (Wilson 1927)."""
    z2 = Z95 * Z95 / count
    middle = (rate + z2 / 2) / (1 + z2)
    half = Z95 / (1 + z2) * sqrt(rate * (1 - rate) / count + z2 / (4 * count))
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    # exact at 0 and 1, despite rounding
    if rate == 0:
        low = 0.0
    if rate == 1:
        high = 1.0
    return low, high


def pass_at_k(scored: Sequence[Scored]) -> dict[str, Summary]:
    """Return the chance that at least one of k episodes of a task succeeds, for each k up to the
    fewest episodes of a task.

    With c successes in n episodes of a task it is 1 − C(n−c, k) / C(n, k), unbiased (Chen et al.
    2021, eq. 1), averaged over tasks. The interval is Wilson's, for as many tasks as give this mean
    and variance.
    """
    return _by_k(scored, lambda n, c, k: 1 - comb(n - c, k) / comb(n, k))


def pass_hat_k(scored: Sequence[Scored]) -> dict[str, Summary]:
    """Return the chance that all of k episodes of a task succeed (pass^k), as `pass_at_k` does.

    It is C(c, k) / C(n, k) (Yao et al. 2024, τ-bench).
    """
    return _by_k(scored, lambda n, c, k: comb(c, k) / comb(n, k))


def _by_k(scored: Sequence[Scored], chance: Callable[[int, int, int], float]) -> dict[str, Summary]:
    counts, by_k = _by_task(scored), {}
    sizes = {size for size, _ in counts}
    for k in range(1, min(sizes, default=0) + 1):
        chances = [chance(n, c, k) for n, c in counts]
        tasks, rate = len(chances), sum(chances) / len(chances)
        variance = 0.0
        if tasks > 1:
            variance = sum((value - rate) ** 2 for value in chances) / (tasks - 1) / tasks
        ci95 = wilson(rate, _independent(rate, variance, tasks))
        # pass@1 is the success rate, unless some tasks have more episodes than others
        if k == 1 and len(sizes) == 1:
            ci95 = interval_of_counts(counts)
        by_k[str(k)] = {"rate": rate, "ci95": ci95}
    return by_k


def _by_task(scored: Sequence[Scored]) -> list[tuple[int, int]]:
    """Return the episodes and the solved ones of each task."""
    counts: dict[str, tuple[int, int]] = {}
    for episode in scored:
        size, solved = counts.get(episode.task, (0, 0))
        counts[episode.task] = size + 1, solved + episode.success
    return list(counts.values())


def _independent(rate: float, variance: float, tasks: int) -> float:
    """Return how many independent trials give a rate this variance; at least one per task."""
    return max(tasks, rate * (1 - rate) / variance) if variance else tasks


def require_comparable(configs: Sequence[Config], *, force: bool = False) -> None:
    """Raise `UsageError` if runs of one environment come from different userlands: the versions of
    the tools are part of the score. The error names what differs, with a run for each version."""
    for env, runs in grouped(configs, lambda config: str(config.get("env"))).items():
        tools = [_tools(config.get("userland")) for config in runs]
        differences = []
        for name in dict.fromkeys(chain.from_iterable(tools)):
            by_version = {}
            for config, versions in zip(runs, tools, strict=True):
                by_version[str(versions.get(name, "not recorded"))] = config.get("run")
            if len(by_version) > 1:
                places = [f"{one_line(v, 40)} in {run}" for v, run in by_version.items()]
                differences.append(f"{name} {', '.join(places)}")
        if differences and not force:
            raise UsageError(
                f"these runs of {env} were made on different userlands "
                f"({'; '.join(differences)}); add --force to compare them anyway"
            )


def _tools(userland: object) -> Mapping[str, object]:
    """Return the versions in a userland, without the digest of all."""
    if not isinstance(userland, Mapping):
        return {"userland": userland}
    return {name: version for name, version in userland.items() if name != "id"}


def column(entries: Iterable[object], name: str) -> list[Any]:
    """Return an attribute of each entry."""
    return [getattr(entry, name) for entry in entries]


def mean(values: Iterable[float]) -> float | None:
    """Return the mean, or None without values."""
    numbers = list(values)
    return ratio(sum(numbers), len(numbers))


def ratio(part: float, whole: float) -> float | None:
    """Return the quotient, or None for a whole of 0."""
    return part / whole if whole else None
