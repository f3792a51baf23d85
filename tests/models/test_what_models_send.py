"""Answers of model servers that a policy can cause, played over HTTP with each kind of agent: one
turn, executed only if it is whole, and never a fault of the server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from loopback import Server, serving
from misbehaving import Handler, answer

import intercode
from intercode.agents import make_agent
from intercode.envs import language_of
from intercode.errors import ContextOverflow, ModelError
from intercode.models import OpenAIModel
from intercode.runner.budget import BudgetTracker, Limits
from intercode.runner.episode import play
from intercode.types import Episode, Message

pytestmark = pytest.mark.slow

BASH = language_of({"env": "bash"})
MESSAGES: list[Message] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "?"},
]
RM = "echo gone; rm -rf /depot"


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Server(Handler)) as running:
        yield running


@pytest.fixture
def connect(server: Server) -> Iterator[Callable[..., OpenAIModel]]:
    models: list[OpenAIModel] = []

    def connect(**options: Any) -> OpenAIModel:
        models.append(OpenAIModel("m", base_url=f"{server.url}/v1", backoff=0.001, **options))
        return models[-1]

    yield connect
    for model in models:
        model.close()


Connect = Callable[..., OpenAIModel]


def says(content: Any, reason: str | None = "stop", **message: Any) -> Any:
    choice = {
        "message": {"role": "assistant", "content": content, **message},
        "finish_reason": reason,
    }
    return answer({"choices": [choice], "usage": {"prompt_tokens": 10, "completion_tokens": 7}})


def calls(arguments: Any, name: str = "execute", reason: str = "tool_calls") -> Any:
    function = {"name": name, **({} if arguments is ... else {"arguments": arguments})}
    return says(None, reason, tool_calls=[{"id": "1", "type": "function", "function": function}])


def fails(status: int, message: str, **fields: Any) -> Any:
    return answer({"error": {"message": message, **fields}}, status)


SUBMITS = {
    "try_again": says("submit"),
    "react": says("Action: submit"),
    "tools": calls("{}", "submit"),
}
FENCED = f"```bash\n{RM}\n```"


def played(connect: Connect, agent: str, **options: Any) -> Episode:
    with closing(intercode.make("bash", limit=1, max_turns=None)) as env:
        strategy = make_agent(agent, tasks=[], language=BASH, turns=3).strategy
        tracker = BudgetTracker(Limits(3))
        return play(env, env.tasks[0], strategy, connect(**options), tracker)


NOT_EXECUTED = {
    "refusal": (says(None, refusal="I cannot help with that."), "is a refusal"),
    "refusal with code": (says(FENCED, refusal="No."), "is a refusal"),
    "refusal as a part": (says([{"type": "refusal", "refusal": "I cannot."}]), "no"),
    "content filter": (says(None, "content_filter"), "content filter"),
    "half a text, filtered": (says(FENCED, "content_filter"), "content filter"),
    "the question is filtered": (
        fails(400, "The prompt triggered our content management policy.", code="content_filter"),
        "content filter",
    ),
    "moderation": (fails(403, "Your input was flagged by moderation."), "content filter"),
    "null": (says(None), "no"),
    "empty": (says(""), "no"),
    "blank": (says(" \n"), "no"),
    "no content at all": (answer({"choices": [{"message": {}}]}), "no"),
    "thoughts only": (says(None, reasoning_content=f"I run {FENCED}"), "no"),
    "thoughts only, another field": (says("", reasoning=FENCED), "no"),
    "thoughts only, details": (
        says(None, reasoning_details=[{"type": "reasoning.text", "text": FENCED}]),
        "no",
    ),
    "thoughts as parts": (says([{"type": "thinking", "thinking": [{"text": FENCED}]}]), "no"),
    "thoughts between tags": (says(f"<think>\n{FENCED}\n</think>\n"), "no"),
    "thoughts before a closing tag": (says(f"{FENCED}\n</think>\n"), "no"),
    "thoughts without an end": (says(f"<think>{FENCED}"), "no"),
    "cut off": (says(f"```bash\n{RM}/", "length"), "cut off"),
    "cut off by the context": (says(FENCED, "model_context_window_exceeded"), "cut off"),
    "a call that is cut off": (calls(json.dumps({"code": RM}), reason="length"), "cut off"),
    "a call without arguments": (calls(...), "no"),
    "a call with arguments null": (calls(None), "no"),
    "a call with empty arguments": (calls(""), "no"),
    "a call without a name": (calls("{}", ""), "no"),
}


@pytest.mark.parametrize("agent", SUBMITS)
@pytest.mark.parametrize("case", NOT_EXECUTED)
def test_what_a_policy_can_cause_is_a_turn_and_is_not_executed(
    server: Server, connect: Connect, case: str, agent: str
) -> None:
    behaviour, words = NOT_EXECUTED[case]
    server.script = [behaviour, SUBMITS[agent]]
    episode = played(connect, agent)
    first, last = episode.turns
    assert first.action is None
    assert words in first.observation.lower()
    assert (last.action, episode.ended, episode.error) == ("submit", "submit", None)
    assert episode.reward is not None
    assert len(server.requests) == 2
    (reply,) = [
        message
        for message in server.requests[1]["body"]["messages"]
        if message["role"] == "assistant"
    ]
    assert reply["content"] or reply.get("tool_calls"), "servers refuse an empty message"
    assert not {"reasoning", "reasoning_content", "reasoning_details"} & reply.keys()


EXECUTED = {
    "parts": says(
        [{"type": "text", "text": "```bash\n"}, {"type": "text", "text": "echo hi\n```"}]
    ),
    "a part with thoughts": says(
        [
            {"type": "thinking", "thinking": FENCED},
            {"type": "text", "text": "```bash\necho hi\n```"},
        ]
    ),
    "thoughts before": says("```bash\necho hi\n```", reasoning_content=FENCED),
    "written as JSON": says('{"name": "execute", "arguments": {"code": "echo hi"}}'),
    "written in brackets": says(
        '[TOOL_CALLS][{"name": "execute", "arguments": {"code": "echo hi"}}]'
    ),
    "written in tags": says(
        "I run it.\n<tool_call>\n<function=execute>\n<parameter=code>\necho hi\n</parameter>\n"
        "</function>\n</tool_call>"
    ),
    "written as invoke": says(
        '<invoke name="execute"><parameter name="code">echo hi</parameter></invoke>'
    ),
    "written as Python": says('[execute(code="echo hi")]'),
    "written after a separator": says(
        'function<｜tool▁sep｜>execute\n```json\n{"code": "echo hi"}\n```<｜tool▁call▁end｜>'
    ),
    "a fence inside a call": says(
        '{"name": "execute", "arguments": {"code": "```bash\\necho hi\\n```"}}'
    ),
    "a real call with a fence": calls(json.dumps({"code": "```sh\necho hi\n```"})),
    "a real call with an object": calls({"code": "echo hi"}),
}


@pytest.mark.parametrize("case", EXECUTED)
def test_code_is_found_wherever_servers_put_it(server: Server, connect: Connect, case: str) -> None:
    calling = case.startswith(("written", "a fence", "a real"))
    agent = "tools" if calling else "try_again"
    server.script = [EXECUTED[case], SUBMITS[agent]]
    episode = played(connect, agent)
    assert [(turn.action, turn.observation) for turn in episode.turns[:1]] == [("echo hi", "hi\n")]
    if case.startswith("written"):
        server.requests, server.script = [], [EXECUTED[case], says("submit")]
        assert played(connect, "try_again").turns[0].action == "echo hi"


def test_half_a_call_among_many_executes_none(server: Server, connect: Connect) -> None:
    whole = {"id": "1", "function": {"name": "execute", "arguments": json.dumps({"code": RM})}}
    half = {"id": "2", "function": {"name": "execute", "arguments": '{"code": "rm -rf /de'}}
    server.script = [says("", "length", tool_calls=[whole, half]), SUBMITS["tools"]]
    first = played(connect, "tools").turns[0]
    assert (first.action, first.finish_reason, len(first.calls or ())) == (None, "length", 2)


OVERFLOWS = {
    "Grok": (
        400,
        "This model's maximum prompt length is 131072 but the request contains 136973 tokens.",
    ),
    "Bedrock": (400, "Input is too long for requested model."),
    "GitHub Models": (413, "Request body too large for gpt-4o model. Max size: 8000 tokens."),
    "Cohere": (400, "too many tokens: total number of tokens in the prompt cannot exceed 4081"),
    "Groq": (
        413,
        "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 9000",
    ),
    "DeepSeek": (
        400,
        "This model's maximum context length is 65536 tokens. However, you requested 70000",
    ),
    "LM Studio": (
        400,
        "Trying to keep the first 9000 tokens when context the overflows; context length 4096",
    ),
    "Together": (
        422,
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193.",
    ),
    "vLLM": (
        400,
        "'max_tokens' is too large: 500. This model's maximum context length is 2048 tokens",
    ),
    "OpenAI": (400, "Your input exceeds the context window of this model."),
    "a server of one's own": (500, "prompt exceeds limit: 9000 > 8192"),
}


@pytest.mark.parametrize("name", OVERFLOWS)
def test_a_question_that_is_too_long_is_known_in_any_wording(
    server: Server, connect: Connect, name: str
) -> None:
    status, words = OVERFLOWS[name]
    server.script = [fails(status, words)]
    with pytest.raises(ContextOverflow):
        connect().complete(MESSAGES)
    assert len(server.requests) == 1


REFUSED = {
    "no quota": (
        429,
        "You exceeded your current quota, please check your plan.",
        "plan and billing",
    ),
    "no credit": (402, "Insufficient credits", "plan and billing"),
    "balance": (400, "Your credit balance is too low to access the API.", "plan and billing"),
    "max_tokens": (
        400,
        "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
        r'--request \'{"max_tokens": null, "max_completion_tokens": 99}\'',
    ),
    "temperature": (
        400,
        "Unsupported value: 'temperature' does not support 0.0 with this model.",
        r'--request \'{"temperature": null}\'',
    ),
    "extra": (422, "Extra inputs are not permitted: body, seed", r'--request \'{"seed": null}\''),
    "a limit of the reply": (
        400,
        "max_tokens is too large: 99. At most 50 completion tokens",
        "null",
    ),
    "system": (400, "System role not supported", "--no-system"),
    "anything": (400, "Bad request", "--request .* --context N"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_request_is_told_once_with_what_to_do(
    server: Server, connect: Connect, name: str
) -> None:
    status, words, advice = REFUSED[name]
    server.script = [fails(status, words)]
    with pytest.raises(ModelError, match=advice):
        connect(max_tokens=99, seed=1, temperature=0.0).complete(MESSAGES)
    assert len(server.requests) == 1


def test_a_busy_server_is_asked_again(server: Server, connect: Connect) -> None:
    server.script = [
        fails(
            429, "Rate limit reached for m on tokens per min (TPM): Limit 10, Used 9, Requested 5"
        ),
        fails(429, "You exceeded your current quota, please retry in 1s"),
        fails(503, "overloaded"),
        answer({"error": {"message": "Upstream is busy", "code": 502}}),
        says("ls"),
    ]
    assert connect().complete(MESSAGES).text == "ls"


def test_a_request_can_be_changed(server: Server, connect: Connect) -> None:
    server.script = [says("ls")]
    request = {"seed": None, "top_p": 0.9, "chat_template_kwargs": {"enable_thinking": False}}
    connect(seed=3, request=request, no_system=True).complete(MESSAGES, draw=2)
    body = server.requests[0]["body"]
    assert body == {
        "model": "m",
        "temperature": 0.0,
        "top_p": 0.9,
        "chat_template_kwargs": {"enable_thinking": False},
        "messages": [{"role": "user", "content": "Be brief.\n\n?"}],
    }
    with pytest.raises(intercode.errors.UsageError, match="cannot set messages"):
        connect(request={"messages": []})


def test_a_context_of_n_tokens_is_kept_by_counts(server: Server, connect: Connect) -> None:
    server.script = [says("ls")]
    model = connect(context=200)
    assert model.complete(MESSAGES).text == "ls"
    long: Message = {"role": "user", "content": "word " * 400}
    with pytest.raises(ContextOverflow, match="--context"):
        model.complete([*MESSAGES, long])
    assert len(server.requests) == 1


def test_reasoning_is_recorded_and_sent_back_as_it_came(server: Server, connect: Connect) -> None:
    details = [{"type": "reasoning.encrypted", "data": "a/b+c=", "index": 0}]
    thinking = {"reasoning": "I look.\n", "reasoning_details": details}
    server.script = [says("```bash\nls /depot\n```", **thinking), SUBMITS["try_again"]]
    episode = played(connect, "try_again", keep_reasoning=True)
    assert episode.turns[0].reasoning == thinking
    sent = server.requests[1]["body"]["messages"][2]
    assert sent == {"role": "assistant", "content": "```bash\nls /depot\n```", **thinking}


def test_what_servers_refuse_in_a_conversation_is_mended(server: Server, connect: Connect) -> None:
    server.script = [calls('{"code": "ls'), SUBMITS["tools"]]
    played(connect, "tools")
    (call,) = server.requests[1]["body"]["messages"][2]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"malformed": '{"code": "ls'}
