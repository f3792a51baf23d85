"""Answers of sixteen model providers, played by a server of ours to a program in a sandbox: in the
three forms that the recorder speaks the record says what `joiners.py` says of them; the other forms
are refused at their own addresses, and come through whole where a server answers with one."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from faults import PROGRAMS, wrong_today
from joiners import JOINERS, Call, Object, Said, answers_in, form_of, framed, objects_of, plain
from kept import needs_bwrap, write_box

import intercode
from intercode.agents import make_agent
from intercode.models import OpenAIModel
from intercode.runner.budget import Budget, BudgetTracker, RunLimits
from intercode.runner.run import evaluate
from intercode.types import Episode, ToolCall, Turn, reasoning_of

pytestmark = pytest.mark.world

WORLD = Path(os.environ.get("INTERCODE_WORLD") or Path(__file__).parents[3] / "shared" / "world")
CHAT = "/v1/chat/completions"
PATHS = {
    **{form: f"/v1/{form}" for form in JOINERS},
    "completions": "/v1/completions",
    "Bedrock": "/model/m/converse-stream",
    "Google": "/v1beta/models/m:streamGenerateContent",
    "Google interactions": "/v1beta/interactions",
    "Cohere": "/v2/chat",
    "realtime": "/v1/realtime/sessions",
    "transcription": "/v1/audio/transcriptions",
    "skill": "/v1/skills",
}
"""Where a program asks for an answer of each form."""
CLIENT = r"""
import json, os, urllib.error, urllib.request

address = os.environ["OPENAI_BASE_URL"].removesuffix("/v1")
headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}

def ask(path, content):
    listed = "input" if path.endswith("/responses") else "messages"
    body = {"model": "m", "stream": True, listed: [{"role": "user", "content": content}]}
    data = json.dumps(body).encode() if content else None
    try:
        request = urllib.request.Request(address + path, data, headers)
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read().decode()

