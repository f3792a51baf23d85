"""Does training help on kinds of tasks that training has never seen? A small transformer learns
generated tasks about finding files, on the CPU: first it imitates golds, then it learns by GRPO.

    pip install torch numpy
    python examples/learn_kinds.py [--family bash-find] [--n 600] [--seeds 0 1 2] [--sampler]
    python examples/learn_kinds.py --family sql-questions --n 2000      # by hops

    query ──► common words, and slots for the others ──► encoder ──► decoder ──► one command

The weights are random at first. Numbers, paths and rare words in a query are slots such as <1>, so
names that training does not contain are no obstacle: a test task needs the right command around the
slots. The policy acts once and submits, so it cannot read a rule first; tasks of difficulty 3 are
left out unless their query shows the rule.

It prints the success rate on test tasks by their rung on the ladder of distances from training: 0
the same kind with other names; 1a and 2a one or two choices that training makes in other kinds
only; 1b and 2b the same, but a word of a choice is new; 3 a new kind; 4 a new family. It does so
before training, after imitation, and after GRPO, where `intercode` executes and scores the commands
that the policy samples for training tasks. With `--sampler`, measured pass rates choose these
tasks, and groups without variance are replaced. It also prints the share of groups whose rewards
differ.

Of `sql-questions`, it learns the training tasks of 2 hops, and prints the success on test tasks of
2 to 5 hops that training has (rung 0). The policy cannot look around, so these queries show the
tables of the database and the meaning of its codes.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

import intercode
from intercode.agents import Act, Ask, StrategySteps
from intercode.generate import FAMILIES, generate
from intercode.train import Job, Rollout, RolloutPool, Sampler, advantages, by_group, groups
from intercode.types import Message, Reply, Sample, Task, Tool

TOKEN = re.compile(
    r"/[\w./-]*\w|[A-Za-z_]+|\d+|\s|.", re.DOTALL
)  # /srv/x.txt, name, 38, a blank, *
SLOTS = 48
PAD, START, END = range(SLOTS, SLOTS + 3)
RARE = 0.02
"""A word that a smaller part of the training queries contains is a slot, as is each number."""
WIDTH, HEADS, LAYERS, LONGEST = 64, 4, 2, 320
BATCH, RATE = 32, 2e-3
TASKS_A_STEP, GROUP, GRPO_RATE = 12, 8, 2e-4
CREATED = re.compile(r"CREATE TABLE (\w+) \((.*)\);((?:\n(?!CREATE).*)*)")
"""A table in a dump, with its columns and its rows."""
Token = str | int
"""A word, or the number of a slot."""


class Vocabulary:
    """The common words of the training queries, and the words that only their golds contain. Ids
    below `SLOTS` are slots: the other words of a query, in the order in which they appear."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        counts = Counter(word for task in tasks for word in set(TOKEN.findall(task.query)))
        self.common = {
            word
            for word, count in counts.items()
            if count >= RARE * len(tasks) and not word.isdigit()
        }
        words = self.common.union(
            *(set(TOKEN.findall(str(task.gold))) - {*self.slots(task.query)} for task in tasks)
        )
        self.ids = {word: number for number, word in enumerate(sorted(words), END + 1)}
        self.words = {number: word for word, number in self.ids.items()}
        self.size = END + 1 + len(words)

    def slots(self, query: str) -> dict[str, int]:
        """Return the slot of each word in a query that is not common."""
        rare = dict.fromkeys(word for word in TOKEN.findall(query) if word not in self.common)
        return {word: number for number, word in enumerate(rare) if number < SLOTS}

    def prompt(self, task: Task) -> Tensor:
        ids = {**self.ids, **self.slots(task.query)}
        words = [word for word in TOKEN.findall(task.query) if not word.isspace()]
        return torch.tensor([ids[word] for word in words if word in ids])

    def gold(self, task: Task) -> Tensor:
        ids = {**self.ids, **self.slots(task.query)}
        return torch.tensor([*(ids[word] for word in TOKEN.findall(str(task.gold))), END])

    def text(self, ids: Iterable[int], query: str) -> str:
        """Return the command for sampled ids, with the words of `query` in the slots."""
        words = self.words | {number: word for word, number in self.slots(query).items()}
        return "".join(words.get(number, "?") for number in ids if number != END)


