"""The examples for verl and SkyRL, made and called as there, with policies that know the golds."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from policies import Policy, make_tokenizer

import intercode

pytestmark = [pytest.mark.integrations, pytest.mark.filterwarnings("default")]
EXAMPLES = str(Path(__file__).parents[2] / "examples")
TASKS = intercode.prepare("bash", limit=4).tasks


@pytest.fixture(autouse=True)
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)


@pytest.mark.skipif(find_spec("verl") is None, reason="verl is not installed: make integrations")
def test_verls_agent_loop_returns_the_tokens_that_its_server_sampled() -> None:
    import hydra
    from omegaconf import OmegaConf
    from verl.experimental.agent_loop.agent_loop import DictConfigWrap
    from verl.utils.dataset.rl_dataset import RLHFDataset
    from verl.workers.rollout.replica import TokenOutput

    tokenizer = make_tokenizer()
    policy = Policy(tokenizer, TASKS, wrong=0.5, seed=4)
    said: dict[str, list[int]] = {}

    class Server:
        async def generate(
            self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any]
        ) -> Any:
            await asyncio.sleep(0.01)
            assert sampling_params == {"temperature": 1.0}
            ids, logprobs = policy.reply(prompt_ids)
            said.setdefault(request_id, []).extend(ids)
            step = len(said[request_id])  # as if the weights changed with each turn
            versions = {"min_global_steps": step, "max_global_steps": step}
            return TokenOutput(token_ids=ids, log_probs=logprobs, extra_fields=versions)

    config = OmegaConf.create(
        {"data": {}, "actor_rollout_ref": {"rollout": {"response_length": 2000}}}
    )

    async def play(task: str) -> Any:
        loop = hydra.utils.instantiate(
            config={"_target_": "verl_loop.InterCodeLoop", "env": "bash"},
            trainer_config=DictConfigWrap(config=config),
            server_manager=Server(),
            tokenizer=tokenizer,
            processor=None,
            dataset_cls=RLHFDataset,
            data_config=DictConfigWrap(config.data),
        )
        return await loop.run({"temperature": 1.0}, raw_prompt=[], task=task)

    async def play_all() -> list[Any]:
        return await asyncio.gather(*(play(task.id) for task in TASKS for _ in range(4)))

    outputs = asyncio.run(play_all())
    sampled = []
    for output in outputs:
        fields = output.as_dict()
        assert fields["responses"].shape == fields["rollout_log_probs"].shape
        pairs = zip(output.response_ids, output.response_mask, strict=True)
        sampled.append([token for token, mask in pairs if mask])
        assert "<|im_start|>" in tokenizer.decode(output.prompt_ids)
        first, last = (output.extra_fields[f"{end}_global_steps"] for end in ("min", "max"))
        assert first == sum(output.response_mask[: output.response_mask.index(0)])
        assert last == sum(output.response_mask)
    assert sorted(sampled) == sorted(said.values())
    assert {output.reward_score for output in outputs} == {0.0, 1.0}
    sys.modules["verl_loop"].pool("bash", None, 2000).close()


@pytest.mark.skipif(find_spec("skyrl_gym") is None, reason="skyrl_gym: make integrations")
def test_skyrls_environment_earns_what_the_golds_deserve() -> None:
    import skyrl_gym

    skyrl_gym.register("intercode", entry_point="skyrl_env:InterCodeEnv")

    def play(task: Any, code: str) -> float:
        env = skyrl_gym.make("intercode", env_config=None, extras={"task": task.id})
        messages, _ = env.init([])
        assert task.query in messages[-1]["content"]
        steps = []
        for reply in ("echo λ", code, "submit"):
            steps.append(env.step(f"```bash\n{reply}\n```"))
        env.close()
        assert [step["done"] for step in steps] == [False, False, True]
        assert [message["role"] for message in steps[0]["observations"]] == ["user"]
        assert "λ" in steps[0]["observations"][0]["content"]
        assert [step["reward"] for step in steps[:2]] == [0.0, 0.0]
        return float(steps[-1]["reward"])

    with ThreadPoolExecutor() as threads:  # as SkyRL calls it
        right = list(threads.map(lambda task: play(task, task.gold), TASKS))
        wrong = list(threads.map(lambda task: play(task, "false"), TASKS))
    assert (right, wrong) == ([1.0] * len(TASKS), [0.0] * len(TASKS))
    left = skyrl_gym.make("intercode", env_config=None, extras={"task": TASKS[0].id})
    left.init([])
    left.close()
    sys.modules["skyrl_env"].pool().close()
