"""A learning curve with its controls, on one GPU: SFT on golds, and from there three ways on.

    golds ─ SFT ─► start ─┬─ GRPO, tasks from a dealer ────┐
                          ├─ RFT: SFT on own successes ────┼─► success by kind of task, with
                          └─ longer SFT on the same golds ─┘   intervals and paired tests

    python examples/curve.py --model MODEL --out runs/curve     # one GPU, overnight
    python examples/curve.py --tiny --out runs/tiny             # a random model, on the CPU
    python examples/curve.py --dry-run --out runs/dry           # the same with a few steps

It needs torch and transformers; MODEL is any causal model that transformers reads. An episode is
one Bash command. The controls take as many seconds as GRPO. Each line of OUT/curve.jsonl is an
object with a `row`: settings, tasks, sft, step, eval (rates with 95 % intervals by Wilson),
outcomes (of each task) or compare (McNemar's exact test). OUT/curve.svg draws four lines: greedy
success on known kinds at the start, and over the seconds of each of the three ways on. The kinds
of tasks:

    train    tasks of training                    held out   kinds that training does not have
    known    the same kinds, other names          other      another family
    near     one or two choices are new           starter    the tasks that intercode comes with

GRPO uses each batch for one update, so there is nothing to clip, and no KL term. Left out: several
turns, and sampling faster than `generate` of transformers.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import random
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple

import torch
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, AutoTokenizer

import intercode
from intercode.agents import Act, Ask, StrategySteps
from intercode.factory import EnvFactory
from intercode.generate import generate
from intercode.report.charts import Chart, svg
from intercode.train import (
    Job,
    Rollout,
    RolloutLimits,
    RolloutPool,
    Sampler,
    advantages,
    by_group,
    groups,
    hf_chat,
)
from intercode.types import Message, Task

OPTIONS: dict[str, tuple[Any, Any, str]] = {  # default, with --tiny, help
    "families": ("bash-files,bash-find,bash-tables", "bash-files", "families to train on"),
    "other": ("bash-settings", "bash-compare", "a family without training tasks"),
    "difficulties": ("1,2,3", "1,2", "of the tasks"),
    "n": (600, 40, "training tasks of each family"),
    "tests": (200, 24, "test tasks of each family, and those of training in evaluations"),
    "golds": (300, 40, "training tasks that SFT imitates"),
    "start": (0.6, 0.4, "success on other training tasks that ends the first SFT"),
    "epochs": (20, 60, "of the first SFT, at most"),
    "minutes": (120.0, 0.3, "of GRPO, and of each control"),
    "every": (100, 10, "steps between evaluations"),
    "groups": (32, 4, "tasks of a batch"),
    "size": (8, 4, "rollouts of a task"),
    "samples": (4, 2, "rollouts of a task in an evaluation, besides the greedy one"),
    "envs": (256, 8, "episodes at once"),
    "longest": (96, 32, "tokens of a reply, at most"),
    "micro": (16, 16, "sequences of one forward pass"),
    "sft-rate": (5e-5, 3e-3, "learning rate of SFT"),
    "rate": (1e-5, 3e-4, "learning rate of GRPO and RFT"),
    "seed": (0, 0, "of everything but the sampling on a GPU"),
}
DRY_RUN = {"n": 12, "tests": 8, "golds": 12, "epochs": 2, "minutes": 0.05, "samples": 1}
"""Options of --dry-run, besides those of --tiny."""
ASK = "Answer with one Bash command and nothing else."
FENCE = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}>\n{{ message['content'] }}{{ eos_token }}"
    "\n{% endfor %}{% if add_generation_prompt %}<assistant>\n{% endif %}"
)
"""The chat template of models that have none."""
DISTANCES = {0: "known", 1: "near", 2: "near", 3: "held out"}


class Row(NamedTuple):
    """A sequence to learn from; the weight is that of each token of the reply whose mask is 1."""

    prompt: Sequence[int]
    reply: Sequence[int]
    mask: Sequence[int]
    weight: float = 1.0


def question(task: Task) -> list[Message]:
    return [{"role": "user", "content": f"{ASK}\n\n{task.query}"}]


def one_command(task: Task, protocol: str) -> StrategySteps:
    """Ask for one command, execute it, and submit."""
    reply = yield Ask(question(task))
    fenced = FENCE.search(reply.text)
    yield Act((fenced[1] if fenced else reply.text).strip() or None)
    yield Act("submit")


class Policy:
    """A causal language model with float32 weights; on a GPU, a copy in bfloat16 samples."""

    def __init__(self, model: Any, tokenizer: Any, longest: int, micro: int) -> None:
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = self.sampler = model.to(self.device)
        if self.device == "cuda":
            self.sampler = copy.deepcopy(model).to(torch.bfloat16)
        self.tokenizer, self.longest, self.micro = tokenizer, longest, micro
        self.chat = hf_chat(tokenizer, None if tokenizer.chat_template else TEMPLATE)
        asked: list[Message] = [{"role": "user", "content": "List the files."}]
        answered: list[Message] = [*asked, {"role": "assistant", "content": "ls"}, *asked]
        ids = [*self.chat.encode(asked), *tokenizer.encode("ls", add_special_tokens=False)]
        after, eos = self.chat.append(ids, answered, 2)[len(ids) :], tokenizer.eos_token_id
        self.end = eos if eos in after[:2] else after[0]
        self.ends = sorted({self.end, eos})
        self.begin(self.state())

    def gold(self, task: Task) -> Row:
        ids = self.tokenizer.encode(str(task.gold), add_special_tokens=False)
        return Row(self.chat.encode(question(task)), [*ids, self.end], [1] * (len(ids) + 1))

    def generate(
        self, prompts: Sequence[Sequence[int]], *, greedy: bool
    ) -> list[tuple[list[int], list[float]]]:
        """Return a reply for each prompt, without log-probabilities."""
        width = max(map(len, prompts))
        ids = torch.full((len(prompts), width), self.end)
        mask = torch.zeros_like(ids)
        for number, prompt in enumerate(prompts):
            ids[number, width - len(prompt) :] = torch.tensor(prompt)
            mask[number, width - len(prompt) :] = 1
        # a model comes with settings of its own, such as another temperature
        choice = {} if greedy else {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
        with torch.no_grad():
            output = self.sampler.generate(
                input_ids=ids.to(self.device),
                attention_mask=mask.to(self.device),
                max_new_tokens=self.longest,
                do_sample=not greedy,
                repetition_penalty=1.0,
                eos_token_id=self.ends,
                pad_token_id=self.end,
                **choice,
            )
        replies = output[:, width:].tolist()
        ends = [[n for n, token in enumerate(reply) if token in self.ends] for reply in replies]
        return [
            (reply[: places[0] + 1 if places else None], [])
            for reply, places in zip(replies, ends, strict=True)
        ]

    def state(self) -> dict[str, Any]:
        return {name: value.detach().clone() for name, value in self.model.state_dict().items()}

    def begin(self, state: Mapping[str, Any]) -> None:
        """Return to the weights of `state`, with a new optimizer."""
        self.model.load_state_dict(state)
        self.sampler.load_state_dict(state)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), betas=(0.9, 0.95))

    def update(self, rows: Sequence[Row], rate: float) -> float:
        """Take one step that lowers Σ weight · −log p(token) / tokens; return this loss."""
        tokens, total = sum(sum(row.mask) for row in rows), 0.0
        for start in range(0, len(rows), self.micro):
            part = rows[start : start + self.micro]
            weights = torch.tensor([row.weight for row in part], device=self.device)
            loss = (self.losses(part).sum(1) * weights).sum() / tokens
            loss.backward()
            total += float(loss)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.param_groups[0]["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.sampler is not self.model:
            self.sampler.load_state_dict(self.model.state_dict())
        return total

    def losses(self, rows: Sequence[Row]) -> Any:
        """Return −log p (row, token) where the mask of the reply is 1, and 0 elsewhere."""
        width = max(len(row.prompt) + len(row.reply) for row in rows)
        ids = torch.full((len(rows), width), self.end)
        labels = torch.full((len(rows), width), -100)
        for number, (prompt, reply, mask, _) in enumerate(rows):
            first, last = len(prompt), len(prompt) + len(reply)
            ids[number, :last] = torch.tensor([*prompt, *reply])
            sampled = torch.tensor(mask) == 1
            labels[number, first:last] = torch.where(sampled, ids[number, first:last], -100)
        # a causal model needs no mask for padding on the right
        with torch.autocast("cuda", torch.bfloat16, enabled=self.device == "cuda"):
            logits = self.model(input_ids=ids.to(self.device)).logits[:, :-1]
        labels = labels[:, 1:].to(self.device)
        return cross_entropy(logits.float().mT, labels, reduction="none")


@dataclass
class Experiment:
    """One policy, the pool that executes its commands, the tasks, and the file of results."""

    options: argparse.Namespace
    policy: Policy
    pool: RolloutPool
    train: Sequence[Task]
    sets: Mapping[str, Sequence[Task]]
    outcomes: dict[str, dict[str, bool]] = field(default_factory=dict)
    lines: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    """Of each way on: the seconds of training, and the success on known kinds then, in percent."""

    def __post_init__(self) -> None:
        self.chance, self.begun = random.Random(self.options.seed), time.monotonic()
        self.file = (self.options.out / "curve.jsonl").open("w", buffering=1)

    def log(self, row: str, **fields: Any) -> None:
        line = json.dumps({"row": row, "at": round(time.monotonic() - self.begun, 2), **fields})
        self.file.write(line + "\n")
        print(line[:160], flush=True)

    def play(self, jobs: Sequence[Job], *, greedy: bool = False, tag: str = "") -> list[Rollout]:
        answer = partial(self.policy.generate, greedy=greedy)
        return self.pool.run_batch(jobs, answer, self.policy.chat, tag=tag)

    def imitate(self, golds: Sequence[Task], number: int) -> dict[str, float]:
        """Learn from each gold once."""
        rows = [self.policy.gold(task) for task in self.chance.sample(golds, len(golds))]
        batches = [rows[start : start + 16] for start in range(0, len(rows), 16)]
        rate = self.options.sft_rate * min(1.0, number / 3)
        return {"step": number, "loss": fmean(self.policy.update(batch, rate) for batch in batches)}

    def reinforce(self, dealer: Sampler, by_success: bool, number: int) -> dict[str, float]:
        """Learn from a batch of rollouts: by their advantages (GRPO), or from successes alone."""
        size = self.options.size
        rollouts = dealer.batch(partial(self.play, tag="train"), self.options.groups, size)
        rewards = [rollout.reward for rollout in rollouts]
        weights = [reward or 0.0 for reward in rewards] if by_success else advantages(rewards, size)
        rows = [
            Row(segment.prompt_ids, segment.token_ids, segment.mask, weight)
            for rollout, weight in zip(rollouts, weights, strict=True)
            for segment in rollout.segments
            if weight and segment.token_ids
        ]
        rate = self.options.rate * min(1.0, number / 5)
        loss = self.policy.update(rows, rate) if rows else 0.0
        figures = {"loss": loss, "sequences": len(rows), **dealer.numbers()}
        return {**figures, **self.pool.log(number, "train")}

    def start(self, golds: Sequence[Task]) -> dict[str, Any]:
        """Imitate the first training tasks until enough others succeed; return the weights."""
        others = self.train[len(golds) :] or golds
        probe = groups(others[:64], 1)
        for number in range(1, self.options.epochs + 1):
            figures = self.imitate(golds, number)
            success = fmean(rollout.reward == 1 for rollout in self.play(probe, tag="probe"))
            self.log("sft", **figures, success=success)
            if success >= self.options.start:
                break
        self.lines["before"] = [(0, self.evaluate("SFT"))]
        return self.policy.state()

    def go_on(
        self, label: str, start: Mapping[str, Any], step: Callable[[int], dict[str, float]]
    ) -> None:
        """From the weights `start`, take steps for as many seconds as are allowed, without those of
        evaluations."""
        self.policy.begin(start)
        line = self.lines[label] = [*self.lines["before"]]
        used, number = 0.0, 0
        while used < 60 * self.options.minutes:
            begun, number = time.monotonic(), number + 1
            figures = step(number)
            used += time.monotonic() - begun
            self.log("step", label=label, seconds=round(used, 2), **figures)
            if number % self.options.every == 0:
                line.append((round(used), self.evaluate(f"{label} {number}")))
        line.append((round(used), self.evaluate(label)))
        for part in (self.policy.model, self.policy.tokenizer):
            part.save_pretrained(self.options.out / label.replace(" ", "-"))

    def evaluate(self, label: str) -> float:
        """Log the success by kind of task, greedy and sampled, and the greedy outcomes. Return the
        greedy success on known kinds, in percent."""
        count = self.options.samples
        tasks = [(kind, task) for kind, listed in self.sets.items() for task in listed]
        greedy = self.play(groups((task for _, task in tasks), 1), greedy=True, tag="eval")
        sampled = self.play(groups((task for _, task in tasks), count), tag="eval")
        results: dict[str, list[tuple[str, bool, list[bool]]]] = {kind: [] for kind in self.sets}
        plays = zip(tasks, greedy, by_group(sampled, count), strict=True)
        for (kind, task), rollout, samples in plays:
            scored = [sample.reward == 1 for sample in samples if sample.reward is not None]
            if rollout.reward is not None and scored:
                results[kind].append((f"{kind}: {task.id}", rollout.reward == 1, scored))
        for kind, rows in results.items():
            self.log(
                "eval",
                label=label,
                kind=kind,
                tasks=len(rows),
                faults=len(self.sets[kind]) - len(rows),
                greedy=rate_of(sum(won for _, won, _ in rows), len(rows)),
                # samples of one task are not independent, so the interval counts tasks
                sampled=rate_of(sum(fmean(scored) for _, _, scored in rows), len(rows)),
                solved_once=sum(any(scored) for _, _, scored in rows),
            )
        self.outcomes[label] = {name: won for rows in results.values() for name, won, _ in rows}
        self.log("outcomes", label=label, greedy=self.outcomes[label])
        return 100 * fmean([won for _, won, _ in results["known"]] or [0])

    def draw(self) -> None:
        """Write the lines to a file."""
        ((_, before),) = self.lines.pop("before")
        last = max(points[-1][0] for points in self.lines.values())
        lines = {"before these": [(0, before), (last, before)], **self.lines}
        chart = Chart("curve", "Greedy success on known kinds, %", "seconds of training", lines)
        (self.options.out / "curve.svg").write_text(svg(chart, alone=True), "utf-8")

    def compare(self, before: str, after: str) -> None:
        """Log by kind how many tasks the greedy policy won and lost, and the chance of that."""
        first, second = self.outcomes[before], self.outcomes[after]
        for kind in self.sets:
            both = [name for name in first.keys() & second if name.startswith(f"{kind}: ")]
            won = sum(second[name] > first[name] for name in both)
            lost = sum(first[name] > second[name] for name in both)
            figures = {"kind": kind, "won": won, "lost": lost, "p": mcnemar(won, lost)}
            self.log("compare", before=before, after=after, **figures)


def rate_of(wins: float, n: int) -> dict[str, float]:
    """Return a rate with its 95 % interval (Wilson 1927)."""
    if not n:
        return {"wins": 0.0, "rate": 0.0, "low": 0.0, "high": 1.0}
    z, rate = 1.96, wins / n
    middle, scale = rate + z * z / (2 * n), 1 + z * z / n
    half = z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    low, high = (middle - half) / scale, (middle + half) / scale
    return {"wins": wins, "rate": rate, "low": max(0.0, low), "high": min(1.0, high)}


def mcnemar(won: int, lost: int) -> float:
    """Return the two-sided exact p of won and lost tasks that are equally likely (McNemar 1947)."""
    tail = sum(math.comb(won + lost, k) for k in range(min(won, lost) + 1))
    return min(1.0, 2 * tail / (1 << (won + lost)))


def prepare(
    options: argparse.Namespace, family: str, split: Literal["train", "test"]
) -> EnvFactory:
    """Return the environment of a family's tasks of one split, which are generated once."""
    folder = options.out / "data" / f"{family}-{split}"
    if not (folder / "card.json").exists():
        print(f"generating {folder} …", flush=True)
        n = options.n if split == "train" else options.tests
        levels = [int(level) for level in options.difficulties.split(",")]
        generate(
            family, n=n, seed=options.seed, split=split, difficulty=levels, out=folder, resume=True
        )
    factory = intercode.prepare("bash", data=str(folder))
    # one command cannot look for a rule first
    usable = [t for t in factory.tasks if t.extra["difficulty"] < 3 or t.extra.get("rule_shown")]
    return replace(factory, tasks=usable)