class Policy:
    """A transformer from the tokens of a query to those of a command, with random weights."""

    def __init__(self, vocabulary: Vocabulary, seed: int) -> None:
        torch.manual_seed(seed)
        self.vocabulary = vocabulary
        self.words = nn.Embedding(vocabulary.size, WIDTH)
        self.places = nn.Embedding(LONGEST, WIDTH)
        self.transformer = nn.Transformer(
            WIDTH, HEADS, LAYERS, LAYERS, 2 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
        )
        nn.init.normal_(self.words.weight, std=WIDTH**-0.5)
        nn.init.normal_(self.places.weight, std=0.1 * WIDTH**-0.5)
        parts = nn.ModuleList([self.words, self.places, self.transformer])
        self.parameters = list(parts.parameters())

    def embed(self, ids: Tensor) -> Tensor:
        places: Tensor = self.places(torch.arange(ids.shape[1]))
        embedded: Tensor = self.words(ids) * WIDTH**0.5 / 2 + places * WIDTH**0.5 / 2
        return embedded

    def scores(self, prompts: Tensor, memory: Tensor, replies: Tensor) -> Tensor:
        """Return the logits (batch, place, word) of the token after each of the `replies`."""
        later = torch.triu(torch.full((replies.shape[1],) * 2, True), 1)
        state: Tensor = self.transformer.decoder(
            self.embed(replies), memory, tgt_mask=later, memory_key_padding_mask=prompts == PAD
        )
        return state @ self.words.weight.T

    def encode(self, prompts: Tensor) -> Tensor:
        memory: Tensor = self.transformer.encoder(
            self.embed(prompts), src_key_padding_mask=prompts == PAD
        )
        return memory

    def losses(self, prompts: Sequence[Tensor], replies: Sequence[Tensor]) -> Tensor:
        """Return −log-probability (reply, token) of the tokens of `replies`, 0 after their ends."""
        asked, answers = padded(prompts), padded(replies)
        shifted = torch.cat([torch.full((len(answers), 1), START), answers[:, :-1]], 1)
        logits = self.scores(asked, self.encode(asked), shifted)
        return cross_entropy(logits.mT, answers, ignore_index=PAD, reduction="none")

    def sample(self, prompts: Sequence[Tensor], longest: int, *, greedy: bool) -> list[Sample]:
        """Return a reply of at most `longest` tokens for each prompt."""
        with torch.no_grad():
            asked = padded(prompts)
            memory, waiting = self.encode(asked), torch.arange(len(prompts))
            replies = torch.full((len(prompts), longest + 1), START)
            logprobs = torch.zeros(len(prompts), longest + 1)
            ends = torch.full((len(prompts),), longest + 1)
            for place in range(1, longest + 1):
                before = replies[waiting, :place]
                logits = self.scores(asked[waiting], memory[waiting], before)[:, -1]
                chances = logits.log_softmax(-1)
                choice = (
                    chances.argmax(-1) if greedy else torch.multinomial(chances.exp(), 1).squeeze(1)
                )
                replies[waiting, place] = choice
                logprobs[waiting, place] = chances.gather(1, choice[:, None]).squeeze(1)
                ends[waiting[choice == END]] = place + 1
                waiting = waiting[choice != END]
                if not len(waiting):
                    break
        return [
            Sample(
                tuple(replies[number, 1:end].tolist()),
                tuple(logprobs[number, 1:end].tolist()),
                "stop",
                prompt_ids=tuple(prompts[number].tolist()),
            )
            for number, end in enumerate(ends.tolist())
        ]


class Replies:
    """A model that hands out replies that were sampled before, in one batch: the same in each run,
    whichever episode asks first."""

    name = "small transformer"

    def __init__(self) -> None:
        self.waiting = defaultdict[str, list[Reply]](list)

    def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), draw: int = 0
    ) -> Reply:
        return self.waiting[str(messages[-1]["content"])].pop()


