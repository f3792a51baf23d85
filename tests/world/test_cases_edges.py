"""Scripts of ../shared/cases about servers, tools, sandboxes, services, judges and InterCode v1."""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from families import alive, arguments, family, wait_until, walls
from faults import definitions
from intercode.adapters.trl import environments
from intercode.envs.ic_env import IntercodeEnv
from kept import needs_bwrap
from loopback import Server, serving

import intercode
from intercode.agents.code import read_calls, split_reasoning, written_calls
from intercode.agents.tools import Malformed, action_of
from intercode.env import InterCodeEnv
from intercode.errors import IntercodeError, SandboxError, UsageError
from intercode.factory import EnvFactory
from intercode.models import OpenAIModel
from intercode.train import RolloutPool, Sampler, groups

pytestmark = pytest.mark.world

V1 = {
    "v1_ctf_task.py": "right flag -> (0",
    "v1_own_python.py": "AttributeError",
}
"""Scripts of edges/, and what they must not print."""


@pytest.fixture(scope="module")
def count(tmp_path_factory: pytest.TempPathFactory) -> EnvFactory:
    needs_bwrap()
    file = tmp_path_factory.mktemp("count") / "tasks.jsonl"
    record = {"query": "How many lines are in /srv/n?", "gold": "wc -l < /srv/n"}
    file.write_text(json.dumps(record | {"setup": r"printf 'a\nb\nc\n' > /srv/n"}))
    return intercode.prepare("bash", data=str(file))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["good", "text", "null", "dupids"])
def test_an_odd_answer_of_a_server_is_read(cases: Path, count: EnvFactory, name: str) -> None:
    script = definitions(cases / "14-server.py", "ONE", "TWO", "reply", "Handler")
    agent = "tools" if name == "dupids" else "try_again"
    with serving(Server(script.Handler)) as server, RolloutPool(count, agent, envs=1) as pool:
        model = OpenAIModel(name, base_url=f"{server.url}/v1", logprobs=True, backoff=0.01)
        (rollout,) = pool.run(groups(count.tasks, 1), model)
    assert (rollout.reward, rollout.episode.error) == (1.0, None)
    if name == "null":  # both turns have tokens
        assert [len(segment.token_ids) for segment in rollout.segments] == [3, 3]


def test_the_submit_of_trl_answers_with_that_text(cases: Path, tmp_path: Path) -> None:
    needs_bwrap()
    answers = json.loads((cases / "03-trl-submit.json").read_text())
    texts = ["2" if answer["answer"] is None else answer["answer"] for answer in answers]
    setup = "".join(f"cat > /srv/{n} <<'END'\n{text}\nEND\n" for n, text in enumerate(texts))
    lines = [
        {"query": f"Print the text of /srv/{n}.", "gold": f"cat /srv/{n}", "setup": setup}
        for n in range(len(texts))
    ]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    _, make = environments(intercode.prepare("bash", data=str(tmp_path / "tasks.jsonl")))
    env, rewards = make(), []
    for number, answer in enumerate(answers):
        env.reset(str(number))
        if answer.get("execute"):
            env.execute(f"cat /srv/{number}")
        env.submit() if answer["answer"] is None else env.submit(answer["answer"])
        rewards.append(env.get_reward())
    assert rewards == [1.0] * 7


CALLS: dict[str, tuple[list[str], ...]] = {
    "two braces are missing, no end": (["ls -la"],),
    "unescaped quotes in the code": (),
    "single quotes (Python dict)": (["ls"],),
    "JSON in the code, last brace missing": (
        ["""echo '{"name": "execute", "arguments": {"code": "rm -r /srv"}}' > /srv/x"""],
    ),
    "escape \\$": (),
    "unknown tool bash": (),
    "nested code object": (),
    "Llama 3 with <|python_tag|> and text before": (["ls"],),
    "thoughts that never close": ([],),
    "Llama 3 JSON as an answer": ([],),
}
"""The actions that are right besides a reason. For the other texts it is exactly those beside them
in calls.py."""


def test_the_texts_of_calls_are_read_as_other_parsers_read_them(cases: Path) -> None:
    script = definitions(cases / "edges/calls.py", "L", "H", "C", "T", "CASES")
    wrong = []
    for name, form, text, right in script.CASES:
        actions, reasons = acts(text, form)
        if not (actions == right if name not in CALLS else reasons or actions in CALLS[name]):
            wrong.append((name, actions))
    assert not wrong
    assert len(script.CASES) == 20


def acts(text: str, form: str) -> tuple[list[str], list[str]]:
    """Return the actions that a reply asks for, and why others are none."""
    rest, calls = read_calls(text, form)
    actions, reasons = [], []
    for call in calls or written_calls(split_reasoning(rest)[1]):
        try:
            actions.append(action_of(call, intercode.BashEnv.language))
        except Malformed as error:
            reasons.append(str(error))
    return actions, reasons


ARGUMENTS = ["write a text", "timeout as text", "write to a Path", "a word that is a Path"]


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_wrong_argument_does_not_end_the_sandbox(cases: Path, name: str) -> None:
    needs_bwrap()
    call = definitions(cases / "16-sandbox.py", "CALLS").CALLS[name]
    with intercode.sandbox() as box:
        with contextlib.suppress(UsageError):
            call(box)
        assert box.exec(["echo", "ok"]).stdout == b"ok\n"


