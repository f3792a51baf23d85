"""Exported conversations of other people's programs, and of the agent `tools`: what chat templates
render of them, and so the tokens, is what they render of what the programs sent."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from call_forms import tokenizer_of
from command_line_agents import PROGRAMS, scripted_server, starter_tasks
from kept import needs_bwrap
from shell_server import Answered, ShellServer

from intercode.interop.export import export_run
from intercode.runs.evaluation import Evaluation

TRL = find_spec("trl")
pytestmark = [
    pytest.mark.integrations,
    pytest.mark.skipif(TRL is None, reason="trl is not installed: make integrations"),
]
TEMPLATES = ("qwen3_instruct_2507", "nemotron_3_nano", "gemma4_v5")
TURNS = int(os.environ.get("INTERCODE_EXPORTED_TURNS") or 120)
"""Turns of each program; 10 in each episode."""
Message = dict[str, Any]


def text_in(content: Any) -> str:
    """The text of content: a text, or parts."""
    if isinstance(content, str) or content is None:
        return content or ""
    return "".join(part.get("text", "") for part in content)


def called(id: str, name: str, arguments: Any) -> Message:
    if isinstance(arguments, str):
        arguments = json.loads(arguments)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def chat_of(form: str, request: Message) -> list[Message]:
    """The messages of a request in the form of chat/completions, with objects as arguments:
    written down here once more, after the protocols' descriptions."""
    told, messages = request.get("instructions") or request.get("system"), list[Message]()
    if told:
        messages.append({"role": "system", "content": text_in(told)})

    def reply() -> Message:
        if not messages or messages[-1]["role"] != "assistant":
            messages.append({"role": "assistant", "content": "", "tool_calls": []})
        return messages[-1]

    for item in request.get("input") or request["messages"]:
        kind, role, content = item.get("type"), item.get("role"), item.get("content")
        if kind == "function_call":
            call = called(item["call_id"], item["name"], item["arguments"])
            reply()["tool_calls"].append(call)
        elif kind == "function_call_output":
            result = {"tool_call_id": item["call_id"], "content": text_in(item["output"])}
            messages.append({"role": "tool", **result})
        elif role == "assistant":
            reply()["content"] += text_in(content)
            for call in item.get("tool_calls") or ():
                function = call["function"]
                reply()["tool_calls"].append(
                    called(call["id"], function["name"], function["arguments"])
                )
            for part in content if form == "messages" and isinstance(content, list) else ():
                if part["type"] == "tool_use":
                    reply()["tool_calls"].append(called(part["id"], part["name"], part["input"]))
        elif form == "messages" and isinstance(content, list):
            text = ""
            for part in content:
                if part["type"] == "tool_result":
                    result = {"tool_call_id": part["tool_use_id"]}
                    messages.append({"role": "tool", "content": text_in(part["content"]), **result})
                else:
                    text += part.get("text", "")
            if text:
                messages.append({"role": role, "content": text})
        else:
            result = {"tool_call_id": item["tool_call_id"]} if role == "tool" else {}
            messages.append({"role": role, "content": text_in(content), **result})
    return messages


def tools_in(request: Message) -> list[Message]:
    tools = []
    for tool in request.get("tools") or ():
        function = tool.get("function") or tool
        if "name" in function:
            schema = function.get("parameters") or function.get("input_schema") or {}
            about = {"name": function["name"], "description": function.get("description") or ""}
            tools.append({"type": "function", "function": {**about, "parameters": schema}})
    return tools


def answer_of(answered: Answered) -> Message:
    prefix = "toolu" if answered.form == "messages" else "call"
    id = f"{prefix}_{answered.prompt_tokens}"
    calls = [called(id, str(answered.tool), answered.arguments)] if answered.tool else []
    return {"role": "assistant", "content": answered.text, "tool_calls": calls}


def play(name: str, server: ShellServer, out: Path, tasks: Sequence[str]) -> None:
    if name != "tools":
        PROGRAMS[name].play(server, out, tasks, turns=10)
        return
    planned = Evaluation.plan(
        "bash", task=list(tasks), agent="tools", turns=10, model="x", base_url=server.base_url
    )
    with planned.open(out, resume=False) as store:
        planned.run(store)


def rows_of(run: Path, form: str) -> list[Message]:
    file = run.parent / f"{form}.jsonl"
    export_run(run, form, output=file)
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize("name", ["codex", "claude", "qwen", "tools"])
def test_three_templates_render_what_was_sent(name: str, tmp_path: Path) -> None:
    if name == "tools":
        needs_bwrap()
    else:
        PROGRAMS[name].needed()
    run = tmp_path / "run"
    with scripted_server() as server:
        server.submits = False
        all_tasks = [task.id for task in starter_tasks()]
        play(name, server, run, all_tasks[: TURNS // 10])
    sent = [answered for answered in server.answered if answered.task]
    assert len(sent) >= TURNS
    replies, whole = rows_of(run, "sft"), rows_of(run, "chat")
    assert len(replies) == len(sent)
    assert TRL
    assert TRL.submodule_search_locations
    for template in TEMPLATES:
        path = Path(TRL.submodule_search_locations[0], "chat_templates", f"{template}.jinja")
        tokenizer = tokenizer_of(path.read_text())
        render = partial(tokenizer.apply_chat_template, tokenize=False)  # equal texts, equal tokens
        texts = Counter[int]()
        for answered in sent:
            messages = [*chat_of(answered.form, answered.request), answer_of(answered)]
            texts[hash(render(messages, tools=tools_in(answered.request)))] += 1
        assert len(texts) == len(sent)
        for row in replies:
            text = render([*row["prompt"], *row["completion"]], tools=row["tools"])
            texts[hash(text)] -= 1
        assert not any(texts.values())
    assert len(whole) == len({row["task"] for row in whole})  # a conversation each
    assert sum(message.get("weight", 0) for row in whole for message in row["messages"]) == len(
        sent
    )
