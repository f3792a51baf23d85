"""Programs as agents in ../shared/cases: what they and their servers send, against what is
recorded and paid."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from faults import definitions
from kept import needs_bwrap
from loopback import Server, serving

import intercode
from intercode.factory import EnvFactory
from intercode.models import OpenAIModel
from intercode.train import RolloutLimits, RolloutPool, groups
from intercode.train.jobs import Rollout
from intercode.types import Turn

pytestmark = pytest.mark.world


def calls(*expected: str) -> Callable[[SimpleNamespace, Turn], bool]:
    """Whether a turn has these calls: a name and the variable of streams.py with the arguments."""

    def right(script: SimpleNamespace, turn: Turn) -> bool:
        wanted = [(word.split()[0], getattr(script, word.split()[1])) for word in expected]
        return [(call.name, call.arguments) for call in turn.calls or ()] == wanted

    return right


def text(script: SimpleNamespace, turn: Turn) -> bool:
    return turn.reply == "touch"


STREAMS: dict[str, Callable[[SimpleNamespace, Turn], bool]] = {
    "plain": calls("bash A1"),
    "usage-last": lambda script, turn: (
        calls("bash A1")(script, turn)
        and (turn.usage.prompt_tokens, turn.usage.completion_tokens) == (9, 5)
    ),
    "index0-twice": calls("bash A1", "bash A2"),
    "null-index": calls("bash A1", "bash A2"),
    "args-object": calls("bash A1"),
    "comments": text,
    "empty-data": text,
    "no-done": text,
    "refusal": lambda script, turn: turn.reply == "I can't.",
    "message-chunk": text,
    "indented": text,
    "m-plain": calls("Bash A1"),
    "m-interleaved": calls("Bash A1", "Bash A2"),
    "m-thinking": lambda script, turn: (
        calls("Bash A1")(script, turn) and turn.reasoning == {"reasoning": "hm"}
    ),
    "m-usage-zero": calls("Bash A1"),
    "r-plain": calls("shell A1"),
    "r-local-shell": lambda script, turn: (
        len(turn.calls or ()) == 1 and "touch /box/new" in turn.calls[0].arguments
    ),
    "r-custom": lambda script, turn: [call.name for call in turn.calls] == ["apply_patch"],
    "r-incomplete": lambda script, turn: turn.finish_reason == "content_filter",
    "r-nulltext": calls("shell A1"),
}
FAULTS = ["error-mid", "r-failed"]
HISTORIES = ["plain", "system-user", "moim", "moim-tail", "turn-context", "reminder", "prune"]
HISTORIES += ["window", "normal-null", "prev", "item-reference", "chunked", "gzip", "expect"]
LIMITED = ["moim-limit", "prev-limit"]
STEPS = [("echo one", "one"), ("echo two", "two"), ("touch /box/new", "-")]
UNFAIR = {
    "honest wrong": 0.0,
    "honest right": 1.0,
    "ok then 404": 0.0,
    "ok then 500": 0.0,
    "ok then 429": 0.0,
    "ok then 400": 0.0,
    "ok then messages 404": 0.0,
    "ok then stream error": 0.0,
    "ok then empty choices": 0.0,
    "ok then garbage": 0.0,
    "ok then pad 33 MiB": 0.0,
    "ok then key as header": 0.0,
}
"""What a program of attack/cli_faults.py earns. Left out: two that sleep."""


AGENT = 'exec:python3 /prog.py "$(head -n 1 <<< {query})"'
"""The query's later lines say how to submit."""


class Stage:
    """A sandbox with a program, played once for each query, against a server."""

    def __init__(self, folder: Path, program: str, closed: ExitStack) -> None:
        self.folder, self.closed = folder, closed
        self.setup = f"mkdir /box; cat > /prog.py <<'END'\n{program}\nEND"
        self.pool = cache(self._open)

    def factory(self, queries: list[str]) -> EnvFactory:
        common = {"gold": "touch /box/new", "setup": self.setup}
        lines = [json.dumps({"query": query} | common) + "\n" for query in queries]
        (self.folder / "tasks.jsonl").write_text("".join(lines))
        data = str(self.folder / "tasks.jsonl")
        return intercode.prepare("bash", data=data, memory=1024, processes=64)

    def _open(self, queries: tuple[str, ...], agent: str, turns: int) -> RolloutPool:
        limits = RolloutLimits(turns=turns)
        factory = self.factory(list(queries))
        pool = RolloutPool(factory, agent, envs=1, hosts=1, retries=0, limits=limits)
        return self.closed.enter_context(pool)

    def play(
        self,
        queries: tuple[str, ...],
        query: str,
        server: Any,
        agent: str = AGENT,
        turns: int = 5,
    ) -> Rollout:
        url = f"http://127.0.0.1:{server.server_port}/v1"
        model = OpenAIModel("m", base_url=url, api_key="k", backoff=0.01)
        jobs = groups([str(queries.index(query))], 1)
        (rollout,) = self.pool(queries, agent, turns).run(jobs, model)
        return rollout


@pytest.fixture(scope="module")
def closed() -> Iterator[ExitStack]:
    needs_bwrap()
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def streams(
    cases: Path, tmp_path_factory: pytest.TempPathFactory, closed: ExitStack
) -> tuple[SimpleNamespace, Stage, Any]:
    names = "sse delta call USAGE A1 A2 END SERVERS block message TOOL response FC done PATH"
    script = definitions(cases / "programs/streams.py", *names.split(), "Handler", "PROGRAM")
    server = closed.enter_context(serving(Server(script.Handler)))
    return script, Stage(tmp_path_factory.mktemp("streams"), script.PROGRAM, closed), server