came = {name: ask(path, name) for name, path in json.load(open("/opt/asked.json"))}
came["GET"] = ask("/v1/realtime", None)
ask("/v1/chat/completions", json.dumps(came))
"""


@dataclass(frozen=True)
class Answer:
    """An answer in a file; `events` are empty in a file that is not JSON."""

    file: str
    name: str
    form: str
    events: Sequence[Object]
    body: str

    @property
    def said(self) -> Said:
        return JOINERS[self.form](self.events)

    def __str__(self) -> str:
        return f"{self.name} ({self.form})"


def answers_of(file: Path) -> Iterator[Answer]:
    content = file.read_text("utf-8")
    objects = objects_of(content)
    name = f"{file.parent.name}/{file.name}"
    if objects is None:
        lines = filter(None, content.split("\n"))
        yield Answer(name, name, "damaged", (), "".join(f"data: {line}\n\n" for line in lines))
        return
    form = form_of(objects)
    answers = list(answers_in(objects)) if form in JOINERS else [objects]
    for place, events in enumerate(answers, 1):
        numbered = f"{name} {place}" if len(answers) > 1 else name
        yield Answer(name, numbered, form, events, framed(form, events))


FILES = [file for name in ("streams", "answers") for file in sorted((WORLD / name).glob("*.*"))]
ANSWERS = [answer for file in FILES for answer in answers_of(file) if file.stem != "LICENSE"]
SPOKEN = [answer for answer in ANSWERS if answer.form in JOINERS]
OTHERS = [answer for answer in ANSWERS if answer.form not in (*JOINERS, "error")]
ERRORS = [answer for answer in ANSWERS if answer.form == "error"]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, format: str, *words: Any) -> None:
        pass

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        (message,) = asked.get("messages") or asked["input"]
        answer = self.server.answers.get(message["content"])
        body = answer.body if answer else '{"choices": [{"message": {"content": "ok"}}]}'
        self.send_response(400 if answer in ERRORS else 200)
        kind = "application/json" if body.startswith("{") else "text/event-stream"
        self.send_header("content-type", kind)
        self.end_headers()
        self.wfile.write(body.encode())


class Server(ThreadingHTTPServer):
    """Answers each question with what is called as the question says."""

    answers: Mapping[str, Answer] = {answer.name: answer for answer in ANSWERS}


@dataclass(frozen=True)
class Played:
    episode: Episode
    turns: Mapping[str, Turn]
    came: Mapping[str, tuple[int, str]]
    """By question: the status and the body that the program got."""


@pytest.fixture(scope="module")
def played(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """One episode of a program that asks for every answer, each in a conversation of its own."""
    needs_bwrap()
    task = {"id": "touch", "query": "Make the file /box/new.", "gold": "touch /box/new"}
    folder = write_box(tmp_path_factory.mktemp("box"), [task])
    (folder / "tree" / "opt").mkdir()
    (folder / "tree" / "opt" / "client.py").write_text(CLIENT)
    asked = [(answer.name, PATHS.get(answer.form, CHAT)) for answer in (*SPOKEN, *ERRORS)]
    asked += [(answer.name, CHAT) for answer in OTHERS]
    asked += [(form, path) for form, path in PATHS.items() if form not in JOINERS]
    (folder / "tree" / "opt" / "asked.json").write_text(json.dumps(asked))
    factory = intercode.prepare("bash", data=str(folder))
    command = "exec:python3 /opt/client.py && touch /box/new"
    turns = 1000
    with Server(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/v1"
        model = OpenAIModel("m", base_url=address, api_key="secret", tries=1)
        agent = make_agent(
            command, tasks=factory.tasks, language=intercode.BashEnv.language, turns=turns
        )
        tracker = BudgetTracker(RunLimits(turns, Budget(), Budget()))
        (episode,) = evaluate(factory, agent.strategy, model, tasks=factory.tasks, tracker=tracker)
        server.shutdown()
    by_question = {turn.ask[-1]["content"]: turn for turn in episode.turns if turn.ask}
    came = json.loads(next(question for question in by_question if question.startswith("{")))
    return Played(episode, by_question, {name: tuple(pair) for name, pair in came.items()})


# -- what is wrong today, told by what an answer has -----------------------------------------------


def items_of(answer: Answer) -> list[Object]:
    """Return the blocks or items of an answer, as they begin or end."""
    if answer.form == "chat/completions":
        return []
    wholes = [event.get("message") or event.get("response") or {} for event in answer.events]
    wholes += answer.events if len(answer.events) == 1 else []
    listed = [
        item for whole in wholes for item in whole.get("content") or whole.get("output") or ()
    ]
    single = [event.get("content_block") or event.get("item") for event in answer.events]
    return [*listed, *filter(None, single)]


def has_text(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(has_text, value))
    if isinstance(value, dict):
        return has_text(value.get("text") or value.get("content"))
    return bool(value)


def shows_a_result(answer: Answer) -> bool:
    results = [item for item in items_of(answer) if str(item["type"]).endswith("_tool_result")]
    return answer.form == "messages" and any(has_text(item.get("content")) for item in results)


def has_parts(answer: Answer) -> bool:
    choices = [choice for event in answer.events for choice in event.get("choices") or ()]
    return any(isinstance(choice.get("delta", {}).get("content"), list) for choice in choices)


def starts_again(answer: Answer) -> bool:
    return sum(event.get("type") == "message_start" for event in answer.events) > 1


def starts_whole(answer: Answer) -> bool:
    return any((event.get("message") or {}).get("content") for event in answer.events)


def has_other_calls(answer: Answer) -> bool:
    """Return whether a tool of the protocol is called, or one that the server executes."""
    others = [item for item in items_of(answer) if item["type"] != "function_call"]
    executed = answer.form == "responses" and any("arguments" in item for item in others)
    return bool(executed) or any(not call.name for call in answer.said.calls)


WRONG = [
    (shows_a_result, {"text"}),
    (has_parts, {"text", "reasoning"}),
    (starts_again, {"calls", "reasoning"}),
    (starts_whole, {"calls", "end"}),
    (has_other_calls, {"calls"}),
    (lambda answer: answer.said.tokens[0] is None, {"tokens"}),
    (
        lambda answer: answer.said.reasoning_tokens and answer.form != "chat/completions",
        {"reasoning_tokens"},
    ),
]
"""What an answer has, and the fields that are then recorded wrongly."""
FIELDS = ("text", "calls", "reasoning", "end", "tokens", "reasoning_tokens")


def rows() -> list[Any]:
    """Return a row for each file, and one for each of its fields that are wrong today."""
    listed = list[Any]()
    for name, answers in groupby(SPOKEN, lambda answer: answer.file):
        right, wrong = list[tuple[Answer, str]](), defaultdict[str, list[tuple[Answer, str]]](list)
        for answer in answers:
            lost = {field for has, fields in WRONG if has(answer) for field in fields}
            right += [(answer, field) for field in FIELDS if field not in lost]
            for field in lost:
                wrong[field].append((answer, field))
        form = right[0][0].form
        listed.append(pytest.param(right, id=f"{name} ({form})"))
        for field, pairs in sorted(wrong.items()):
            mark = wrong_today(PROGRAMS)
            listed.append(pytest.param(pairs, id=f"{name} ({form}): {field}", marks=mark))
    return listed


def ended(reason: str | None, form: str) -> str | None:
    """`responses` does not tell a reply that calls from one that does not."""
    return "stop" if (reason, form) == ("tool_calls", "responses") else reason


def same_call(call: ToolCall, right: Call) -> bool:
    if right.name:
        return (call.id, call.name, plain(call.arguments)) == (
            right.id,
            right.name,
            right.arguments,
        )
    if call.id != right.id or call.name in ("", "None"):
        return False
    said = f"{call.arguments}{json.dumps(call.arguments)}"
    return all(text in said for text in right.arguments)


def differences(turn: Turn, answer: Answer) -> Iterator[str]:
    """Yield the fields in which a turn says something else."""
    said, calls = answer.said, turn.calls or ()
    same_length = len(calls) == len(said.calls)
    if not same_length or not all(map(same_call, calls, said.calls)):
        yield "calls"
    usage = turn.usage
    pairs = {
        "text": (turn.reply, said.text),
        "reasoning": (reasoning_of(turn), said.reasoning.strip()),
        "end": (ended(turn.finish_reason, answer.form), ended(said.end, answer.form)),
        "tokens": ((usage.prompt_tokens, usage.completion_tokens), said.tokens),
        "reasoning_tokens": (usage.reasoning_tokens, said.reasoning_tokens),
    }
    yield from (field for field, (recorded, right) in pairs.items() if recorded != right)


def test_each_form_has_answers(world: Path) -> None:
    assert {answer.form for answer in SPOKEN} == set(JOINERS)
    assert OTHERS


@pytest.mark.parametrize("pairs", rows())
def test_the_record_says_what_the_answer_says(
    played: Played, pairs: Sequence[tuple[Answer, str]]
) -> None:
    for answer, field in pairs:
        assert played.came[answer.name] == (200, answer.body)
        assert field not in differences(played.turns[answer.name], answer), answer


@pytest.mark.parametrize("answer", OTHERS, ids=str)
def test_an_answer_of_another_form_comes_through(played: Played, answer: Answer) -> None:
    assert played.came[answer.name] == (200, answer.body)


def others() -> list[Any]:
    """A stream of another form is recorded as an empty reply today."""
    mark = wrong_today(PROGRAMS)
    return [
        pytest.param(answer, id=str(answer), marks=mark if len(answer.events) > 1 else ())
        for answer in OTHERS
    ]


@pytest.mark.parametrize("answer", others())
def test_an_answer_of_another_form_is_kept_as_it_came(played: Played, answer: Answer) -> None:
    choices = [choice for event in answer.events for choice in event.get("choices") or ()]
    text = "".join(choice["text"] for choice in choices)
    assert played.turns[answer.name].reply in {answer.body, text or answer.body}


@pytest.mark.parametrize("answer", ERRORS, ids=str)
def test_an_error_comes_through_and_is_no_reply(played: Played, answer: Answer) -> None:
    assert played.came[answer.name] == (400, answer.body)
    assert answer.name not in played.turns


@pytest.mark.parametrize("form", sorted(PATHS.keys() - JOINERS))
def test_another_form_is_refused_by_name(played: Played, form: str) -> None:
    status, refusal = played.came[form]
    assert status == 404
    assert all(known in refusal for known in (PATHS[form], *JOINERS))


@wrong_today(PROGRAMS)
def test_what_is_nowhere_is_not_found(played: Played) -> None:
    assert played.came["GET"][0] == 404


def test_none_of_it_is_a_fault(played: Played) -> None:
    assert (played.episode.error, played.episode.reward) == (None, 1.0)
