"""The Inspect task, evaluated by Inspect with its own mock model and with its client of a real
local server."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from chat_server import serving
from shaky import ANSWERS, REWARDS

pytestmark = [
    pytest.mark.integrations,
    pytest.mark.skipif(
        find_spec("inspect_ai") is None, reason="inspect_ai is not installed: make integrations"
    ),
    pytest.mark.filterwarnings("default"),
]


def evaluate(model: Any, folder: Path, token_limit: int | None = None, **options: Any) -> Any:
    from inspect_ai import eval as inspect_eval

    kept = {
        "log_dir": str(folder),
        "display": "none",
        "fail_on_error": False,
        "token_limit": token_limit,
    }
    (log,) = inspect_eval(
        "intercode/coding", model=model, task_args={"env": "shaky:ShakyEnv"} | options, **kept
    )
    assert log.status == "success", log.error
    return log


def rewards(log: Any) -> dict[str, float | None]:
    return {
        sample.id: sample.scores["reward"].value if sample.scores else None
        for sample in log.samples
    }


def test_each_sample_scores_what_its_answer_deserves_and_a_fault_is_an_error(
    tmp_path: Path,
) -> None:
    from inspect_ai.model import get_model

    with serving(ANSWERS) as server:
        model = get_model(
            "openai-api/stub/scripted", base_url=f"{server.url}/v1", api_key="none-needed"
        )
        log = evaluate(model, tmp_path)
        assert rewards(log) == REWARDS
        (error,) = (sample.error.message for sample in log.samples if sample.error)
        assert "the machine has lost the sandbox" in error


def test_the_mock_model_calls_tools(tmp_path: Path) -> None:
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    def answer(messages: list[Any], tools: list[Any], *_: Any) -> ModelOutput:
        assert {tool.name for tool in tools} == {"execute", "submit"}
        codes = next(ANSWERS[message.text] for message in messages if message.text in ANSWERS)
        left = [codes] if isinstance(codes, str) else codes
        done = sum(message.role == "tool" for message in messages)
        call = ("execute", {"code": left[done]}) if done < len(left) else ("submit", {})
        output = ModelOutput.for_tool_call("mockllm/model", *call)
        output.usage = ModelUsage(input_tokens=10, output_tokens=5, total_tokens=15)
        return output

    log = evaluate(get_model("mockllm/model", custom_outputs=answer), tmp_path, agent="tools")
    assert rewards(log) == REWARDS
    assert log.stats.model_usage["mockllm/model"].output_tokens > 0


def test_a_server_that_fails_gives_an_error_and_no_score(tmp_path: Path) -> None:
    from inspect_ai.model import GenerateConfig, get_model

    with serving(ANSWERS) as server:
        server.healthy = False
        config = GenerateConfig(max_retries=0)
        model = get_model(
            "openai-api/stub/scripted",
            base_url=f"{server.url}/v1",
            api_key="none-needed",
            config=config,
        )
        log = evaluate(model, tmp_path, limit=1)
        assert rewards(log) == {"right": None}
        assert log.samples[0].error


def test_a_limit_of_inspect_ends_the_episode_scored(tmp_path: Path) -> None:
    from inspect_ai.model import get_model

    with serving(ANSWERS) as server:  # each reply costs 110 tokens
        model = get_model(
            "openai-api/stub/scripted", base_url=f"{server.url}/v1", api_key="none-needed"
        )
        log = evaluate(model, tmp_path, limit=2, token_limit=150)
        assert rewards(log) == {"right": 1.0, "late": 0.0}
        assert {sample.limit.type for sample in log.samples} == {"token"}
