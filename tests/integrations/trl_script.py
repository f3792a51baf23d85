"""TRL's trainer with a model that has its replies by heart.

    torchrun --nproc_per_node 2 trl_script.py rollouts|environments FOLDER

trains for two steps. Each process writes FOLDER/PROCESS.json: the rewards that it has seen, by
task; its sandboxes, by their pid namespaces; and what is left of them when the trainer is gone.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from families import left_in, spaces
from policies import CHATML, make_tokenizer
from shaky import ANSWERS

import intercode


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


def train(folder: Path, reward: Any, rows: Any, *, tools: bool, steps: int, **played: Any) -> Any:
    """Return the trainer after steps of 8 completions over all processes, with 2 for each prompt.
    `played` is the trainer's `rollout_func` or `environment_factory`."""
    import trl

    qwen3 = Path(trl.__file__).with_name("chat_templates") / "qwen3.jinja"
    tokenizer = make_tokenizer(qwen3.read_text() if tools else CHATML)
    config = trl.GRPOConfig(
        output_dir=str(folder),
        max_steps=steps,
        per_device_train_batch_size=8 // int(os.environ.get("WORLD_SIZE", "1")),
        num_generations=2,
        max_completion_length=1000,
        gradient_checkpointing=False,
        generation_kwargs={"use_cache": False},
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_steps=1,
    )
    trainer = trl.GRPOTrainer(
        scripted_model(tokenizer, call_for if tools else reply_to),
        reward,
        config,
        rows,
        processing_class=tokenizer,
        **played,
    )
    trainer.train()
    return trainer


def train_in_one_of_several(way: str, folder: Path) -> tuple[int, dict[str, Any]]:
    """Return the number of the process, and what it reports."""
    from intercode.train.adapters.trl import Rollouts, environments

    factory = intercode.prepare("shaky:ShakyEnv")
    seen: dict[str, list[float | None]] = {}

    def watch(task: list[str], reward: list[float | None], **_: Any) -> list[float | None]:
        for name, earned in zip(task, reward, strict=True):
            seen.setdefault(name, []).append(earned)
        return reward

    def watch_tools(environments: list[Any], task: list[str], **_: Any) -> list[float | None]:
        return watch(task, [environment.get_reward() for environment in environments])

    def watch_rollouts(prompts: list[str], reward: list[float | None], **_: Any) -> Any:
        return watch(prompts, reward)

    rollouts = Rollouts(factory)
    rows, make = environments(factory)
    if way == "rollouts":
        trainer = train(
            folder,
            watch_rollouts,
            rollouts.dataset(),
            tools=False,
            steps=2,
            rollout_func=rollouts,
        )
    else:
        trainer = train(folder, watch_tools, rows, tools=True, steps=2, environment_factory=make)
    report = {"rewards": seen, "sandboxes": sorted(spaces(os.getpid()))}
    rollouts.pool.close()  # the tools' environments end with the trainer
    return trainer.accelerator.process_index, report


if __name__ == "__main__":
    number, report = train_in_one_of_several(sys.argv[1], Path(sys.argv[2]))
    gc.collect()
    report["left"] = sorted(left_in(set(report["sandboxes"])))
    Path(sys.argv[2], f"{number}.json").write_text(json.dumps(report))
