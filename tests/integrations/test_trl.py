"""TRL's trainer with a model that has its replies by heart, and the example with a random one."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from policies import make_tokenizer
from shaky import REWARDS
from trl_script import train

import intercode
from intercode.train import RolloutLimits, Sampler, hf_chat

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "grpo_trl.py"

pytestmark = [
    pytest.mark.integrations,
    pytest.mark.skipif(find_spec("trl") is None, reason="trl is not installed: make integrations"),
    pytest.mark.filterwarnings("default"),
]


def test_each_rollout_earns_what_its_answer_deserves_and_a_fault_is_left_out(
    tmp_path: Path,
) -> None:
    from intercode.train.adapters.trl import Rollouts

    tokenizer = make_tokenizer()
    chat = hf_chat(tokenizer, keep_thoughts=True)
    rollouts = Rollouts(intercode.prepare("shaky:ShakyEnv"), chat=chat)
    seen: dict[str, set[float | None]] = {}
    texts: list[str] = []
    trained: dict[str, str] = {}

    def play(prompts: list[str], trainer: Any) -> dict[str, Any]:
        found = rollouts(prompts, trainer)
        for task, ids, mask in zip(
            prompts, found["completion_ids"], found["env_mask"], strict=True
        ):
            trained[task] = tokenizer.decode(
                [token for token, sampled in zip(ids, mask, strict=True) if sampled]
            )
        return found

    def reward(prompts: list[str], completions: list[str], **columns: Any) -> list[float | None]:
        found = rollouts.reward(**columns)
        for task, earned in zip(prompts, found, strict=True):
            seen.setdefault(task, set()).add(earned)
        texts.extend(
            text for text, earned in zip(completions, found, strict=True) if earned is None
        )
        return found

    trainer = train(tmp_path, reward, rollouts.dataset(), tools=False, steps=2, rollout_func=play)
    assert seen == {task: {earned} for task, earned in REWARDS.items()}
    assert set(texts) == {""}
    said = "I try.\n```bash\n{}\n```<|im_end|>".format
    assert trained["late"] == said("ls /") + said("echo 8") + said("submit")
    assert trained["broken"] == ""
    for step in trainer.state.log_history[:2]:
        assert step["reward"] == pytest.approx(2 / 3)  # without the fault
        assert math.isfinite(step["loss"])
    rollouts.pool.limits = RolloutLimits(context=5)
    cut = rollouts(["right"], trainer)
    assert (cut["completion_ids"], cut["env_mask"]) == ([[tokenizer.eos_token_id]], [[0]])
    assert ([len(ids) for ids in cut["prompt_ids"]], cut["reward"]) == ([5], [0.0])


def test_a_sampler_deals_the_tasks_and_the_figures_are_among_the_metrics(tmp_path: Path) -> None:
    from datasets import Dataset

    from intercode.train.adapters.trl import Rollouts

    tokenizer = make_tokenizer()
    factory = intercode.prepare("shaky:ShakyEnv")
    sampler = Sampler([(factory, 1)], keep=(0.2, 0.8))
    chat = hf_chat(tokenizer, keep_thoughts=True)
    rollouts = Rollouts(factory, chat=chat, sampler=sampler)
    rows = Dataset.from_list([{"prompt": "a row of no task"}] * 4)
    groups: list[list[float | None]] = []

    def play(prompts: list[str], trainer: Any) -> dict[str, Any]:
        found = rollouts(prompts, trainer)
        pairs = zip(found["prompt_ids"], found["reward"], strict=True)
        for (first, earned), (second, other) in zip(pairs, pairs, strict=True):
            assert first == second, "the rollouts of a task are one group"
            groups.append([earned, other])
        return found

    trainer = train(tmp_path, rollouts.reward, rows, tools=False, steps=2, rollout_func=play)
    rollouts.pool.close()
    assert len(groups) == 8
    assert {tuple(group) for group in groups} >= {(1.0, 1.0), (0.0, 0.0)}
    for step in trainer.state.log_history[:2]:
        # replies known by heart give no mixed group: four calls for four groups each
        assert step["intercode/sampler/groups_played"] == 4
        assert step["intercode/sampler/mixed_groups"] == 0
        assert step["intercode/rollouts"] == 32
        assert step["intercode/tokens_per_second"] > 0


def test_episodes_played_by_trls_own_tools_earn_the_same(tmp_path: Path) -> None:
    from intercode.train.adapters.trl import environments

    rows, make = environments(intercode.prepare("shaky:ShakyEnv"))
    seen: dict[str, set[float | None]] = {}

    def watch(environments: list[Any], task: list[str], **_: Any) -> list[float]:
        for name, environment in zip(task, environments, strict=True):
            seen.setdefault(name, set()).add(environment.get_reward())
        return [0.0] * len(task)

    train(tmp_path, watch, rows, tools=True, steps=1, environment_factory=make)
    assert seen == {task: {earned} for task, earned in REWARDS.items()}


@pytest.mark.parametrize("way", ["rollouts", "environments"])
def test_two_processes_train_together_with_sandboxes_of_their_own(way: str, tmp_path: Path) -> None:
    command = [
        Path(sys.executable).with_name("torchrun"), "--standalone", "--nproc_per_node", "2",
        Path(__file__).with_name("trl_script.py"), way, tmp_path,
    ]  # fmt: skip
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    one, other = (json.loads((tmp_path / f"{number}.json").read_text()) for number in range(2))
    seen = [*one["rewards"].items(), *other["rewards"].items()]
    assert {task for task, _ in seen} == set(REWARDS)
    assert all(set(earned) == {REWARDS[task]} for task, earned in seen)
    assert min(len(one["rewards"]), len(other["rewards"])) > 0
    sandboxes = {*one["sandboxes"], *other["sandboxes"]}
    assert len(sandboxes) == len(one["sandboxes"]) + len(other["sandboxes"])
    assert min(len(one["sandboxes"]), len(other["sandboxes"])) > 0
    assert [one["left"], other["left"]] == [[], []]


def test_three_steps_of_the_example_with_a_random_model(tmp_path: Path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = make_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        eos_token_id=tokenizer.eos_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    command = [
        sys.executable, EXAMPLE, "--model", tmp_path / "model", "--steps", "3", "--tasks", "2",
        "--group", "2", "--reply-tokens", "16", "--tokens", "64", "--out", tmp_path / "out",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "out" / "model.safetensors").exists()