def tiny_model(tasks: Sequence[Task]) -> tuple[Any, Any]:
    """Return a model with random weights, and a tokenizer of the words of the tasks."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    alphabet, special = pre_tokenizers.ByteLevel.alphabet(), ["<end>"]
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    words.train_from_iterator([f"{ASK} {task.query} {task.gold}" for task in tasks], trainer)
    fast: Any = PreTrainedTokenizerFast
    config = LlamaConfig(
        vocab_size=words.get_vocab_size(),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
    )
    return LlamaForCausalLM(config), fast(tokenizer_object=words, eos_token="<end>")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--model", help="a name or folder that transformers reads")
    chosen.add_argument("--tiny", action="store_true", help="a random model, on the CPU")
    chosen.add_argument("--dry-run", action="store_true", help="a few steps of --tiny")
    parser.add_argument("--out", type=Path, required=True, help="folder of data and results")
    for name, (usual, tiny, about) in OPTIONS.items():
        default = usual
        if "--dry-run" in sys.argv:
            default = DRY_RUN.get(name, tiny)
        elif "--tiny" in sys.argv:
            default = tiny
        help = f"{about} [{usual}]"
        parser.add_argument(f"--{name}", type=type(usual), default=default, help=help)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(options.seed)
    families = options.families.split(",")
    trained, tested = (
        [prepare(options, family, split) for family in families] for split in ("train", "test")
    )
    other, starter = prepare(options, options.other, "test"), intercode.prepare("bash")
    every = [task for factory in trained for task in factory.tasks]
    random.Random(options.seed).shuffle(every)
    sets = {"train": every[-options.tests :], **{kind: [] for kind in DISTANCES.values()}}
    for task in (task for factory in tested for task in factory.tasks):
        if kind := DISTANCES.get(task.extra["distance"]):  # 4 may be a family that is trained here
            sets[kind].append(task)
    sets["other"] = [task for task in other.tasks if task.extra["distance"] == 0]
    sets["starter"] = list(starter.tasks)[: options.tests]
    if options.tiny or options.dry_run:
        torch.set_num_threads(1)  # more only wait for each other on matrices this small
        model, tokenizer = tiny_model(every)
    else:
        tokenizer = AutoTokenizer.from_pretrained(options.model)
        model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32)
    policy = Policy(model, tokenizer, options.longest, options.micro)
    limits = RolloutLimits(turns=2, reply_tokens=options.longest)
    factories = [*trained, *tested, other, starter]
    with RolloutPool(factories, one_command, envs=options.envs, limits=limits) as pool:
        curve = Experiment(options, policy, pool, every, sets)
        curve.log("settings", **{name: str(value) for name, value in vars(options).items()})
        curve.log("tasks", trained=len(every), **{kind: len(sets[kind]) for kind in sets})
        curve.evaluate("untrained")
        golds = every[: options.golds]
        start = curve.start(golds)
        for label in ("GRPO", "RFT"):
            dealer = Sampler([(factory, 1) for factory in trained], seed=options.seed)
            curve.go_on(label, start, partial(curve.reinforce, dealer, label == "RFT"))
        curve.go_on("longer SFT", start, partial(curve.imitate, golds))
        for before in ("SFT", "RFT", "longer SFT"):
            curve.compare(before, "GRPO")
        curve.draw()


if __name__ == "__main__":
    main()
