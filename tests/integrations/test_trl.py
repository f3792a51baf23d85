"""TRL's trainer with a model that has its replies by heart, and the example with a random one."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from policies import make_tokenizer
from shaky import ANSWERS, REWARDS

import intercode
from intercode.rollouts import RolloutLimits, hf_chat

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "grpo_trl.py"

pytestmark = [
    pytest.mark.integrations,
    pytest.mark.skipif(find_spec("trl") is None, reason="trl is not installed: make integrations"),
    pytest.mark.filterwarnings("default"),
]


def reply_to(conversation: str) -> str:
    """Return the scripted reply to a rendered conversation."""
    codes = next(codes for query, codes in ANSWERS.items() if query in conversation)
    left = [codes] if isinstance(codes, str) else codes
    done = conversation.count("<|im_start|>assistant\n") - 1
    return f"I try.\n```bash\n{left[done] if done < len(left) else 'submit'}\n```"


def call_for(conversation: str) -> str:
    """Return the same reply as a call of a tool, in Qwen3's form."""
    code = reply_to(conversation).split("\n")[2]
    call = {"name": "execute", "arguments": {"code": code}}
    if code == "submit":
        call = {"name": "submit", "arguments": {"answer": ""}}
    if conversation.rpartition("<tool_response>")[2].startswith("\nSubmitted."):
        return "Done."
    return f"<tool_call>\n{json.dumps(call)}\n</tool_call>"


def scripted_model(tokenizer: Any, reply_to: Callable[[str], str] = reply_to) -> Any:
    """Return a causal language model that says what `reply_to` returns, with near certainty. Its
    last layer can be trained."""
    import torch
    from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
    from transformers.modeling_outputs import BaseModelOutput, CausalLMOutput

    opening = tokenizer.encode("<|im_start|>assistant\n", add_special_tokens=False)
    size = len(tokenizer)

    class Script(torch.nn.Module):
        """Its hidden state at a place is the token that the script has next, one-hot; 0 outside of
        replies."""

        def forward(self, input_ids: Any, **_: Any) -> Any:
            states = torch.zeros(*input_ids.shape, size)
            for row, ids in enumerate(input_ids.tolist()):
                for place in range(len(opening), len(ids) + 1):
                    if ids[place - len(opening) : place] == opening:
                        said = tokenizer.encode(
                            reply_to(tokenizer.decode(ids[:place])), add_special_tokens=False
                        )
                        for number, token in enumerate(
                            [*said, tokenizer.eos_token_id][: len(ids) - place + 1]
                        ):
                            states[row, place - 1 + number, token] = 1.0
            return BaseModelOutput(last_hidden_state=states)

    class Scripted(PreTrainedModel, GenerationMixin):
        config_class, base_model_prefix, main_input_name = PretrainedConfig, "model", "input_ids"

        def __init__(self, config: PretrainedConfig) -> None:
            super().__init__(config)
            self.model, self.lm_head = Script(), torch.nn.Linear(size, size, bias=False)
            self.post_init()
            self.lm_head.weight.data = 30 * torch.eye(size)

        def get_output_embeddings(self) -> Any:
            return self.lm_head

        def forward(
            self, input_ids: Any, attention_mask: Any = None, logits_to_keep: int = 0, **_: Any
        ) -> Any:
            return CausalLMOutput(
                logits=self.lm_head(self.model(input_ids).last_hidden_state[:, -logits_to_keep:])
            )

    return Scripted(
        PretrainedConfig(
            vocab_size=size,
            eos_token_id=tokenizer.eos_token_id,
            use_cache=False,
            max_position_embeddings=4096,
        )
    )


def test_each_rollout_earns_what_its_answer_deserves_and_a_fault_is_left_out(
    tmp_path: Path,
) -> None:
    from trl import GRPOConfig, GRPOTrainer

    from intercode.adapters.trl import Rollouts

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

    config = GRPOConfig(
        output_dir=str(tmp_path),
        max_steps=2,
        per_device_train_batch_size=8,
        num_generations=2,
        max_completion_length=400,
        gradient_checkpointing=False,
        generation_kwargs={"use_cache": False},
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_steps=1,
    )
    trainer = GRPOTrainer(
        scripted_model(tokenizer),
        reward,
        config,
        rollouts.dataset(),
        processing_class=tokenizer,
        rollout_func=play,
    )
    trainer.train()
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


def test_episodes_played_by_trls_own_tools_earn_the_same(tmp_path: Path) -> None:
    import trl
    from trl import GRPOConfig, GRPOTrainer

    from intercode.adapters.trl import environments

    template = Path(trl.__file__).with_name("chat_templates") / "qwen3.jinja"
    tokenizer = make_tokenizer(template.read_text())
    rows, make = environments(intercode.prepare("shaky:ShakyEnv"))
    seen: dict[str, set[float | None]] = {}

    def watch(environments: list[Any], task: list[str], **_: Any) -> list[float]:
        for name, environment in zip(task, environments, strict=True):
            seen.setdefault(name, set()).add(environment.get_reward())
        return [0.0] * len(task)

    config = GRPOConfig(
        output_dir=str(tmp_path),
        max_steps=1,
        per_device_train_batch_size=8,
        num_generations=2,
        max_completion_length=1000,
        gradient_checkpointing=False,
        generation_kwargs={"use_cache": False},
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_steps=1,
    )
    trainer = GRPOTrainer(
        scripted_model(tokenizer, call_for),
        watch,
        config,
        rows,
        processing_class=tokenizer,
        environment_factory=make,
    )
    trainer.train()
    assert seen == {task: {earned} for task, earned in REWARDS.items()}


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
