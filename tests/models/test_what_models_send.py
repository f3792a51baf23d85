"""Answers of model servers that a policy can cause, played over HTTP with each kind of agent: one
turn, executed only if it is whole, and never a fault of the server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any

import pytest
from loopback import Server, serving
from misbehaving import Handler, answer

import intercode
from intercode import InterCodeEnv
from intercode.agents import make_agent
from intercode.envs import language_of
from intercode.errors import ContextOverflow, ModelError
from intercode.models import OpenAIModel
from intercode.runner.budget import BudgetTracker, RunLimits
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


def choice(**fields: Any) -> Any:
    return answer({"choices": [fields], "usage": {"prompt_tokens": 10, "completion_tokens": 7}})


def says(content: Any, reason: str | None = "stop", **message: Any) -> Any:
    message = {"role": "assistant", "content": content, **message}
    return choice(message=message, finish_reason=reason)


def calls(arguments: Any, name: str = "execute", reason: str = "tool_calls") -> Any:
    function = {"name": name, **({} if arguments is ... else {"arguments": arguments})}
    return says(None, reason, tool_calls=[{"id": "1", "type": "function", "function": function}])


def fails(status: int, message: str, **fields: Any) -> Any:
    return answer({"error": {"message": message, **fields}}, status)


CODE = '{"code": "echo hi"}'
CALL = f'{{"name": "execute", "arguments": {CODE}}}'
SUBMITS = {
    "try_again": says("submit"),
    "react": says("Action: submit"),
    "tools": calls("{}", "submit"),
}
FENCED = f"```bash\n{RM}\n```"


@pytest.fixture(scope="module")
def env() -> Iterator[InterCodeEnv]:
    with closing(intercode.make("bash", limit=1, max_turns=None)) as bash:
        yield bash


def played(env: InterCodeEnv, connect: Connect, agent: str, **options: Any) -> Episode:
    strategy = make_agent(agent, tasks=[], language=BASH, turns=3).strategy
    return play(env, env.tasks[0], strategy, connect(**options), BudgetTracker(RunLimits(3)))


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
    "refusal: upper case": (says(FENCED, "REFUSAL"), "is a refusal"),
    "filter: Gemini compat": (says(FENCED, "content_filter: PROHIBITED_CONTENT"), "content filter"),
    "filter: Gemini native": (says(FENCED, "SAFETY"), "content filter"),
    "filter: Gemini recitation": (says(FENCED, "RECITATION"), "content filter"),
    "filter: Zhipu": (says(FENCED, "sensitive"), "content filter"),
    "filter: Bedrock": (says(FENCED, "guardrail_intervened"), "content filter"),
    "filter: Bedrock 2": (says(FENCED, "content_filtered"), "content filter"),
    "filter: Cohere": (says(FENCED, "ERROR_TOXIC"), "content filter"),
    "filter: Azure choice without message": (
        choice(
            index=0,
            finish_reason="content_filter",
            content_filter_results={"violence": {"filtered": True}},
        ),
        "content filter",
    ),
    "filter: DashScope": (
        fails(400, "Input data may contain inappropriate content.", code="data_inspection_failed"),
        "content filter",
    ),
    "filter: DeepSeek": (
        fails(400, "Content Exists Risk", type="invalid_request_error"),
        "content filter",
    ),
    "filter: xAI": (
        fails(403, "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO"),
        "content filter",
    ),
    "filter: LiteLLM": (
        fails(400, "litellm.ContentPolicyViolationError: AzureException"),
        "content filter",
    ),
    "filter: OpenRouter": (
        fails(
            403,
            "Input flagged",
            code=403,
            metadata={"reasons": ["violence"], "flagged_input": "rm"},
        ),
        "content filter",
    ),
    "filter: OpenRouter choice": (
        choice(
            finish_reason="error",
            error={"code": 403, "message": "Output was flagged by moderation"},
            message={"role": "assistant", "content": FENCED},
        ),
        "content filter",
    ),
    "filter: Cloudflare": (
        answer(
            {
                "errors": [
                    {"code": 2016, "message": "Prompt blocked due to security configurations"}
                ]
            },
            424,
        ),
        "content filter",
    ),
    "filter: no choices": (
        answer(
            {
                "choices": [],
                "prompt_feedback": {"block_reason": "SAFETY"},
                "usage": {"prompt_tokens": 9, "completion_tokens": 0},
            }
        ),
        "content filter",
    ),
    "filter: Zhipu 1301": (
        fails(
            400,
            "The system detected potentially unsafe or sensitive content in input or generation.",
            code="1301",
        ),
        "content filter",
    ),
    "null: no message": (choice(index=0, finish_reason="stop"), "no"),
    "empty: Gemma token": (says("<end_of_turn>"), "no"),
    "empty: DeepSeek token": (says("<｜end▁of▁sentence｜>"), "no"),
    "empty: two tokens": (says("<|im_end|><|endoftext|>"), "no"),
    "empty: pads": (says("<pad><pad><eos>"), "no"),
    "cut: Anthropic": (says(FENCED, "max_tokens"), "cut off"),
    "cut: Gemini": (says(FENCED, "MAX_TOKENS"), "cut off"),
    "cut: Mistral": (says(FENCED, "model_length"), "cut off"),
    "cut: llama.cpp native": (says(FENCED, "limit"), "cut off"),
    "cut: Responses": (says(FENCED, "max_output_tokens"), "cut off"),
    "cut: Cohere": (says(FENCED, "ERROR_LIMIT"), "cut off"),
    "cut: a call": (calls(json.dumps({"code": RM}), reason="max_tokens"), "cut off"),
    "thoughts: reasoning_text": (says("", reasoning_text=FENCED), "no"),
    "thoughts: part reasoning_text": (says([{"type": "reasoning_text", "text": FENCED}]), "no"),
    "thoughts: part thought": (says([{"type": "text", "text": FENCED, "thought": True}]), "no"),
    "thoughts: LongCat": (says(f"<longcat_think>\n{FENCED}\n</longcat_think>\n"), "no"),
    "thoughts: MedGemma": (says(f"<unused94>thought\n{FENCED}<unused95>"), "no"),
    "thoughts: Cohere closing only": (says(f"{FENCED}<|END_THINKING|>"), "no"),
    "unparsed: Groq": (
        fails(
            400,
            "Failed to call a function. Please adjust your prompt. See "
            "'failed_generation' for more details.",
            code="tool_use_failed",
            failed_generation=f"<function=execute>{json.dumps({'code': RM})}",
        ),
        "could not parse",
    ),
    "unparsed: Groq tool": (
        fails(
            400,
            "tool call validation failed: attempted to call tool 'bash' which was not in "
            "request.tools",
            code="tool_use_failed",
            failed_generation=json.dumps({"code": RM}),
        ),
        "could not parse",
    ),
    "unparsed: Groq output": (
        fails(
            400,
            "Parsing failed. The model generated output that could not be parsed. Please "
            "adjust your prompt.",
            code="output_parse_failed",
        ),
        "could not parse",
    ),
    "unparsed: Ollama": (
        answer(
            {
                "error": (
                    'error parsing tool call: raw=\'{"code": "ls\', err=unexpected end of '
                    "JSON input"
                )
            },
            500,
        ),
        "could not parse",
    ),
    "unparsed: llama.cpp": (
        fails(500, "Failed to parse input at pos 12: <tool_call>{", type="server_error"),
        "could not parse",
    ),
    "unparsed: Together": (
        fails(500, "Unable to parse function call from model output"),
        "could not parse",
    ),
    "unparsed: vLLM harmony": (
        fails(500, 'unexpected tokens remaining in message header: Some("to=functions")'),
        "could not parse",
    ),
    "a call that nobody reads": (
        says("<start_function_call>call:execute{code:<escape>ls<escape>}"),
        "no",
    ),
    "a call whose arguments are JSON twice": (calls(json.dumps(json.dumps({"code": RM}))), "no"),
}


WITH_EVERY_AGENT = {
    "refusal with code",
    "content filter",
    "empty",
    "thoughts between tags",
    "cut off",
}


def agents_for(case: str) -> Iterable[str]:
    """Those that would execute the text or the call."""
    if case in WITH_EVERY_AGENT:
        return SUBMITS
    return ["tools" if "call" in case or case.startswith("unparsed") else "try_again"]


@pytest.mark.parametrize(
    ("case", "agent"), [(case, agent) for case in NOT_EXECUTED for agent in agents_for(case)]
)
def test_what_a_policy_can_cause_is_a_turn_and_is_not_executed(
    env: InterCodeEnv, server: Server, connect: Connect, case: str, agent: str
) -> None:
    behaviour, words = NOT_EXECUTED[case]
    server.script = [behaviour, SUBMITS[agent]]
    episode = played(env, connect, agent)
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
    "written: Llama 3.1": says(f"<function=execute>{CODE}</function>"),
    "written: Mistral 11": says(f"[TOOL_CALLS]execute[ARGS]{CODE}"),
    "written: Mistral 11 id": says(f"[TOOL_CALLS]execute[CALL_ID]a1b2c3d4e[ARGS]{CODE}"),
    "written: DeepSeek 3.2": says(
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="execute">\n<｜DSML｜parameter '
        'name="code" string="true">echo '
        "hi</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>"
    ),
    "written: xLAM": says(f'{{"tool_calls": [{CALL}]}}'),
    "written: Apertus": says(f'<|tools_prefix|>[{{"execute": {CODE}}}]<|tools_suffix|>'),
    "written: LangChain": says('{"action": "execute", "action_input": {"code": "echo hi"}}'),
    "written: function_call": says(
        '{"function_call": {"name": "execute", "arguments": "{\\"code\\": \\"echo hi\\"}"}}'
    ),
    "written: harmony bare": says(
        f"<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary "
        f"to=functions.execute<|message|>{CODE}<|call|>"
    ),
    "written: XML": says("<execute>\n<code>echo hi</code>\n</execute>"),
    "written: tool_call XML": says(
        "<tool_call><name>execute</name><arguments><code>echo hi</code></arguments></tool_call>"
    ),
    "written: half a brace": says('{"name": "execute", "arguments": {"code": "echo hi"}'),
    "a real call, function_call": says(
        None, "function_call", function_call={"name": "execute", "arguments": CODE}
    ),
    "a real call, no function": says(
        None,
        "tool_calls",
        tool_calls=[{"id": "1", "name": "execute", "arguments": {"code": "echo hi"}}],
    ),
    "a real call, tool_use part": says(
        [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "1", "name": "execute", "input": {"code": "echo hi"}},
        ],
        "tool_use",
    ),
    "a real call, namespaced": calls(CODE, "functions.execute"),
    "a real call, harmony leak": calls(CODE, "execute<|channel|>commentary"),
    "text: one part": says({"type": "text", "text": "```bash\necho hi\n```"}),
    "text: thought part": says(
        [{"text": FENCED, "thought": True}, {"text": "```bash\necho hi\n```"}]
    ),
    "text: Cohere": says(
        f"<|START_THINKING|>{FENCED}<|END_THINKING|><|START_RESPONSE|>```bash\necho "
        f"hi\n```<|END_RESPONSE|>"
    ),
    "text: Granite": says(f"<think>{FENCED}</think><response>echo hi</response>"),
    "text: Hunyuan": says(f"<think>\n{FENCED}\n</think>\n<answer>\necho hi\n</answer>"),
    "text: tokens": says("echo hi<｜end▁of▁sentence｜>"),
    "text: Gemma": says("echo hi<end_of_turn>\n"),
    "text: runs on": says(
        "echo hi<|im_end|>\n<|im_start|>user\nhi\n<|im_start|>assistant\nrm -rf /depot"
    ),
}


@pytest.mark.parametrize("case", EXECUTED)
def test_code_is_found_wherever_servers_put_it(
    env: InterCodeEnv, server: Server, connect: Connect, case: str
) -> None:
    calling = case.startswith(("written", "a fence", "a real"))
    agent = "tools" if calling else "try_again"
    server.script = [EXECUTED[case], SUBMITS[agent]]
    episode = played(env, connect, agent)
    assert [(turn.action, turn.observation) for turn in episode.turns[:1]] == [("echo hi", "hi\n")]
    if case.startswith("written"):
        server.requests, server.script = [], [EXECUTED[case], says("submit")]
        assert played(env, connect, "try_again").turns[0].action == "echo hi"


def test_half_a_call_among_many_executes_none(
    env: InterCodeEnv, server: Server, connect: Connect
) -> None:
    whole = {"id": "1", "function": {"name": "execute", "arguments": json.dumps({"code": RM})}}
    half = {"id": "2", "function": {"name": "execute", "arguments": '{"code": "rm -rf /de'}}
    server.script = [says("", "length", tool_calls=[whole, half]), SUBMITS["tools"]]
    first = played(env, connect, "tools").turns[0]
    assert (first.action, first.finish_reason, len(first.calls or ())) == (None, "length", 2)


OVERFLOWS = {
    "Grok": fails(
        400,
        "This model's maximum prompt length is 131072 but the request contains 136973 tokens.",
    ),
    "Bedrock": fails(400, "Input is too long for requested model."),
    "GitHub Models": fails(413, "Request body too large for gpt-4o model. Max size: 8000 tokens."),
    "Cohere": fails(
        400, "too many tokens: total number of tokens in the prompt cannot exceed 4081"
    ),
    "Groq": fails(
        413,
        "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 9000",
    ),
    "DeepSeek": fails(
        400,
        "This model's maximum context length is 65536 tokens. However, you requested 70000",
    ),
    "LM Studio": fails(
        400,
        "Trying to keep the first 9000 tokens when context the overflows; context length 4096",
    ),
    "Together": fails(
        422,
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193.",
    ),
    "vLLM": fails(
        400,
        "'max_tokens' is too large: 500. This model's maximum context length is 2048 tokens",
    ),
    "OpenAI": fails(400, "Your input exceeds the context window of this model."),
    "a server of one's own": fails(500, "prompt exceeds limit: 9000 > 8192"),
    "another of Groq": fails(400, "Please reduce the length of the messages."),
    "DashScope": fails(
        400, "Range of input length should be [1, 30720]", code="invalid_parameter_error"
    ),
    "MiniMax in 200": answer(
        {
            "choices": None,
            "base_resp": {
                "status_code": 2013,
                "status_msg": "invalid params, context window exceeds limit",
            },
        }
    ),
    "a text in 200": answer({"error": "prompt too long; exceeded max context length by 4 tokens"}),
    "TensorRT": fails(
        400,
        "The sum of prompt length (4000.0), query length (0) and max_tokens (200) should "
        "not exceed max_seq_len (4096)",
    ),
    "tabbyAPI": fails(400, "Prompt length 5000 is greater than max_seq_len 4096"),
    "Express": answer(b"Payload Too Large", 413),
    "a proxy": answer(b"", 413),
    "Groq with a link": fails(
        413,
        "Request too large for model `m` on tokens per minute (TPM): Limit 6000, "
        "Requested 9000, please reduce your message size and try again. Need more tokens? "
        "Upgrade at console/settings/billing",
    ),
    "LMDeploy": fails(400, "The input token length 9000 > session_len 8192"),
    "Writer": fails(400, "Input prompt has 9000 tokens which is more than the 8192 allowed"),
    "Reka": fails(400, "Conversation is over the model's capacity of 8192 tokens; shorten it"),
}


@pytest.mark.parametrize("name", OVERFLOWS)
def test_a_question_that_is_too_long_is_known_in_any_wording(
    server: Server, connect: Connect, name: str
) -> None:
    server.script = [OVERFLOWS[name]]
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
    "an unsupported property": (
        400,
        "property 'seed' is unsupported in this request, at most 20 are",
        r'--request \'{"seed": null}\'',
    ),
    "a range": (
        400,
        "temperature in this request must be less than or equal to 1",
        r'--request \'{"temperature": null}\'',
    ),
    "the request repeated": (
        400,
        "[{'type': 'extra_forbidden', 'loc': ('body', 'seed'), 'msg': 'Extra inputs are "
        "not permitted', 'input': {'temperature': 0.0, 'seed': 1, 'max_tokens': 99}}]",
        r'--request \'{"seed": null}\'',
    ),
    "no developer": (
        400,
        "Developer instruction is not enabled for models/gemma-3-27b-it",
        "--no-system",
    ),
    "no system role": (
        400,
        "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
        "--no-system",
    ),
    "two roles": (400, "Only user and assistant roles are supported!", "--no-system"),
    "unknown role": (422, "Unknown role: system", "--no-system"),
    "a free tier": (
        403,
        "The free tier of the model has been exhausted. If you wish to continue access "
        "the model on a paid basis, please disable free tier only. "
        "AllocationQuota.FreeTierOnly",
        "plan and billing",
    ),
    "a bad standing": (
        400,
        "Access denied, please make sure your account is in good standing. Arrearage",
        "plan and billing",
    ),
    "a spending limit": (
        429,
        "Your team has either used all available credits or reached its monthly spending limit.",
        "plan and billing",
    ),
    "a trial key": (
        429,
        "You are using a Trial key, which is limited to 1000 API calls / month.",
        "plan and billing",
    ),
    "a suspended account": (
        412,
        "Account is suspended, possibly due to reaching the monthly spending limit.",
        "plan and billing",
    ),
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


BUSY = {
    "rate limit": fails(
        429, "Rate limit reached for m on tokens per min (TPM): Limit 10, Used 9, Requested 5"
    ),
    "quota for a second": fails(429, "You exceeded your current quota, please retry in 1s"),
    "overloaded": fails(503, "overloaded"),
    "an error with status 200": answer({"error": {"message": "Upstream is busy", "code": 502}}),
    "OpenRouter choice": choice(
        finish_reason="error",
        error={"code": 502, "message": "Upstream error"},
        message={"role": "assistant", "content": FENCED},
    ),
    "SGLang abort": says(FENCED, "abort"),
    "DeepSeek": says(FENCED, "insufficient_system_resource"),
    "Zhipu": says(FENCED, "network_error"),
    "Mistral": says(FENCED, "error"),
    "Ollama load": says("", "load"),
    "Groq": fails(
        429,
        "Rate limit reached for m on tokens per minute (TPM): Limit 6000, Used 5900, "
        "Requested 900. Please try again in 1.2s. Need more tokens? Upgrade to Dev Tier "
        "today at console/settings/billing",
    ),
    "OpenAI free": fails(
        429,
        "Rate limit reached for m on requests per min (RPM): Limit 3. Please try again in "
        "20s. You can increase your rate limit by adding a payment method to your account "
        "at account/billing.",
    ),
}


@pytest.mark.parametrize("name", BUSY)
def test_a_busy_server_is_asked_again(server: Server, connect: Connect, name: str) -> None:
    server.script = [BUSY[name], says("ls")]
    assert connect().complete(MESSAGES).text == "ls"
    assert len(server.requests) == 2


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


def test_reasoning_is_recorded_and_sent_back_as_it_came(
    env: InterCodeEnv, server: Server, connect: Connect
) -> None:
    details = [{"type": "reasoning.encrypted", "data": "a/b+c=", "index": 0}]
    thinking = {"reasoning": "I look.\n", "reasoning_details": details}
    server.script = [says("```bash\nls /depot\n```", **thinking), SUBMITS["try_again"]]
    episode = played(env, connect, "try_again", keep_reasoning=True)
    assert episode.turns[0].reasoning == thinking
    sent = server.requests[1]["body"]["messages"][2]
    assert sent == {"role": "assistant", "content": "```bash\nls /depot\n```", **thinking}


def test_what_servers_refuse_in_a_conversation_is_mended(
    env: InterCodeEnv, server: Server, connect: Connect
) -> None:
    server.script = [calls('{"code": "ls', "functions.x y"), SUBMITS["tools"]]
    played(env, connect, "tools")
    (call,) = server.requests[1]["body"]["messages"][2]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"malformed": '{"code": "ls'}
    assert call["function"]["name"] == "functions_x_y"
