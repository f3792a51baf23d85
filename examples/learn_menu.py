"""Reinforcement learning in a minute, on the CPU: a small policy learns generated Bash tasks by GRPO.

    make learn        or: .venv/bin/python examples/learn_menu.py [--steps 60] [--seeds 3] [--chart learning.svg]

The policy is a softmax over a menu of 20 commands. It sees the words of the query, chooses a command for the file that the
query names, and `intercode` executes the command and scores the state. Nothing tells the policy which command is right, and some
of the commands destroy the file. One "token" is one word of the query or one entry of the menu, so a rollout's segment holds
all that the update needs: the words as `prompt_ids`, the choice as `token_ids`, its log-probability as `logprobs`.

Exit status 1 if a seed does not rise from at most 20 % to at least 90 % on test tasks, whose files and phrasings are new.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import intercode
from intercode.agents import Act, Ask, StrategySteps
from intercode.generate import generate
from intercode.report.charts import Chart, svg
from intercode.rollouts import RolloutPool, advantages, groups
from intercode.types import Message, Reply, Sample, Task, Tool

MENU = """\
wc -l < {path}
wc -w < {path}
wc -c < {path}
sort {path}
tac {path}
sort -u {path} | wc -l
rm {path}
truncate -s 0 {path}
cat {path}
head -n 1 {path}
tail -n 1 {path}
rev {path}
sort -r {path}
sort -u {path}
uniq -c {path}
nl {path}
ls -l {path}
chmod a-w {path}
echo done >> {path}
mv {path} {path}.old
""".splitlines()
TASKS_A_STEP, GROUP, RATE = 8, 8, 0.5


class MenuPolicy:
    """A softmax over `MENU`, linear in the words of a query. `vocabulary` numbers the words."""

    name = "menu"

    def __init__(self, queries: Sequence[str], seed: int) -> None:
        words = sorted({word for query in queries for word in words_of(query)})
        self.vocabulary = {word: number for number, word in enumerate(words)}
        self.weights = np.zeros((len(MENU), len(words)))
        self.seed = seed

    def probabilities(self, word_ids: Sequence[int]) -> np.ndarray:
        scores = self.weights[:, list(word_ids)].sum(axis=1)
        exponents = np.exp(scores - scores.max())
        found: np.ndarray = exponents / exponents.sum()
        return found

    def complete(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), draw: int = 0) -> Reply:
        """Sample a command; `draw` differs from episode to episode, so a seed gives the same curve each time."""
        query = str(messages[-1]["content"])
        word_ids = tuple(sorted({self.vocabulary[word] for word in words_of(query) if word in self.vocabulary}))
        chances = self.probabilities(word_ids)
        choice = int(np.random.default_rng([self.seed, draw, *word_ids]).choice(len(MENU), p=chances))
        path = re.findall(r"/[\w./-]*\w", query)[0]
        sample = Sample((choice,), (float(np.log(chances[choice])),), "stop", prompt_ids=word_ids)
        return Reply(MENU[choice].format(path=path), sample=sample)

    def learn(self, word_ids: Sequence[int], choice: int, advantage: float) -> None:
        """Follow the gradient of advantage × log-probability."""
        slope = -self.probabilities(word_ids)
        slope[choice] += 1
        self.weights[:, list(word_ids)] += RATE * advantage * slope[:, None] / len(word_ids)


def words_of(query: str) -> list[str]:
    """Return the words of a query without the names of files."""
    return re.findall(r"[a-z]+", re.sub(r"/\S*", " ", query.lower()))


def one_command(task: Task, protocol: str) -> StrategySteps:
    """Ask for one command, execute it, and submit."""
    reply = yield Ask([{"role": "user", "content": task.query}])
    yield Act(reply.text)
    yield Act("submit")


def success(pool: RolloutPool, tasks: Sequence[Task], policy: MenuPolicy) -> float:
    """Return the mean reward of 4 sampled episodes of each task."""
    rewards = [rollout.reward for rollout in pool.run(groups(tasks, 4, seed=10**6), policy) if rollout.reward is not None]
    return sum(rewards) / len(rewards)


def learn(pool: RolloutPool, train: Sequence[Task], test: Sequence[Task], seed: int, steps: int) -> list[tuple[str, float]]:
    """Train one policy, print its progress, and return its success on test tasks, in percent by step."""
    policy = MenuPolicy([task.query for task in train], seed)
    chance = np.random.default_rng(seed)
    curve = [("0", 100 * success(pool, test, policy))]
    print(f"seed {seed}  step  0  test {curve[-1][1]:5.1f} %")
    for step in range(1, steps + 1):
        tasks = [train[int(place)] for place in chance.choice(len(train), TASKS_A_STEP, replace=False)]
        rollouts = sorted(pool.run(groups(tasks, GROUP, seed=step * GROUP), policy), key=lambda each: (each.group, each.seed))
        rewards = [rollout.reward for rollout in rollouts]
        for rollout, advantage in zip(rollouts, advantages(rewards, GROUP), strict=True):
            for segment in rollout.segments if advantage else ():
                policy.learn(segment.prompt_ids, segment.token_ids[0], advantage)
        if step % 10 == 0 or step == steps:
            curve.append((str(step), 100 * success(pool, test, policy)))
            known = [reward for reward in rewards if reward is not None]
            mean = 100 * sum(known) / len(known)
            print(f"seed {seed}  step {step:2}  test {curve[-1][1]:5.1f} %  train {mean:5.1f} %  {'▇' * round(curve[-1][1] / 4)}")
    return curve


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--chart", type=Path, default=Path("learning.svg"), help="write the curves to this SVG file")
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "bash-files"
        print("generating tasks …")
        generate("bash-files", n=600, seed=1, out=data)
        factory = intercode.prepare("bash", data=str(data))
        easy = [task for task in factory.tasks if task.extra["difficulty"] == 1]
        train, test = ([task for task in easy if task.split == split] for split in ("train", "test"))
        print(f"{len(train)} training tasks, {len(test)} test tasks, {len(MENU)} commands to choose from")
        with RolloutPool(factory, one_command, envs=8) as pool:
            curves = {f"seed {seed}": learn(pool, train, test, seed, options.steps) for seed in range(options.seeds)}
    options.chart.write_text(svg(Chart("learning", "Success on test tasks", "step", curves), alone=True), "utf-8")
    rose = [curve[0][1] <= 20 and curve[-1][1] >= 90 for curve in curves.values()]
    print(f"{sum(rose)} of {len(rose)} seeds rose from 20 % or less to 90 % or more, in {time.monotonic() - started:.0f} s")
    print(f"the curves are in {options.chart}")
    return 0 if all(rose) else 1


if __name__ == "__main__":
    sys.exit(main())
