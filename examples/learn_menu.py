"""Reinforcement learning in a minute, on the CPU: a small policy learns generated Bash tasks by
GRPO.

    make learn
    .venv/bin/python examples/learn_menu.py [--steps 60] [--seeds 3] [--chart FILE.svg]

The policy is a softmax over a menu of 20 commands. It sees the words in the query and chooses a
command for the file that the query names; `intercode` executes the command and scores the state.
Nothing tells the policy which command is right, and some commands destroy the file. One "token" is
one word in the query or one entry in the menu, so a rollout's segment contains everything that the
update needs: the words as `prompt_ids`, the choice as `token_ids`, its log-probability as
`logprobs`.

Exits with status 1 if a seed does not rise from at most 20 % to at least 90 % on held-out files,
which no training task names.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import intercode
from intercode.agents import Act, Ask, StrategySteps
from intercode.generate import generate
from intercode.report.charts import Chart, svg
from intercode.train import RolloutPool, Segment, advantages, by_group, groups
from intercode.types import Message, Reply, Sample, Task, Tool

Curve = list[tuple[int, float]]
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
TASKS_A_STEP, GROUP, RATE, ENTROPY = 10, 6, 6.0, 0.05


class MenuPolicy:
    """A softmax over `MENU`, linear in the words of a query. A word that few training queries
    contain weighs more than a common one."""

    name = "menu"

    def __init__(self, queries: Sequence[str], seed: int) -> None:
        counts = Counter(word for query in queries for word in set(words_of(query)))
        self.vocabulary = {word: number for number, word in enumerate(sorted(counts))}
        self.rarity = np.array([np.log(len(queries) / counts[word]) for word in self.vocabulary])
        self.weights = np.zeros((len(MENU), len(counts)))
        self.seed = seed

    def features(self, word_ids: Sequence[int]) -> np.ndarray:
        found = np.zeros(len(self.rarity))
        found[list(word_ids)] = self.rarity[list(word_ids)]
        scaled: np.ndarray = found / max(float(np.linalg.norm(found)), 1e-9)
        return scaled

    def probabilities(self, word_ids: Sequence[int]) -> np.ndarray:
        scores = self.weights @ self.features(word_ids)
        exponents = np.exp(scores - scores.max())
        found: np.ndarray = exponents / exponents.sum()
        return found

    def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), draw: int = 0
    ) -> Reply:
        """Sample a command. `draw` differs between episodes and is the same in each run, so a seed
        always gives the same curve."""
        query = str(messages[-1]["content"])
        word_ids = tuple(
            sorted({self.vocabulary[word] for word in words_of(query) if word in self.vocabulary})
        )
        chances = self.probabilities(word_ids)
        choice = int(
            np.random.default_rng([self.seed, draw, *word_ids]).choice(len(MENU), p=chances)
        )
        path = re.findall(r"/[\w./-]*\w", query)[0]
        sample = Sample((choice,), (float(np.log(chances[choice])),), "stop", prompt_ids=word_ids)
        return Reply(MENU[choice].format(path=path), sample=sample)

    def learn(self, batch: Sequence[tuple[Segment, float]]) -> None:
        """Take one step along the gradient of advantage × log-probability plus a small entropy
        bonus, summed over the batch."""
        step = np.zeros_like(self.weights)
        for segment, advantage in batch:
            chances = self.probabilities(segment.prompt_ids)
            logs = np.log(chances)
            slope = -advantage * chances - ENTROPY * chances * (logs - chances @ logs)
            slope[segment.token_ids[0]] += advantage
            step += np.outer(slope, self.features(segment.prompt_ids))
        self.weights += RATE / GROUP * step


def words_of(query: str) -> list[str]:
    """Return the words in a query, without file names."""
    return re.findall(r"[a-z]+", re.sub(r"/\S*", " ", query.lower()))


def one_command(task: Task, protocol: str) -> StrategySteps:
    """Ask for one command, execute it, and submit."""
    reply = yield Ask([{"role": "user", "content": task.query}])
    yield Act(reply.text)
    yield Act("submit")


def success(pool: RolloutPool, tasks: Sequence[Task], policy: MenuPolicy) -> float:
    """Return the mean reward of 4 sampled episodes per task."""
    rewards = [
        rollout.reward
        for rollout in pool.run(groups(tasks, 4, seed=10**6), policy)
        if rollout.reward is not None
    ]
    return sum(rewards) / len(rewards)


def learn(
    pool: RolloutPool, train: Sequence[Task], held_out: Sequence[Task], seed: int, steps: int
) -> tuple[MenuPolicy, Curve]:
    """Train one policy and print its progress. Return it with its success rates on held-out files,
    in percent, by step."""
    policy, chance = MenuPolicy([task.query for task in train], seed), np.random.default_rng(seed)
    curve: Curve = []
    for step in range(steps + 1):
        if step % 20 == 0 or step == steps:
            curve.append((step, 100 * success(pool, held_out, policy)))
            print(
                f"seed {seed}  step {step:2}  held-out files {curve[-1][1]:5.1f} % "
                f" {'▇' * round(curve[-1][1] / 4)}",
                flush=True,
            )
        tasks = [
            train[int(place)] for place in chance.choice(len(train), TASKS_A_STEP, replace=False)
        ]
        batch = []
        jobs = groups(tasks, GROUP, seed=step * GROUP)
        for group in sorted(
            by_group(pool.run(jobs, policy), GROUP), key=lambda each: each[0].group
        ):
            values = advantages([rollout.reward for rollout in group], GROUP)
            batch += [
                (rollout.segments[0], value)
                for rollout, value in zip(group, values, strict=True)
                if rollout.reward is not None
            ]
        policy.learn(batch)
    return policy, curve


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--chart", type=Path, help="write the curves to this SVG file")
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "bash-files"
        print("generating tasks …", flush=True)
        generate("bash-files", n=600, seed=1, out=data)
        factory = intercode.prepare("bash", data=str(data))
        easy = [task for task in factory.tasks if task.extra["difficulty"] == 1]
        places = sorted({task.extra["place"] for task in easy if task.split == "train"})
        train = [
            task
            for task in easy
            if task.split == "train" and task.extra["place"] not in places[::5]
        ]
        held_out = [task for task in easy if task.extra["place"] in places[::5]]
        new = [task for task in easy if task.split == "test"]
        print(
            f"{len(train)} training tasks, {len(held_out)} on held-out files, {len(MENU)} commands"
            " to choose from"
        )
        rose, curves = 0, {}
        with RolloutPool(factory, one_command, envs=8) as pool:
            for seed in range(options.seeds):
                policy, curve = learn(pool, train, held_out, seed, options.steps)
                print(
                    f"seed {seed}           with new names and numbers too (the test split)"
                    f" {100 * success(pool, new, policy):.1f} %"
                )
                rose += curve[0][1] <= 20 and curve[-1][1] >= 90
                curves[f"seed {seed}"] = curve
    if options.chart:
        chart = Chart("learning", "Success on held-out files", "step", curves)
        options.chart.write_text(svg(chart, alone=True), "utf-8")
        print(f"the curves are in {options.chart}")
    print(
        f"{rose} of {options.seeds} seeds rose from 20 % or less to 90 % or more, in"
        f" {time.monotonic() - started:.0f} s"
    )
    return 0 if rose == options.seeds else 1


if __name__ == "__main__":
    sys.exit(main())
