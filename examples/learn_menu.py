"""Reinforcement learning in minutes, on the CPU: a small policy learns generated Bash tasks by
GRPO.

    make learn
    .venv/bin/python examples/learn_menu.py [--steps 30] [--seeds 3] [--turns 1] [--values LAMBDA]
                                            [--chart FILE.svg]

The policy is a softmax over a menu of 20 commands. It sees the words in the query, and the pairs of
neighbouring words, and chooses a command for the file that the query names; `intercode` executes
the command and scores the state. Nothing tells the policy which command is right, and some commands
destroy the file. One "token" is one word or pair in the query or one entry in the menu, so a
rollout's segment contains everything that the update needs: the words as `prompt_ids`, the choice
as `token_ids`, its log-probability as `logprobs`.

With `--turns 3` an episode has up to three commands, and `submit` is on the menu. `--values LAMBDA`
then reinforces a choice by the shaped reward of its turn (`intercode.train.shaped`) and LAMBDA,
LAMBDA², … of those of later turns, instead of its rollout's advantage.

Exits with status 1 if a seed does not rise from at most 20 % to at least 90 % on held-out files,
which no training task names.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

import intercode
from intercode.agents import Act, Ask, Strategy, StrategySteps
from intercode.generate import generate
from intercode.report.charts import Chart, svg
from intercode.train import Rollout, RolloutPool, Segment, advantages, by_group, groups, shaped
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
KINDS = ("lines", "words", "bytes", "sorted", "reversed", "distinct", "remove", "empty")
"""The kinds of `bash-files` that a command of the menu solves."""
TASKS, TASKS_A_STEP, GROUP, RATE, ENTROPY = 200, 10, 6, 12.0, 0.05
ENVS = 3
"""The number of episodes that are played at once."""
OF_TURN = 4.0
"""The weight of the feature that says which turn it is."""
GOAL, STEPS_OF_GOAL = 0.8, 5
"""The success rate, over so many steps, until which rollouts are counted."""


class MenuPolicy:
    """A softmax over `MENU`, linear in the words of a query. A word that few training queries
    contain weighs more than a common one. With several turns, the number of the turn is one more
    word, and `submit` one more command."""

    name = "menu"

    def __init__(self, queries: Sequence[str], seed: int, turns: int = 1) -> None:
        counts = Counter(word for query in queries for word in set(words_of(query)))
        self.vocabulary = {word: number for number, word in enumerate(sorted(counts))}
        rarity = [np.log(len(queries) / counts[word]) for word in self.vocabulary]
        self.rarity = np.array(rarity + [OF_TURN] * (turns if turns > 1 else 0))
        self.menu = [*MENU, "submit"] if turns > 1 else MENU
        self.weights = np.zeros((len(self.menu), len(self.rarity)))
        self.seed, self.turns = seed, turns

    def features(self, word_ids: Sequence[int]) -> np.ndarray:
        weights = np.zeros(len(self.rarity))
        weights[list(word_ids)] = self.rarity[list(word_ids)]
        scaled: np.ndarray = weights / max(float(np.linalg.norm(weights)), 1e-9)
        return scaled

    def probabilities(self, word_ids: Sequence[int]) -> np.ndarray:
        scores = self.weights @ self.features(word_ids)
        exponents = np.exp(scores - scores.max())
        chances: np.ndarray = exponents / exponents.sum()
        return chances

    def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), draw: int = 0
    ) -> Reply:
        """Sample a command. `draw` differs between episodes and is the same in each run, so a seed
        always gives the same curve."""
        query, turn = str(messages[0]["content"]), len(messages) // 2
        words = {self.vocabulary[word] for word in words_of(query) if word in self.vocabulary}
        word_ids = (*sorted(words), *([len(self.vocabulary) + turn] if self.turns > 1 else []))
        chances = self.probabilities(word_ids)
        choice = int(
            np.random.default_rng([self.seed, draw, *word_ids]).choice(len(self.menu), p=chances)
        )
        path = re.findall(r"/[\w./-]*\w", query)[0]
        sample = Sample((choice,), (float(np.log(chances[choice])),), "stop", prompt_ids=word_ids)
        return Reply(self.menu[choice].format(path=path), sample=sample)

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
    """Return the words in a query, without file names, and each pair of neighbouring words."""
    words = re.findall(r"[a-z]+", re.sub(r"/\S*", " ", query.lower()))
    return words + [f"{word} {after}" for word, after in pairwise(words)]


def up_to(turns: int) -> Strategy:
    """Return an agent that asks for so many commands, executes them, and submits."""

    def agent(task: Task, protocol: str) -> StrategySteps:
        messages: list[Message] = [{"role": "user", "content": task.query}]
        for _ in range(turns):
            reply = yield Ask(list(messages))
            step = yield Act(reply.text)
            if reply.text == "submit":
                return
            messages += [reply.message, {"role": "user", "content": step.observation}]
        yield Act("submit")

    return agent


def weighted(group: Sequence[Rollout], fading: float | None) -> list[tuple[Segment, float]]:
    """Return each choice of a group with what it is reinforced by: its rollout's advantage, or the
    shaped reward of its turn and the `fading` ones of later turns."""
    pairs = []
    of_group = advantages([rollout.reward for rollout in group], GROUP)
    for rollout, advantage in zip(group, of_group, strict=True):
        rewards = shaped(rollout)
        for segment in rollout.segments if rollout.reward is not None else ():
            weight = advantage
            if fading is not None:
                later = rewards[segment.turns[0] :]
                weight = sum(fading**number * reward for number, reward in enumerate(later))
            pairs.append((segment, weight))
    return pairs


def success(pool: RolloutPool, tasks: Sequence[Task], policy: MenuPolicy) -> float:
    """Return the mean reward of 4 sampled episodes per task."""
    rewards = [
        rollout.reward
        for rollout in pool.run(groups(tasks, 4, seed=10**6), policy)
        if rollout.reward is not None
    ]
    return sum(rewards) / len(rewards)


def learn(
    pool: RolloutPool,
    train: Sequence[Task],
    held_out: Sequence[Task],
    seed: int,
    options: argparse.Namespace,
) -> tuple[MenuPolicy, Curve]:
    """Train one policy and print its progress. Return it with its success rates on held-out files,
    in percent, by step."""
    policy = MenuPolicy([task.query for task in train], seed, options.turns)
    chance, steps = np.random.default_rng(seed), options.steps
    curve: Curve = []
    rates: list[float] = []
    for step in range(steps + 1):
        if step % 10 == 0 or step == steps:
            curve.append((step, 100 * success(pool, held_out, policy)))
            print(
                f"seed {seed}  step {step:2}  held-out files {curve[-1][1]:5.1f} % "
                f" {'▇' * round(curve[-1][1] / 4)}",
                flush=True,
            )
        if step == steps:
            break
        tasks = [
            train[int(place)] for place in chance.choice(len(train), TASKS_A_STEP, replace=False)
        ]
        batch = []
        jobs = groups(tasks, GROUP, seed=step * GROUP)
        played = sorted(by_group(pool.run(jobs, policy), GROUP), key=lambda group: group[0].group)
        for group in played:
            batch += weighted(group, options.values)
        policy.learn(batch)
        solved = sum(rollout.episode.success for group in played for rollout in group)
        rates.append(solved / len(jobs))
    for step in range(STEPS_OF_GOAL, len(rates) + 1):
        if sum(rates[step - STEPS_OF_GOAL : step]) >= GOAL * STEPS_OF_GOAL:
            print(f"seed {seed}  {GOAL:.0%} in training after {step * len(jobs)} rollouts")
            break
    return policy, curve


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=1, help="the commands of an episode")
    parser.add_argument(
        "--values",
        type=float,
        metavar="LAMBDA",
        help="weight a turn by its shaped reward and, times LAMBDA each, those of later turns",
    )
    parser.add_argument("--chart", type=Path, help="write the curves to this SVG file")
    options = parser.parse_args()
    # the policy sees the words of the query and the turn, not what was said before
    warnings.filterwarnings("ignore", "a rollout has")
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "bash-files"
        print("generating tasks …", flush=True)
        generate("bash-files", n=TASKS, seed=1, out=data, kinds=KINDS)
        factory = intercode.prepare("bash", data=str(data))
        known = [task for task in factory.tasks if task.split == "train"]
        new = [task for task in factory.tasks if task.split == "test"]
        places = sorted({task.extra["place"] for task in known})[::5]
        train = [task for task in known if task.extra["place"] not in places]
        held_out = [task for task in known if task.extra["place"] in places]
        print(
            f"{len(train)} training tasks, {len(held_out)} on held-out files, {len(MENU)} commands"
            " to choose from"
        )
        rose, curves = 0, {}
        agent = up_to(options.turns)
        with RolloutPool(factory, agent, envs=ENVS, values=options.values is not None) as pool:
            for seed in range(options.seeds):
                policy, curve = learn(pool, train, held_out, seed, options)
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
