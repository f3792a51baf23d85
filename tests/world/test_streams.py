"""Answers of sixteen model providers, played by a server of ours to a program in a sandbox: in the
three forms that the recorder speaks the record says what `joiners.py` says of them; the other forms
are refused at their own addresses, and come through whole where a server answers with one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
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


def rows() -> list[Any]:
    """Return a row for each file."""
    grouped = groupby(SPOKEN, lambda answer: answer.file)
    listed = [(name, list(answers)) for name, answers in grouped]
    return [pytest.param(answers, id=f"{name} ({answers[0].form})") for name, answers in listed]


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
    said = json.dumps(plain(call.arguments), ensure_ascii=False)
    return all(json.dumps(text, ensure_ascii=False)[1:-1] in said for text in right.arguments)


def differences(turn: Turn, answer: Answer) -> Iterator[str]:
    """Yield the fields in which a turn says something else."""
    said, calls = answer.said, turn.calls or ()
    same_length = len(calls) == len(said.calls)
    if not same_length or not all(map(same_call, calls, said.calls)):
        yield "calls"
    usage = turn.usage
    tokens = (None, None) if usage.uncounted else (usage.prompt_tokens, usage.completion_tokens)
    pairs = {
        "text": (turn.reply, said.text),
        "reasoning": (reasoning_of(turn), said.reasoning.strip()),
        "end": (ended(turn.finish_reason, answer.form), ended(said.end, answer.form)),
        "tokens": (tokens, said.tokens),
        "reasoning_tokens": (usage.reasoning_tokens, said.reasoning_tokens),
    }
    yield from (field for field, (recorded, right) in pairs.items() if recorded != right)


def test_each_form_has_answers(world: Path) -> None:
    assert {answer.form for answer in SPOKEN} == set(JOINERS)
    assert OTHERS


@pytest.mark.parametrize("answers", rows())
def test_the_record_says_what_the_answer_says(played: Played, answers: Sequence[Answer]) -> None:
    for answer in answers:
        assert played.came[answer.name] == (200, answer.body)
        assert not list(differences(played.turns[answer.name], answer)), answer


@pytest.mark.parametrize("answer", OTHERS, ids=str)
def test_an_answer_of_another_form_comes_through(played: Played, answer: Answer) -> None:
    assert played.came[answer.name] == (200, answer.body)


@pytest.mark.parametrize("answer", OTHERS, ids=str)
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


def test_what_is_nowhere_is_not_found(played: Played) -> None:
    assert played.came["GET"][0] == 404


def test_none_of_it_is_a_fault(played: Played) -> None:
    assert (played.episode.error, played.episode.reward) == (None, 1.0)
