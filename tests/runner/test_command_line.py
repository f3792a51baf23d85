"""Command-line agents: programs in the sandbox that ask a scripted server in its three forms."""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from families import wait_until
from kept import needs_bwrap, write_box

import intercode
from intercode.agents import make_agent
from intercode.errors import ModelError, UsageError
from intercode.factory import EnvFactory
from intercode.models import OpenAIModel
from intercode.rescoring.recordings import load_recording
from intercode.rescoring.rescore import Rescoring
from intercode.runner.budget import Budget, BudgetTracker, RunLimits
from intercode.runner.run import evaluate
from intercode.train import RolloutLimits, RolloutPool, groups
from intercode.types import Episode, ToolCall

TASKS = [
    {"id": "touch", "query": "Make the file /box/new.", "gold": "touch /box/new"},
    {"id": "count", "query": "How many files are in /box?", "gold": "ls /box | wc -l"},
]
SCRIPT = {"Make the": ["touch /box/new", "submit"], "How many": ["ls /box | wc -l", "submit 3"]}
CLIENT = r"""
import json, os, subprocess, sys, urllib.request

form, streams = sys.argv[1], sys.argv[2] == "stream"
most = int(sys.argv[3]) if len(sys.argv) > 3 else 5
base = os.environ["OPENAI_BASE_URL"]
headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
if form == "messages":
    base = os.environ["ANTHROPIC_BASE_URL"] + "/v1"
    headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"]}
messages = [{"role": "user", "content": sys.stdin.read()}]
for turn in range(most):
    listed = "input" if form == "responses" else "messages"
    body = json.dumps({"model": "mine", listed: messages, "stream": streams}).encode()
    request = urllib.request.Request(f"{base}/{form}", body, headers)
    text = urllib.request.urlopen(request).read().decode()
    data = [line[5:] for line in text.splitlines() if line.startswith("data:")]
    events = [json.loads(line) for line in data]
    if form == "chat/completions" and streams:
        choices = [choice for event in events for choice in event["choices"]]
        code = "".join(choice["delta"].get("content") or "" for choice in choices)
    elif form == "chat/completions":
        code = json.loads(text)["choices"][0]["message"]["content"]
    elif form == "responses":
        whole = events[-1]["response"] if streams else json.loads(text)
        code = whole["output"][0]["content"][0]["text"]
    elif streams:
        code = "".join(event["delta"].get("text", "") for event in events if "delta" in event)
    else:
        code = json.loads(text)["content"][0]["text"]
    done = subprocess.run(code, shell=True, capture_output=True, text=True)
    printed = {"role": "user", "content": done.stdout or "-"}
    messages += [{"role": "assistant", "content": code}, printed]
    if code.startswith("submit"):
        break
"""
TALKER = r"""
import json, os, sys, time, urllib.error, urllib.request

def ask(*messages, **more):
    whole = {"model": "mine", "messages": messages, "stream": False, **more}
    body = json.dumps(whole).encode()
    headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    address = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    try:
        urllib.request.urlopen(urllib.request.Request(address, body, headers)).read()
    except urllib.error.HTTPError as refused:
        print(refused.read().decode())
        sys.exit(1)

def talk(turns, marked=False, start=0):
    messages = []
    for turn in range(turns):
        told = {"role": "system", "content": f"It is {time.monotonic()}."}
        text = f"Make the file, {start + turn}."
        newest = {"role": "user", "content": text}
        mark = {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}
        ask(told, *messages, {"role": "user", "content": [mark]} if marked else newest)
        messages += [newest, {"role": "assistant", "content": "touch /box/new"}]

exec(sys.argv[1])
"""


SESSION = (
    CLIENT.replace("most = int(sys.argv[3]) if len(sys.argv) > 3 else 5", "most = 5").replace(
        "messages = [",
        """file = os.environ["XDG_DATA_HOME"] + "/session"
messages = json.load(open(file)) if "--continue" in sys.argv else []
messages += [""",
        1,
    )
    + """
os.makedirs(os.path.dirname(file), exist_ok=True)
json.dump(messages, open(file, "w"))
"""
)
"""A client that can continue its last conversation."""


