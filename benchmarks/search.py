"""What a fork costs, and what it buys: a tree search against one line of play, on starter tasks with the same model.

    .venv/bin/python benchmarks/search.py [--forks 20] [--json]

A fork is timed with its close, after three actions, against the reset of an episode and those actions again, which is the
other way to the same state. `--json` prints a list of {what, ours, against, ratio}, times in seconds.
The model is the scripted one of tests/agents/hasty.py, which slips once on every task; rates are shares of solved tasks.
"""

from __future__ import annotations

import shutil
import statistics
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from measuring.clock import timed
from measuring.rows import Row, absent, command, finish

import intercode
from intercode.agents import make_agent
from intercode.env import InterCodeEnv
from intercode.models import ScriptedModel
from intercode.runner.run import evaluate
from intercode.types import Task

ACTIONS = {
    "bash": ["cd /depot", "count=$(ls | wc -l)", "echo $count > /tmp/count"],
    "sql": ["SELECT 1", "SELECT 2", "SELECT 3"],
    "python": ["import math", "x = [math.sqrt(n) for n in range(1000)]", "def f(): return x"],
    "ctf": ["ls", "pwd", "echo a > /tmp/a"],
}
TURNS = 4


def of_forks(language: str, forks: int) -> Row:
    env = intercode.make(language, max_turns=None)
    try:
        _reach(env, ACTIONS[language])
        ours = [timed(lambda: env.fork().close()) for _ in range(forks)]
        against = [timed(lambda: _reach(env, ACTIONS[language])) for _ in range(forks)]
    finally:
        env.close()
    return Row(f"{language}: fork and close / play again", statistics.median(ours), statistics.median(against))


def _reach(env: InterCodeEnv, actions: Sequence[str]) -> None:
    env.reset(options={"task": 0})
    for action in actions:
        env.step(action)


def of_solving(language: str, slips: Collection[str], hasty: Callable[[Sequence[Task], str], Any]) -> Row:
    setting = intercode.prepare(language, max_turns=None)
    tasks = [task for task in setting.tasks if task.id in slips]

    def rate(name: str) -> float:
        agent = make_agent(name, tasks=tasks, turns=TURNS, language=language)
        model = ScriptedModel(hasty(tasks, language).answer)
        episodes = evaluate(setting, agent.strategy, model, tasks=tasks)
        return sum(episode.success for episode in episodes) / len(episodes)

    what = f"{language}: solved by tree_search / by try_again, {TURNS} questions each"
    return Row(what, rate("tree_search"), rate("try_again"), unit="")


def main() -> int:
    parser = command(__doc__)
    parser.add_argument("--forks", type=int, default=20)
    options = parser.parse_args()
    if absent(options, why=None if shutil.which("bwrap") else "bubblewrap is not installed"):
        return 0
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "agents"))
    from hasty import SLIPS, Hasty  # type: ignore[import-not-found]

    forks = [of_forks(language, options.forks) for language in ACTIONS]
    return finish(options, [*forks, *(of_solving(language, slips, Hasty) for language, slips in SLIPS.items())])


if __name__ == "__main__":
    sys.exit(main())