HOSTS = ["hosts a folder", "hosts a FIFO", "hosts a loop", "hosts to /dev/full"]
HOSTS += ["hosts to /proc", "hosts to nowhere", "/etc a file"]
SERVICES = {"gold": 1.0, "nothing": 0.0} | dict.fromkeys(HOSTS, 0.0)
"""What an agent of attack/services_verify.py earns where its processes are kept for the tests."""


@pytest.fixture(scope="module")
def served(cases: Path, module_cache: Path) -> Iterator[tuple[InterCodeEnv, dict[str, str]]]:
    needs_bwrap()
    names = "SRV svc G rec FAKE H"
    script = definitions(cases / "attack/services_verify.py", *names.split())
    (module_cache / "data/tree/srv").mkdir(parents=True)
    (module_cache / "data/tree/srv/x").write_text("x")
    (module_cache / "data/tasks.jsonl").write_text(json.dumps(script.rec("keep", True)))
    with closing(intercode.make("bash", data=str(module_cache / "data"))) as env:
        yield env, script.H


@pytest.mark.parametrize("name", SERVICES)
def test_what_an_agent_does_to_its_hosts_is_its_own_fault(
    served: tuple[InterCodeEnv, dict[str, str]], name: str
) -> None:
    env, attacks = served
    try:
        env.reset(options={"task": "keep"})
        env.step(attacks[name])
        reward = env.step("submit")[1]
    except OSError as error:
        raise AssertionError("the host's own error") from error
    assert reward == SERVICES[name]


def test_a_service_that_the_machine_ends_is_no_reward_of_0(
    served: tuple[InterCodeEnv, dict[str, str]],
) -> None:
    """T3 of faults.md; attack/svc_kill.py does the same to whole runs."""
    env, attacks = served
    env.reset(options={"task": "keep"})
    serving = [pid for pid in walls() if any("/srv/p.py" in arguments(p) for p, _ in family(pid))]
    inside = set().union(*map(family, serving))
    for wall in serving:
        os.kill(wall, signal.SIGKILL)
    assert serving
    assert wait_until(lambda: not alive(inside))
    reward = None
    with contextlib.suppress(SandboxError):
        env.step(attacks["gold"])
        reward = env.step("submit")[1]
    assert reward != 0.0


@pytest.fixture
def printed(
    cases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], str]:
    """Runs a script of edges/ in this process. Returns what it prints and raises."""
    (tmp_path / "python/mbpp").mkdir(parents=True)
    record = [{"query": "Set x to 3.", "gold": "x = 3"}]
    (tmp_path / "python/mbpp/ic_mbpp.json").write_text(json.dumps(record))

    def run(script: str) -> str:
        monkeypatch.setattr(sys, "argv", [script, str(tmp_path)])
        with contextlib.suppress(UsageError):  # it is refused
            names = runpy.run_path(str(cases / "edges" / script))
            for env in filter(lambda value: isinstance(value, IntercodeEnv), names.values()):
                env.close()
        output = capsys.readouterr()
        return output.out + output.err

    return run


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("script", V1)
def test_a_users_class_of_version_1_works_or_is_refused(
    printed: Callable[[str], str], script: str
) -> None:
    text = printed(script)
    assert V1[script] not in text


@pytest.fixture(scope="module")
def dealer(cases: Path) -> SimpleNamespace:
    return definitions(cases / "training/dealer.py", "E", "R", "roll", "mk", "sim")


@pytest.fixture
def saved(dealer: SimpleNamespace, tmp_path: Path) -> Path:
    sampler = Sampler([(dealer.mk(60), 1)], seed=5)
    for success in (True, False, True):
        sampler.note([dealer.roll(job, success) for job in sampler.deal(8, 4)])
    sampler.save(str(tmp_path / "sampler.json"))
    return tmp_path / "sampler.json"


def test_a_level_opens_when_the_first_is_never_solved(dealer: SimpleNamespace) -> None:
    tasks = dealer.mk(100, levels=2)
    hard = {task.id for task in tasks if task.extra["difficulty"] == 2}
    _, dealt, _, _ = dealer.sim(lambda task, _: 0.5 * (task.id in hard), tasks, 320)
    assert not hard.isdisjoint(dealt)


def test_a_loaded_dealer_goes_on_where_the_saved_one_was(
    dealer: SimpleNamespace, saved: Path
) -> None:
    samplers = [Sampler([(dealer.mk(60), 1)], seed=seed) for seed in (0, 1)]
    for sampler in samplers:
        sampler.load(str(saved))
    first, second = ([(job.task.id, job.seed) for job in s.deal(8, 4)] for s in samplers)
    assert first == second


def test_rollouts_in_flight_over_a_load_are_taken(dealer: SimpleNamespace, saved: Path) -> None:
    sampler = Sampler([(dealer.mk(60), 1)], seed=5)
    sampler.load(str(saved))
    jobs = sampler.deal(8, 4)
    sampler.load(str(saved))
    sampler.note([dealer.roll(job, True) for job in jobs])


def test_the_state_of_another_mixture_is_refused(dealer: SimpleNamespace, saved: Path) -> None:
    assert refused(Sampler([(dealer.mk(10, fam="z"), 1)]), saved)


def test_more_wins_than_plays_are_refused(dealer: SimpleNamespace, saved: Path) -> None:
    state = json.loads(saved.read_text())
    state["rates"][next(iter(state["rates"]))] = [5, 1, 0]
    saved.write_text(json.dumps(state))
    assert refused(Sampler([(dealer.mk(60), 1)]), saved)


def refused(sampler: Sampler, state: Path) -> bool:
    try:
        sampler.load(str(state))
    except IntercodeError:
        return True
    return False