class Server(ThreadingHTTPServer):
    """Answers in the form that it is asked in, unless it `lacks` that; `status` is that of its
    answers. Keeps what it saw."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[tuple[str, str, dict[str, Any]]] = []
        self.status, self.lacks, self.broken = 200, "", 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def model(self) -> OpenAIModel:
        address = f"http://127.0.0.1:{self.server_port}/v1"
        return OpenAIModel("large", base_url=address, api_key="secret", backoff=0.01)

    @property
    def sampling(self) -> OpenAIModel:
        address = f"http://127.0.0.1:{self.server_port}/v1"
        return OpenAIModel("large", base_url=address, api_key="secret", logprobs=True)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        form = self.path.removeprefix("/v1/")
        self.server.seen.append((form, self.headers["authorization"], body))
        if form == self.server.lacks:
            self.send_error(404)
            return
        if self.server.broken:
            self.server.broken -= 1
            self.send_error(503)
            return
        if self.server.status == 400:
            self.send_error(400, f"what is {self.headers['authorization']}?")
            return
        messages = body.get("input") or body["messages"]
        turn = sum(message["role"] == "assistant" for message in messages)
        asked = next(message["content"] for message in messages if message["role"] == "user")
        first = next(text for start, text in SCRIPT.items() if start in json.dumps(asked))
        code = first[min(turn, len(first) - 1)]
        answer = {
            "chat/completions": {
                "choices": [
                    {
                        "message": {"role": "assistant", "content": code},
                        "finish_reason": "stop",
                    }
                ],
                "usage": {"prompt_tokens": 7, "completion_tokens": 2},
            },
            "responses": {
                "status": "completed",
                "output": [{"type": "message", "content": [{"type": "output_text", "text": code}]}],
                "usage": {"input_tokens": 7, "output_tokens": 2},
            },
            "messages": {
                "content": [{"type": "text", "text": code}],
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 7, "output_tokens": 2},
            },
        }[form]
        if body.get("return_token_ids"):
            choice, ids = answer["choices"][0], list(f"{code}</>".encode())  # type: ignore[index]
            choice |= {"token_ids": ids, "logprobs": {"content": [{"logprob": -0.5}] * len(ids)}}
            answer["prompt_token_ids"] = list(_rendered(messages).encode())
        kind, text = "application/json", json.dumps(answer)
        if body["stream"] and self.server.status == 200:
            kind = "text/event-stream"
            text = "".join(
                f"data: {json.dumps(event)}\n\n" for event in _events(form, answer, code)
            )
        self.send_response(self.server.status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())


def _streamed(events: list[dict[str, Any]]) -> str:
    return "".join(f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events)


def _rendered(messages: list[dict[str, Any]]) -> str:
    told = [f"<{message['role']}>{message['content']}</>" for message in messages]
    return "".join(told) + "<assistant>"


def _events(form: str, answer: dict[str, Any], code: str) -> list[dict[str, Any]]:
    if form == "responses":
        return [{"type": "response.created"}, {"type": "response.completed", "response": answer}]
    if form == "chat/completions":
        whole = answer["choices"][0]
        tokens = {key: whole[key] for key in ("token_ids", "logprobs") if key in whole}
        start = {"choices": [], "prompt_token_ids": answer.get("prompt_token_ids")}
        pieces = [{"choices": [{"delta": {"content": letter}}]} for letter in code]
        end = {"choices": [{"delta": {}, "finish_reason": "stop", **tokens}]}
        return [start, *pieces, end, {"choices": [], "usage": answer["usage"]}]
    return [
        {"type": "message_start", "message": {"usage": {"input_tokens": 7}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": {"text": one}} for one in code),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 2},
        },
    ]


@pytest.fixture(scope="module")
def factory(tmp_path_factory: pytest.TempPathFactory) -> EnvFactory:
    needs_bwrap()
    folder = write_box(tmp_path_factory.mktemp("box"), TASKS)
    (folder / "tree" / "opt").mkdir()
    (folder / "tree" / "opt" / "client.py").write_text(CLIENT)
    (folder / "tree" / "opt" / "talker.py").write_text(TALKER)
    return intercode.prepare("bash", data=str(folder))


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.shutdown()
    server.server_close()


Play = Callable[..., list[Episode]]


@pytest.fixture
def play(factory: EnvFactory, server: Server) -> Play:
    def run(command: str, turns: int = 5, **limits: Any) -> list[Episode]:
        language = intercode.BashEnv.language
        agent = make_agent(f"exec:{command}", tasks=factory.tasks, language=language, turns=turns)
        tracker = BudgetTracker(RunLimits(turns, Budget(), Budget(**limits)))
        return evaluate(factory, agent.strategy, server.model, tasks=factory.tasks, tracker=tracker)

    return run


@pytest.mark.parametrize("way", ["whole", "stream"])
@pytest.mark.parametrize("form", ["chat/completions", "responses", "messages"])
def test_a_program_solves_tasks_and_each_answer_is_a_turn(
    play: Play, server: Server, form: str, way: str
) -> None:
    episodes = play(f"python3 /opt/client.py {form} {way}")
    assert [episode.success for episode in episodes] == [True, True]
    for episode, script in zip(episodes, SCRIPT.values(), strict=True):
        is_refused = script[-1] == "submit"  # and the program does not try again
        *asked, last = episode.turns
        assert [turn.reply for turn in asked] == script
        assert [turn.action for turn in asked] == [script[0], None]
        assert asked[0].observation == ("-" if "touch" in script[0] else "3\n")
        assert (last.action, last.ask, last.forced) == (script[-1], None, is_refused)
        assert {(turn.usage.prompt_tokens, turn.usage.completion_tokens) for turn in asked} == {
            (7, 2)
        }
        assert episode.ended == ("stopped" if is_refused else "submit")
        facts = episode.outcomes["program"]
        assert (facts["status"], facts["stderr"]) == (0, "")
        assert 0 < facts["cpu_seconds"] < facts["seconds"]
    assert {(form, key, body["model"]) for form, key, body in server.seen} == {
        (form, "Bearer secret", "large")
    }
    sent = sorted(json.dumps(body.get("input") or body["messages"]) for _, _, body in server.seen)
    recorded = [turn.ask for episode in episodes for turn in episode.turns if turn.ask]
    assert sorted(json.dumps(list(messages)) for messages in recorded) == sent


ROUNDS = {
    "setup": "touch /box/old",
    "rounds": [
        {"query": "Begin here: make the file /box/a.", "gold": "touch /box/a"},
        {"query": "Now remove it again, and make /box/b.", "gold": "mv /box/a /box/b"},
    ],
}


@pytest.mark.parametrize("flag", ["{resume:--continue}", ""])
def test_a_program_is_resumed_by_its_flag_or_told_the_earlier_requests(
    server: Server, tmp_path: Path, flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_bwrap()
    second = ["mv /box/a /box/b", "submit"]
    again = {"You have worked": second, "Begin here": ["touch /box/a; echo x >~/.own", "submit"]}
    if flag:
        again = {"Begin here": [*again["Begin here"], *second]}
    monkeypatch.setitem(globals(), "SCRIPT", again)
    folder = write_box(tmp_path, [ROUNDS])
    (folder / "tree" / "opt").mkdir()
    (folder / "tree" / "opt" / "session.py").write_text(SESSION)
    factory = intercode.prepare("bash", data=str(folder))
    command = f"exec:python3 /opt/session.py messages whole {flag}; echo y >~/.own"
    agent = make_agent(command, tasks=factory.tasks, language=intercode.BashEnv.language)
    tracker = BudgetTracker(RunLimits(8, Budget(), Budget()))
    (episode,) = evaluate(
        factory, agent.strategy, server.model, tasks=factory.tasks, tracker=tracker
    )
    assert (episode.error, episode.reward, episode.success) == (None, 1.0, True)
    assert [turn.action for turn in episode.turns if turn.score is not None] == ["submit"] * 2
    texts = [message["content"] for message in server.seen[2][2]["messages"]]
    query = "Now remove it again, and make /box/b."
    if flag:
        assert len(texts) == 6
        assert texts[-1].startswith(query)
    else:
        told = "These were the requests then:\n\nBegin here: make the file /box/a.\n\nNow: "
        assert len(texts) == 1
        assert f"{told}{query}" in texts[0]


def test_beyond_its_turns_a_program_gets_no_answer_and_its_work_counts(play: Play) -> None:
    episodes = play("python3 /opt/client.py chat/completions whole", turns=1)
    assert [(episode.success, episode.ended) for episode in episodes] == [
        (True, "turns"),
        (False, "turns"),
    ]
    assert all(len(episode.turns) == 2 for episode in episodes)


def test_a_fault_of_the_server_is_never_a_reward(play: Play, server: Server) -> None:
    server.status = 500
    for episode in play("python3 /opt/client.py messages whole || touch /box/new"):
        assert episode.reward is None
        assert episode.error is not None
        assert episode.error.startswith("model: ")
        assert "HTTP 500 for /messages" in episode.error


def test_a_fault_counts_also_if_the_program_submits_and_other_requests_are_answered(
    play: Play, factory: EnvFactory, server: Server
) -> None:
    server.status = 500
    for episode in play("python3 /opt/client.py messages whole; touch /box/new; submit 3"):
        assert (episode.reward, str(episode.error)[:6]) == (None, "model:")
    server.status, server.broken = 200, 4  # one request fails for good, and is answered afterwards
    title = "ask(dict(role='user', content='How many titles?'), tools=[{'type': 'title'}])"
    program = f'python3 /opt/talker.py "talk(1)"; python3 /opt/talker.py "{title}"'
    language = intercode.BashEnv.language
    agent = make_agent(f"exec:{program}; submit 3", tasks=factory.tasks, language=language)
    address = f"http://127.0.0.1:{server.server_port}/v1"
    model = OpenAIModel("large", base_url=address, api_key="secret", backoff=0.01, tries=4)
    (episode,) = evaluate(factory, agent.strategy, model, tasks=factory.tasks[1:])
    assert (episode.reward, str(episode.error)[:6]) == (None, "model:")


def test_a_program_that_provokes_a_fault_is_scored_and_one_that_does_not_start_is_named(
    play: Play, server: Server
) -> None:
    server.lacks = "responses"
    program = "python3 /opt/client.py chat/completions whole 1; "
    touch, count = play(f"{program} python3 /opt/client.py responses whole 2> /dev/null")
    assert [form for form, *_ in server.seen].count("responses") == 4
    assert (touch.error, touch.success, count.error, count.success) == (None, True, None, False)
    for program, status in (("no-such-program", 127), ("echo failed quietly", 0)):
        with pytest.raises(UsageError, match=f"status {status} before it had an answer"):
            play(program)


def test_a_request_is_sent_again_where_the_server_may_answer_later(
    play: Play, server: Server
) -> None:
    server.broken = 2
    episodes = play("python3 /opt/client.py chat/completions stream")
    assert [(episode.success, episode.error) for episode in episodes] == [(True, None)] * 2


def test_a_first_request_that_is_refused_is_the_episodes_error_and_does_not_tell_the_key(
    play: Play, server: Server
) -> None:
    server.status = 400
    program = "python3 /opt/client.py chat/completions whole 2> /tmp/why; cat /tmp/why; false"
    for episode in play(program):
        assert episode.error
        assert "HTTP 400 for /chat/completions" in episode.error
        assert "what is Bearer [the key]?" in episode.error


def test_the_limits_of_a_run_count_the_replies_of_a_program(
    factory: EnvFactory, server: Server
) -> None:
    language = intercode.BashEnv.language
    command = "exec:python3 /opt/talker.py 'talk(9)'"
    agent = make_agent(command, tasks=factory.tasks, language=language, turns=9)
    tracker = BudgetTracker(RunLimits(9, Budget(tokens=20), Budget()))
    evaluate(factory, agent.strategy, server.model, tasks=factory.tasks[:1], tracker=tracker)
    assert len(server.seen) == 3  # of nine tokens each


def test_a_request_gets_one_reply(play: Play, server: Server) -> None:
    ask = "ask(dict(role='user', content='Make the file'), n=50)"
    play(f'python3 /opt/talker.py "{ask}"', turns=1)
    assert [body["n"] for _, _, body in server.seen] == [1, 1]


def test_nothing_but_the_model_is_reachable_and_the_key_is_the_episodes_own(
    play: Play, server: Server
) -> None:
    peek = f"""
        (echo > /dev/tcp/127.0.0.1/{server.server_port}) 2>/dev/null && touch /box/escaped
        env | grep -q secret && touch /box/secret
        touch /box/new; submit 3
    """
    touch, count = play(peek)
    assert (count.success, touch.success) == (False, True)  # a file too many for the first
    assert server.seen == []
    wrong = "OPENAI_API_KEY=no python3 /opt/client.py chat/completions whole; submit 3"
    _, count = play(wrong)
    assert (count.success, server.seen) == (True, [])


def test_a_program_that_never_ends_is_ended_with_what_it_started(play: Play) -> None:
    episodes = play("touch /box/new; sleep 1000 & sleep 1000", seconds=2.0)
    assert [(episode.success, episode.ended) for episode in episodes] == [
        (True, "limit"),
        (False, "limit"),
    ]


def test_where_something_can_be_given_the_first_plain_submit_is_refused(play: Play) -> None:
    asks = "python3 /opt/client.py chat/completions whole 1; "
    tries = "submit 2>/tmp/said; [ $? = 2 ] && grep -q 'run submit .ANSWER.' /tmp/said && "
    assert [episode.success for episode in play(f"{asks} {tries} submit 3")] == [True, True]
    files, count = play(f"{asks} submit; submit")
    assert (files.ended, files.success, count.ended, count.success) == (
        "submit",
        True,
        "submit",
        False,
    )


def test_a_general_task_is_answered_with_a_command(server: Server) -> None:
    needs_bwrap()
    factory = intercode.prepare("bash")
    task = next(task for task in factory.tasks if task.general)
    results = []
    for answer in (task.gold, "echo 3"):
        name, language = f"exec:submit {shlex.quote(answer)}", intercode.BashEnv.language
        agent = make_agent(name, tasks=[task], language=language)
        (episode,) = evaluate(factory, agent.strategy, server.model, tasks=[task])
        results.append((episode.success, episode.ended, [turn.action for turn in episode.turns]))
    assert results == [
        (True, "submit", [task.gold, "submit"]),
        (False, "submit", ["echo 3", "submit"]),
    ]


@pytest.mark.parametrize("way", ["whole", "stream"])
@pytest.mark.filterwarnings("ignore:a rollout has")
def test_rollouts_have_the_servers_tokens_and_side_conversations_their_segments(
    factory: EnvFactory, server: Server, way: str
) -> None:
    program = f"python3 /opt/talker.py 'talk(1)'; python3 /opt/client.py chat/completions {way}"
    with RolloutPool(factory, f"exec:{program}", envs=16) as pool:
        rollouts = list(pool.run(groups(["touch", "count"], 8), server.sampling))
    assert [rollout.reward for rollout in rollouts] == [1.0] * 16
    for rollout in rollouts:
        title, segment = rollout.segments
        script = SCRIPT["Make the" if rollout.task == "touch" else "How many"]
        whole, mask = [*segment.prompt_ids, *segment.token_ids], segment.mask
        trained = [id for id, own in zip(segment.token_ids, mask, strict=True) if own]
        assert bytes(trained).decode() == "".join(f"{code}</>" for code in script)
        assert segment.logprobs == tuple(-0.5 * own for own in mask)
        last = rollout.episode.turns[-2]
        assert last.sample
        assert tuple(whole) == last.sample.prompt_ids + last.sample.token_ids
        assert bytes(title.token_ids).decode() == "touch /box/new</>"
        assert (rollout.cut, rollout.episode.turns[0].action) == (None, None)


@pytest.mark.filterwarnings("ignore:a rollout has")
def test_limits_of_rollouts_end_a_program(factory: EnvFactory, server: Server) -> None:
    cuts = {}
    for limits in (RolloutLimits(turns=1), RolloutLimits(tokens=20)):
        with RolloutPool(factory, "exec:python3 /opt/talker.py 'talk(9)'", limits=limits) as pool:
            (rollout,) = pool.run([("touch", 0)], server.sampling)
        cuts[rollout.cut] = len(server.seen)
        server.seen.clear()
    assert cuts == {"turns": 1, "tokens": 2}


def test_a_closed_pool_ends_programs_that_do_not_ask(factory: EnvFactory, server: Server) -> None:
    pool = RolloutPool(factory, "exec:python3 /opt/talker.py 'talk(1)'; sleep 1000")
    rollouts = pool.run([("touch", 0)], server.sampling)

    def play() -> None:
        with suppress(UsageError):  # the pool is closed
            list(rollouts)

    thread = threading.Thread(target=play, daemon=True)
    thread.start()
    assert wait_until(lambda: server.seen, 60)
    pool.close()
    thread.join(60)
    assert not thread.is_alive()


def test_the_main_conversation_gets_its_turns_and_all_others_together_as_many(
    play: Play, server: Server
) -> None:
    asked = dict[str, tuple[str, float]]()
    for program in ("talk(9)", "talk(9, marked=True)", "[talk(1, start=n) for n in range(9)]"):
        touch, _ = play(f"python3 /opt/talker.py '{program}'; touch /box/new", turns=3)
        assert touch.success
        asked[program] = touch.ended, len(server.seen) / 2
        server.seen.clear()
    assert list(asked.values()) == [("turns", 3), ("turns", 3), ("stopped", 4)]


AGENTS = """
import threading
bash = [{"type": "function", "function": {"name": "bash"}}]
def agent(told, first, turns, messages=None, **more):
    messages = [] if messages is None else messages
    messages += [] if messages else [{"role": "user", "content": first}]
    for turn in range(turns):
        ask({"role": "system", "content": told}, *messages, **more)
        messages += [{"role": "assistant", "content": "touch /box/new"}]
        messages += [{"role": "user", "content": f"done {turn}"}]
