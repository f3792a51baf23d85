"""Runs in Python: play one or read one, and take it as a table.

run = intercode.evaluate("bash", agent="gold", out="runs/gold")
run.summary["success_rate"], run.episodes[0].turns[0].action
run.frame().groupby("ended").reward.mean()      # pandas; one row per episode
run.frame("turns")                              # one row per turn
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from intercode.errors import UsageError
from intercode.runs import store
from intercode.types import Episode


@dataclass(frozen=True)
class Run:
    """A run that has been played: its folder, its settings (run.json) and its episodes."""

    path: Path
    config: Mapping[str, Any]
    episodes: Sequence[Episode]

    def __repr__(self) -> str:
        model = f", model={self.config['model']!r}" if self.config.get("model") else ""
        env, agent = self.config.get("env"), self.config.get("agent")
        count = len(self.episodes)
        return f"<Run {self.path}: env={env!r}, agent={agent!r}{model}, {count} episodes>"

    @property
    def summary(self) -> dict[str, Any]:
        """The figures of `eval --json`, such as `success_rate`, `ci95` and `errors`."""
        from intercode.report.summary import summary

        return dict(summary(self.config, self.episodes))

    def rows(self, of: Literal["episodes", "turns"] = "episodes") -> Iterator[dict[str, Any]]:
        """Yield a row for each episode or turn, as `export --format jsonl` does."""
        from intercode.report.analysis import explaining
        from intercode.runs.rows import episode_row, turn_rows

        if of not in ("episodes", "turns"):
            raise UsageError(f"a run has rows of episodes or of turns, not of {of!r}")
        reason = explaining(self.config, self.episodes)
        for episode in self.episodes:
            rows, why = turn_rows(self.config, episode), reason(episode)
            for row in rows if of == "turns" else [episode_row(self.config, episode)]:
                yield {**row, **why}

    def frame(self, of: Literal["episodes", "turns"] = "episodes") -> Any:
        """Return `rows` as a `DataFrame`. Raises `UsageError` if pandas is not installed."""
        try:
            import pandas  # type: ignore[import-untyped]
        except ImportError as error:
            raise UsageError("a frame needs pandas: pip install pandas") from error
        return pandas.DataFrame(list(self.rows(of)))


def read_run(path: str | Path) -> Run:
    """Return the run in a folder, with the last record of every task and epoch. Raises `UsageError`
    if there is no run, and `StoreError` if it cannot be read."""
    config, episodes = store.read_run(path)
    return Run(Path(path), config, episodes)


def evaluate(
    env: str, *, out: str | Path | None = None, resume: bool = False, **options: Any
) -> Run:
    """Play a run as `intercode eval` does, and return it.

    `options` are those of `intercode eval` and of the environment by their names in Python
    (docs/options.md), such as `agent`, `model`, `limit`, `turns`, `workers`. `out` is the run's
    folder, by default a new one below runs/; `resume` continues the run in it. An episode that a
    fault ended is in the run without a reward; a fault that ends the run is raised, and the
    episodes until then are kept.
    """
    from intercode.runs.evaluation import Evaluation

    evaluation = Evaluation.plan(env, **options)
    with (
        evaluation.executor() as executor,
        evaluation.open(out, resume=resume) as run_store,
    ):
        evaluation.run(run_store, executor=executor)
        path = run_store.path
    if evaluation.fault:
        raise evaluation.fault
    return read_run(path)
