"""A capture-the-flag task of Inspect's usual form: it names no sandbox. Its model is scripted."""

from __future__ import annotations

from typing import Any

from inspect_ai import Task, task
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes
from inspect_ai.tool import bash


def answer(messages: list[Any], *_: Any) -> ModelOutput:
    """Look into the file of the sample, then submit what it said."""
    seen = [message.text for message in messages if message.role == "tool"]
    call = ("submit", {"answer": seen[-1]}) if seen else ("bash", {"command": "base64 -d < note"})
    output = ModelOutput.for_tool_call("mockllm/model", *call)
    output.usage = ModelUsage(input_tokens=10, output_tokens=5, total_tokens=15)
    return output


@task
def flags() -> Task:
    samples = [
        Sample("Find the flag.", id="given", target="flag{a}", files={"note": "ZmxhZ3thfQo="}),
        Sample("Find the flag.", id="other", target="flag{a}", files={"note": "ZmxhZ3tifQo="}),
    ]
    return Task(
        samples,
        solver=react(tools=[bash(timeout=60)]),
        scorer=includes(),
        model=get_model("mockllm/model", custom_outputs=answer),
    )
