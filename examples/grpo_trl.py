"""Train a language model on our tasks by GRPO with TRL.

    pip install '.[trl]'      # in a clone
    python examples/grpo_trl.py --model Qwen/Qwen3-0.6B --data data/files --split train

`--model` is a name or a folder. Its chat template must keep prefixes; otherwise the first step
raises an error. Add `--vllm` to generate with vLLM on the same GPU.
"""

from __future__ import annotations

import argparse

import torch
from trl import GRPOConfig, GRPOTrainer

import intercode
from intercode.train import RolloutLimits
from intercode.train.adapters.trl import Rollouts


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="a name or a folder")
    parser.add_argument("--env", default="bash", help="as in intercode eval")
    parser.add_argument(
        "--data", help="a task file, a data folder or a name; without it, the starter tasks"
    )
    parser.add_argument("--split", help="train on the tasks of this split alone, such as train")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--tasks", type=int, default=8, help="tasks of one step")
    parser.add_argument("--group", type=int, default=8, help="rollouts of one task")
    parser.add_argument("--turns", type=int, default=6, help="actions of one episode")
    parser.add_argument("--reply-tokens", type=int, default=256, help="tokens of one reply")
    parser.add_argument(
        "--tokens", type=int, default=2048, help="tokens of one episode, after its first prompt"
    )
    parser.add_argument("--rate", type=float, default=1e-6, help="the learning rate")
    parser.add_argument(
        "--shaped", action="store_true", help="train on the shaped reward, not on success"
    )
    parser.add_argument("--vllm", action="store_true", help="generate with vLLM")
    parser.add_argument("--out", default="grpo", help="the folder of the trained model")
    chosen = parser.parse_args()

    factory = intercode.prepare(chosen.env, data=chosen.data, split=chosen.split)
    limits = RolloutLimits(chosen.turns, reply_tokens=chosen.reply_tokens)
    rollouts = Rollouts(factory, limits=limits, shaped=chosen.shaped)
    config = GRPOConfig(
        output_dir=chosen.out,
        max_steps=chosen.steps,
        learning_rate=chosen.rate,
        per_device_train_batch_size=chosen.group,
        gradient_accumulation_steps=chosen.tasks,
        num_generations=chosen.group,
        max_completion_length=chosen.tokens,
        use_vllm=chosen.vllm,
        vllm_mode="colocate",
        use_cpu=not torch.cuda.is_available(),
        logging_steps=1,
        save_strategy="no",
        report_to=[],
    )
    trainer = GRPOTrainer(
        chosen.model, rollouts.reward, config, rollouts.dataset(), rollout_func=rollouts
    )
    trainer.train()
    trainer.save_model(chosen.out)
    rollouts.pool.close()


if __name__ == "__main__":
    main()