def one_command(task: Task, protocol: str) -> StrategySteps:
    """Ask for one command, execute it, and submit."""
    reply = yield Ask([{"role": "user", "content": task.query}])
    yield Act(reply.text)
    yield Act("submit")


def padded(rows: Sequence[Tensor]) -> Tensor:
    return pad_sequence(list(rows), batch_first=True, padding_value=PAD)


class Run:
    """One seed: a policy, and the pool that executes what it samples."""

    def __init__(
        self, pool: RolloutPool, train: Sequence[Task], test: Sequence[Task], seed: int
    ) -> None:
        self.pool, self.train, self.chance = pool, train, random.Random(seed)
        self.vocabulary = Vocabulary(train)
        self.policy = Policy(self.vocabulary, seed)
        self.golds = [self.vocabulary.gold(task) for task in train]
        self.longest = max(len(TOKEN.findall(str(task.gold))) for task in (*train, *test)) + 1
        self.mixed: list[bool] = []
        """Of each group that was trained on, whether its rewards differ."""
        self.played = 0
        """Rollouts of GRPO, with those that were not trained on."""

    def play(self, jobs: Sequence[Job], *, greedy: bool) -> list[Rollout]:
        """Return a rollout for each job, by group."""
        replies, tasks = Replies(), [job.task for job in jobs if isinstance(job.task, Task)]
        prompts = [self.vocabulary.prompt(task) for task in tasks]
        samples = self.policy.sample(prompts, self.longest, greedy=greedy)
        for task, sample in zip(tasks, samples, strict=True):
            text = self.vocabulary.text(sample.token_ids, task.query)
            replies.waiting[task.query].append(Reply(text, sample=sample))
        rollouts = self.pool.run(jobs, replies, tag="test" if greedy else "")
        return sorted(rollouts, key=lambda rollout: rollout.group)

    def imitate(self, epochs: int) -> None:
        """Train on the golds of the training tasks. Slots are renumbered at random, so that the
        policy copies them from the query."""
        optimizer = torch.optim.AdamW(self.policy.parameters, RATE)
        prompts, steps = [self.vocabulary.prompt(task) for task in self.train], 0
        total = epochs * -(-len(prompts) // BATCH)
        for _ in range(epochs):
            order = sorted(  # rows of about one length
                range(len(prompts)), key=lambda i: len(prompts[i]) + self.chance.uniform(0, 20)
            )
            batches = [order[i : i + BATCH] for i in range(0, len(order), BATCH)]
            self.chance.shuffle(batches)
            for batch in batches:
                asked, answers = [], []
                for number in batch:
                    renumbered = torch.arange(self.vocabulary.size)
                    renumbered[:SLOTS] = torch.randperm(SLOTS)
                    asked.append(renumbered[prompts[number]])
                    answers.append(renumbered[self.golds[number]])
                losses = self.policy.losses(asked, answers)
                steps += 1
                warm_up, decay = min(1.0, steps / 50), 1 - 0.9 * steps / total
                optimizer.param_groups[0]["lr"] = RATE * warm_up * decay
                self.step(optimizer, losses.sum() / sum(map(len, answers)))

    def reinforce(self, steps: int, sampler: Sampler | None) -> None:
        """Train by GRPO: sample, execute, and prefer what was better than the rest of its group."""
        optimizer = torch.optim.AdamW(self.policy.parameters, GRPO_RATE, weight_decay=0.0)
        play = partial(self.play, greedy=False)
        for _ in range(steps):
            if sampler:
                rollouts = sampler.batch(play, TASKS_A_STEP, GROUP)
            else:
                rollouts = play(groups(self.chance.sample(self.train, TASKS_A_STEP), GROUP))
            self.played += self.pool.stats().rollouts
            prompts, replies, weights = [], [], []
            for group in by_group(rollouts, GROUP):
                values = advantages([rollout.reward for rollout in group], GROUP)
                self.mixed.append(any(values))
                for rollout, value in zip(group, values, strict=True):
                    if rollout.reward is not None and value:
                        prompts.append(torch.tensor(rollout.segments[0].prompt_ids))
                        replies.append(torch.tensor(rollout.segments[0].token_ids))
                        weights.append(value)
            if weights:
                losses = self.policy.losses(prompts, replies).sum(1)
                self.step(
                    optimizer, (losses * torch.tensor(weights)).sum() / sum(map(len, replies))
                )

    def step(self, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.policy.parameters, 1.0)
        optimizer.step()

    def measure(self, tasks: Sequence[Task]) -> dict[str, float]:
        """Return the success rate, in percent, of the likeliest reply, by hops or distance."""
        rewards = defaultdict[str, list[float]](list)
        rollouts = self.play(groups(tasks, 1), greedy=True)
        for task, rollout in zip(tasks, rollouts, strict=True):
            if rollout.reward is not None:
                hops = task.extra.get("hops")
                group = f"{hops} hops" if hops else task.extra["rung"]
                rewards[group].append(rollout.reward)
        return {group: 100 * sum(rewards[group]) / len(rewards[group]) for group in sorted(rewards)}


def show_tables(data: Path) -> None:
    """Add to each query the tables of its database, with their columns and the codes in them."""
    file = data / "tasks.jsonl"
    records = [json.loads(line) for line in file.read_text().splitlines()]
    for record in records:
        shown = []
        text = (data / "databases" / f"{record['db']}.sql").read_text()
        for name, columns, rows in CREATED.findall(text):
            shown.append(" ".join([name, *(column.split()[0] for column in columns.split(", "))]))
            if name == "codes":
                shown += [" ".join(re.findall(r"'(.*?)'", row)) for row in rows.splitlines()]
        record["query"] = "\n".join([record["query"], *shown])
    file.write_text("".join(f"{json.dumps(record)}\n" for record in records))


def is_usable(task: Task) -> bool:
    """Return whether one command can solve the task: it need not read a rule first."""
    fields = task.extra
    if not fields.get("hops"):
        return bool(fields["difficulty"] < 3 or fields.get("rule_shown"))
    if task.split == "train":
        return bool(fields["hops"] == 2)
    return bool(fields["rung"] == "0")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--family", default="bash-find", help="a family of Bash or SQL tasks")
    parser.add_argument("--n", type=int, default=600, help="the number of tasks")
    parser.add_argument("--data", type=Path, help="use this generated folder instead")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=60, help="of imitation")
    parser.add_argument("--steps", type=int, default=20, help="of GRPO")
    parser.add_argument("--sampler", action="store_true", help="choose tasks by pass rates")
    options = parser.parse_args()
    torch.set_num_threads(1)  # more threads only wait for each other on matrices this small
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        data = options.data or Path(folder) / options.family
        if not options.data:
            print("generating tasks …", flush=True)
            generate(options.family, n=options.n, seed=1, out=data)
            if FAMILIES[options.family].length:
                show_tables(data)
        factory = intercode.prepare(options.family.split("-")[0], data=str(data))
        tasks = list(filter(is_usable, factory.tasks))
        train, test = (
            [task for task in tasks if task.split == split] for split in ("train", "test")
        )
        print(f"{len(train)} training tasks, {len(test)} test tasks")
        with RolloutPool(factory, one_command, envs=8) as pool:
            for seed in options.seeds:
                run = Run(pool, train, test, seed)
                sampler = Sampler([(train, 1)], seed=seed) if options.sampler else None
                phases = [
                    ("untrained", partial(run.imitate, 0)),
                    ("imitation", partial(run.imitate, options.epochs)),
                    ("GRPO", partial(run.reinforce, options.steps, sampler)),
                ]
                for phase, learn in phases:
                    learn()
                    rates = "  ".join(
                        f"{group} {rate:5.1f} %" for group, rate in run.measure(test).items()
                    )
                    seconds = time.monotonic() - started
                    print(f"seed {seed}  {phase:9}  {rates}  ({seconds:.0f} s)", flush=True)
                if run.mixed:
                    share = 100 * sum(run.mixed) / len(run.mixed)
                    print(f"seed {seed}  {share:.0f} % of groups mixed, {run.played} rollouts")


if __name__ == "__main__":
    main()