def stream(streams: tuple[SimpleNamespace, Stage, Any], name: str) -> Rollout:
    script, stage, server = streams
    server.case = name
    return stage.play(tuple(script.PATH.values()), script.PATH[script.SERVERS[name][0]], server)


def test_every_stream_has_a_row(streams: tuple[SimpleNamespace, Stage, Any]) -> None:
    assert streams[0].SERVERS.keys() == STREAMS.keys() | set(FAULTS)


@pytest.mark.parametrize("name", STREAMS)
def test_the_record_says_what_a_server_sent(
    streams: tuple[SimpleNamespace, Stage, Any], name: str
) -> None:
    rollout = stream(streams, name)
    turn = rollout.episode.turns[0]
    assert (rollout.reward, rollout.episode.error) == (1.0, None)
    assert STREAMS[name](streams[0], turn), turn


@pytest.mark.parametrize("name", FAULTS)
def test_a_servers_error_inside_a_stream_is_no_reward(
    streams: tuple[SimpleNamespace, Stage, Any], name: str
) -> None:
    rollout = stream(streams, name)
    assert rollout.reward is None
    assert rollout.episode.error.startswith("model:")


PLACES = {
    "a file in HOME": "mkdir -p ~/.mine; touch ~/.mine/log; submit",
    "submit without PATH": "env -i /bin/sh -c 'submit x' || rm /box/new",
    "only the work": "submit",
}
"""P1 of faults.md: what comes after the work."""


@pytest.mark.parametrize("name", PLACES)
def test_what_a_program_keeps_for_itself_costs_nothing(
    streams: tuple[SimpleNamespace, Stage, Any], name: str
) -> None:
    _, stage, server = streams
    server.case = "indented"
    rollout = stage.play(
        ("chat/completions",), "chat/completions", server, f"{AGENT}; {PLACES[name]}"
    )
    assert rollout.reward == 1.0
    assert rollout.episode.turns[-1].action.startswith("submit")


@pytest.fixture(scope="module")
def history(
    cases: Path, tmp_path_factory: pytest.TempPathFactory, closed: ExitStack
) -> Callable[[str], tuple[Rollout, int]]:
    names = "STEPS COUNT SEEN Handler PROGRAM CASES"
    script = definitions(cases / "programs/history.py", *names.split())
    server = closed.enter_context(serving(Server(script.Handler)))
    stage = Stage(tmp_path_factory.mktemp("history"), script.PROGRAM, closed)
    assert sorted(script.CASES) == sorted(HISTORIES + LIMITED)

    def play(name: str) -> tuple[Rollout, int]:
        """Return the rollout, and how many requests reached the server."""
        script.COUNT["n"] = 0
        return stage.play(tuple(script.CASES), name, server), script.COUNT["n"]

    return play


@pytest.mark.parametrize("name", HISTORIES)
def test_every_turn_of_one_conversation_acts(
    history: Callable[[str], tuple[Rollout, int]], name: str
) -> None:
    rollout, requests = history(name)
    turns = [turn for turn in rollout.episode.turns if turn.reply is not None or turn.calls]
    assert (rollout.reward, requests) == (1.0, 4)
    for turn, (action, observation) in zip(turns, STEPS, strict=False):
        assert action in (turn.action or "")
        assert observation in turn.observation


@pytest.mark.parametrize("name", LIMITED)
def test_the_limit_of_turns_counts_the_replies_of_one_conversation(
    history: Callable[[str], tuple[Rollout, int]], name: str
) -> None:
    rollout, requests = history(name)
    assert (rollout.reward, rollout.cut, requests) == (1.0, "turns", 5)


@pytest.fixture(scope="module")
def unfair(
    cases: Path, tmp_path_factory: pytest.TempPathFactory, closed: ExitStack
) -> Callable[..., tuple[Rollout, int]]:
    attack = cases / "attack"
    server = definitions(attack / "cli_server.py", "Server", "H").Server()
    closed.callback(server.server_close)
    closed.callback(server.shutdown)
    library = definitions(attack / "cli_lib.py", "LIB").LIB + "\nexec(sys.argv[1])"
    programs = first_table(attack / "cli_faults.py")
    programs["30 failing requests"] = "[ask('RAISE400') for i in range(30)]; ask()"
    stage = Stage(tmp_path_factory.mktemp("unfair"), library, closed)

    def play(name: str, turns: int) -> tuple[Rollout, int]:
        server.seen.clear()
        rollout = stage.play(tuple(programs.values()), programs[name], server, turns=turns)
        return rollout, len(server.seen)

    return play


def first_table(script: Path) -> dict[str, str]:
    """Return the first dict of a script."""
    nodes = ast.walk(ast.parse(script.read_text()))
    return ast.literal_eval(next(node for node in nodes if isinstance(node, ast.Dict)))


@pytest.mark.parametrize("name", UNFAIR)
def test_no_program_turns_its_0_into_an_error(
    unfair: Callable[..., tuple[Rollout, int]], name: str
) -> None:
    rollout, _ = unfair(name, 5)
    assert (rollout.reward, rollout.episode.error) == (UNFAIR[name], None)


def test_failing_requests_are_bounded(unfair: Callable[..., tuple[Rollout, int]]) -> None:
    _, requests = unfair("30 failing requests", 2)
    assert requests <= 20