query, main = "Make the file /box/new.", []
agent("a title", query, 1)
agent("code", query, 1, main, tools=bash)
others = [("explore", "Make the list a.", 1), ("explore", "Make the list b.", 99)]
started = [threading.Thread(target=agent, args=one, kwargs={"tools": bash}) for one in others]
[thread.start() for thread in started]
[thread.join() for thread in started]
agent("code", query, 2, main, tools=bash)
open("/box/new", "w").close()
"""


def test_further_agents_are_conversations_of_their_own_with_a_limit_of_their_own(
    play: Play, server: Server
) -> None:
    touch, _ = play(f"python3 /opt/talker.py {shlex.quote(AGENTS)}", turns=3)
    assert (touch.success, touch.ended, touch.error) == (True, "stopped", None)
    asked = [turn.ask for turn in touch.turns if turn.ask]
    told = [(ask[0]["content"], ask[1]["content"][:15]) for ask in asked]
    main, explorers = ("code", "Make the file /"), ("explore", "Make the list a")
    assert sorted(told) == sorted(
        [("a title", "Make the file /"), *[main] * 3, explorers, ("explore", "Make the list b")]
    )
    acted = [turn.ask[0]["content"] for turn in touch.turns if turn.ask and turn.action]
    assert acted == ["code", "code"]


PROBE = r"""
import gzip, http.client, json, os
host, key = os.environ["OPENAI_BASE_URL"].split("/")[2], os.environ["OPENAI_API_KEY"]
messages = [{"role": "user", "content": "Make the file"}]
body = json.dumps({"model": "x", "messages": messages, "stream": False}).encode()
def ask(method, path, body=None, chunked=False, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    if not any("key" in name for name in headers):
        headers["authorization"] = "Bearer " + key
    connection = http.client.HTTPConnection(host)
    content = iter([body[:9], body[9:]]) if chunked else body
    connection.request(method, path, content, headers, encode_chunked=chunked)
    answer = connection.getresponse()
    return answer.status, len(answer.read())
chat = "/v1/chat/completions"
packed, bomb = gzip.compress(body), gzip.compress(b" " * (33 << 20))
print(json.dumps({
    "chunked": ask("POST", chat, body, chunked=True),
    "gzip": ask("POST", chat, packed, content_encoding="gzip"),
    "100": ask("POST", chat, body, expect="100-continue"),
    "api-key": ask("POST", chat, body, api_key=key),
    "x-goog-api-key": ask("POST", chat, body, x_goog_api_key=key),
    "models": ask("GET", "/v1/models"),
    "HEAD": ask("HEAD", "/v1/models"),
    "OPTIONS": ask("OPTIONS", chat),
    "zstd": ask("POST", chat, body, content_encoding="zstd"),
    "not gzip": ask("POST", chat, body, content_encoding="gzip"),
    "too large": ask("POST", chat, b" " * (33 << 20)),
    "unpacked too large": ask("POST", chat, bomb, content_encoding="gzip"),
    "values": ask("POST", chat, b"[" + b"[]," * 300000 + b"[]]"),
    "text": ask("POST", chat, b"{"),
    "elsewhere": ask("GET", "/health"),
    "no key": ask("GET", "/v1/models", api_key="no"),
}))
"""
ANSWERED = {"chunked", "gzip", "100", "api-key", "x-goog-api-key", "models", "HEAD", "OPTIONS"}
STATUSES = {"zstd": 415, "not gzip": 400, "too large": 413, "unpacked too large": 413}
STATUSES |= {"values": 413, "text": 400, "elsewhere": 404, "no key": 401}


def test_requests_come_in_all_ways_of_http_and_are_bounded(play: Play) -> None:
    touch, _ = play(f"python3 -c {shlex.quote(PROBE)}", turns=9)
    came = json.loads(touch.outcomes["program"]["stdout"])
    assert {name: status for name, (status, _) in came.items()} == (
        dict.fromkeys(ANSWERED, 200) | STATUSES
    )
    assert (came["HEAD"][1], came["models"][1] > 0) == (0, True)
    assert sum(turn.reply is not None for turn in touch.turns) == 5


def test_odd_fields_of_a_request_are_no_mistake_of_ours(
    factory: EnvFactory, server: Server
) -> None:
    asks = "; ".join(
        f"ask(dict(role='user', content='Make the file'), stream=True, stream_options={odd})"
        for odd in ("'x'", "[1]", "True")
    )
    language = intercode.BashEnv.language
    agent = make_agent(
        f'exec:python3 /opt/talker.py "{asks}"; '
        "trap - EXIT; echo 9.9.9 > /dev/shm/agent/ticks; submit 3",
        tasks=factory.tasks,
        language=language,
    )
    (episode,) = evaluate(factory, agent.strategy, server.model, tasks=factory.tasks[1:])
    assert (episode.reward, episode.error, len(server.seen)) == (1.0, None, 3)


def test_a_mistake_of_the_recorder_is_not_the_programs(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(request: object) -> frozenset[str]:
        raise ZeroDivisionError("of our own")

    monkeypatch.setattr("intercode.runner.recorder.tools_of", fails)
    with pytest.raises(ZeroDivisionError, match="of our own"):
        play("python3 /opt/client.py chat/completions whole; submit 3")


def test_three_programs_in_a_row_that_fail_stop_the_run(
    factory: EnvFactory, server: Server
) -> None:
    language = intercode.BashEnv.language
    command = "exec:python3 /opt/client.py chat/completions whole 1; echo lost it >&2; exit 3"
    agent = make_agent(command, tasks=factory.tasks, language=language)
    played = list[Episode]()
    with pytest.raises(UsageError, match=r"(?s)3 faults in a row.*status 3; .*lost it"):
        evaluate(
            factory,
            agent.strategy,
            server.model,
            tasks=factory.tasks,
            epochs=9,
            workers=1,
            on_episode=played.append,
        )
    facts = [episode.outcomes["program"] for episode in played]
    assert [(one["status"], one["stderr"]) for one in facts] == [(3, "lost it")] * 3


def test_a_command_is_told_of_its_model_and_has_a_name(factory: EnvFactory, server: Server) -> None:
    language = intercode.BashEnv.language
    agent = make_agent(
        "my.tool=exec:echo {base_url} {key} {model} {other} $GIVEN; submit 3",
        tasks=factory.tasks,
        language=language,
        variables={"GIVEN": '{"url":"{base_url}","query":1}'},
    )
    assert agent.name == "my.tool"
    (count,) = evaluate(factory, agent.strategy, server.model, tasks=factory.tasks[1:])
    address, key, model, other, given = count.outcomes["program"]["stdout"].split()[:5]
    assert address.startswith("http://127.0.0.1:")
    assert (key[:3], model, other) == ("sk-", "large", "{other}")
    assert json.loads(given) == {"url": address, "query": 1}


def test_calls_and_reasoning_are_read_from_each_form() -> None:
    from intercode.models.forms import answer_of, question_of

    model = OpenAIModel("m", base_url="http://127.0.0.1:1/v1")
    block = {"type": "tool_use", "id": "c1", "name": "bash", "input": {"cmd": "ls"}}
    forms = {
        "messages": {"content": [{"type": "thinking", "thinking": "hm"}, block]},
        "responses": {
            "output": [
                {"type": "reasoning", "summary": [{"text": "hm"}]},
                {
                    "type": "function_call",
                    "call_id": "c1",
                    "name": "bash",
                    "arguments": '{"cmd": "ls"}',
                },
            ]
        },
    }
    for form, answer in forms.items():
        reply = model.read_answer(answer_of(form, json.dumps(answer)))
        assert reply.calls == (ToolCall("c1", "bash", '{"cmd": "ls"}'),)
        assert reply.reasoning == {"reasoning": "hm"}
    delta = {"type": "content_block_delta", "index": 0, "delta": {"partial_json": '{"cmd": "l'}}
    usage = {"input_tokens": 3, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 5}
    cut_off = [
        {"type": "message_start", "message": {"usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {**block, "input": {}}},
        delta,
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
    ]
    reply = model.read_answer(answer_of("messages", _streamed(cut_off)))
    assert (reply.usage.prompt_tokens, reply.finish_reason) == (28, "length")
    assert reply.calls
    assert reply.calls[0].arguments == '{"cmd": "l'
    pieces = [{"choices": [{"delta": {"content": letter}}]} for letter in "ab"]
    whole = {"choices": [{"message": {"content": "ab"}, "finish_reason": "stop"}]}
    lines = "\n".join(f"data: {json.dumps(event)}" for event in [*pieces, "ping", whole])
    assert model.read_answer(answer_of("chat/completions", lines)).text == "ab"
    line_end = [{"choices": [{"delta": {"content": "a\u2028b\x85c"}, "finish_reason": "stop"}]}]
    assert model.read_answer(answer_of("chat/completions", _streamed(line_end))).text == (
        "a\u2028b\x85c"
    )
    cut = [{"choices": [{"delta": {"role": "assistant"}}]}]
    for form, text in (
        ("chat/completions", ""),
        ("messages", ": a comment\n\n"),
        ("chat/completions", _streamed(cut)),
        ("messages", _streamed(cut_off[:1])),
    ):
        with pytest.raises(ModelError, match=r"empty|before the reply"):
            answer_of(form, text)
    with pytest.raises(ModelError, match="out of memory"):
        answer_of("chat/completions", _streamed([{"error": {"message": "out of memory"}}]))
    asked = question_of("responses", {"instructions": "be brief", "input": "hello"})
    assert asked == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hello"},
    ]


def test_the_command_takes_a_folder_and_variables(tmp_path: Path, server: Server) -> None:
    needs_bwrap()
    box = write_box(tmp_path / "box", TASKS[1:])
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "solve").write_text('#!/bin/bash\n[ "$WAY" = short ] && submit "$1"\n')
    (tools / "solve").chmod(0o755)
    from intercode.runs.evaluation import Evaluation

    planned = Evaluation.plan(
        "bash",
        data=str(box),
        agent=f"exec:touch /tmp/new && {tools}/solve 3; touch {tools}/new || true",
        agent_env=("WAY=short",),
        agent_files=str(tools),
        model="m",
        base_url=f"http://127.0.0.1:{server.server_port}/v1",
        workers=1,
    )
    with planned.open(tmp_path / "run", resume=False) as store:
        _, (episode,) = planned.run(store)
    assert (episode.success, planned.fault) == (True, None)
    config = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (config["memory"], config["processes"]) == (2048, 256)
    with pytest.raises(UsageError, match="cannot be executed again"):
        load_recording(tmp_path / "run").actions_for(planned.factory.tasks[0])
    with pytest.raises(UsageError, match="cannot be executed again"):
        Rescoring(tmp_path / "run", "paper")
