"""What the machine kills, as the kernel does where memory is short, is not the gold's outcome, nor the answer's failure."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from families import NAMED, killing_the_parent_of, killing_the_wall_at, the_victims, wait_until

import intercode
from intercode.errors import DataError, ForkError, SandboxDied

PAUSE = "timeout 3 sleep 61.75"
SLOW = f"echo 1; {PAUSE}; cat /box/a"
OWN = f"""
from intercode.envs.bash import BashEnv


class Probed(BashEnv):
    probe = "{PAUSE}; cat /box/a"
"""
Made = Callable[..., Any]
pytestmark = pytest.mark.slow


@pytest.fixture
def made(tmp_path: Path, module_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    """Makes environments of one task over /box/a, which holds another word on the second contents."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    for tree, word in (("tree", "apple"), ("second", "quince")):
        (tmp_path / tree / "box").mkdir(parents=True)
        (tmp_path / tree / "box" / "a").write_text(word + "\n")
    (tmp_path / "probed_env.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    with ExitStack() as stack:

        def make(env: str, options: dict[str, Any] | None = None, **record: Any) -> Any:
            (tmp_path / "tasks.jsonl").write_text(json.dumps({"id": "t", "query": "Do it.", **record}) + "\n")
            env = intercode.make(env, data=str(tmp_path), **options or {})
            stack.callback(env.close)
            env.reset(options={"task": "t"})
            return env

        yield make


def rewarded(env: Any, *actions: str) -> float:
    for action in actions:
        env.step(action)
    return float(env.step("submit")[1])


@pytest.mark.parametrize("answer", ["echo 1; cat /box/a", "echo 1"])
def test_a_gold_that_was_killed_once_is_executed_again(made: Made, answer: str) -> None:
    with killing_the_parent_of(PAUSE, times=1) as killed:
        env = made("bash", gold=SLOW)
    assert len(killed) == 1
    for _ in range(2):
        assert rewarded(env, answer) == (answer != "echo 1")
        env.reset()


def test_a_gold_that_is_killed_each_time_is_the_datas_fault_and_not_kept(made: Made) -> None:
    env = made("bash", gold="cat /box/a")
    with killing_the_parent_of(PAUSE, times=2) as killed, pytest.raises(DataError, match="gold ends with status -9"):
        made("bash", gold=SLOW)
    assert len(killed) == 2
    assert rewarded(env, "cat /box/a") == 1


@pytest.mark.parametrize("gold", ["timeout -s KILL 0.1 sleep 9", "cat /box/a; timeout -s KILL 0.1 sleep 9"])
@pytest.mark.parametrize("session", ["persistent", "stateless"])
def test_a_gold_that_kills_a_program_of_its_own_is_a_gold(made: Made, session: str, gold: str) -> None:
    assert rewarded(made("bash", {"session": session}, gold=gold), gold) == 1


def test_what_is_killed_on_the_second_contents_is_played_there_again(made: Made) -> None:
    env = made("bash", gold="cat /box/a", general=True)
    env.step(f"{PAUSE}; cat /box/a")
    with killing_the_parent_of(PAUSE, times=1) as killed:
        assert rewarded(env) == 1
    assert len(killed) == 1


def test_a_probe_that_was_killed_looks_again(made: Made) -> None:
    env = made("probed_env:Probed", gold="cat /box/a")
    env.step("cat /box/a")
    with killing_the_parent_of(PAUSE, times=1) as killed:
        assert rewarded(env) == 1
    assert len(killed) == 1


def test_a_script_that_was_killed_once_looks_for_the_flag_again(made: Made) -> None:
    with killing_the_parent_of(PAUSE, times=1) as killed:
        env = made("ctf", gold=f"{PAUSE}; echo 'flag{{x}}'", gold_is="script")
    assert len(killed) == 1
    assert env.step("submit flag{x}")[1] == 1


# -- Python ---------------------------------------------------------------------------------------------------------------

DOUBLE = {"gold": "def f(x): return x + x", "tests": ["assert f(1) == 2"], "hidden": ["assert f(3) == 6"]}
ANSWER = "def f(x): return 2 * x"


def killed_from_outside(env: Any) -> None:
    """The interpreter; returns when it is gone."""
    env.step(NAMED)
    (pid,) = the_victims()
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: not the_victims())


@pytest.mark.parametrize("submission", ["submit", "submit f"])
def test_an_interpreter_that_was_killed_after_the_answer_is_no_wrong_answer(made: Made, submission: str) -> None:
    env = made("python", **DOUBLE)
    env.step(ANSWER)
    killed_from_outside(env)
    with pytest.raises(SandboxDied, match=r"interpreter was killed.*did not happen again"):
        env.step(submission)
    env.reset()
    assert rewarded(env, ANSWER) == 1


def test_an_interpreter_that_was_killed_before_an_action_is_told(made: Made) -> None:
    env = made("python", **DOUBLE)
    env.step(ANSWER)
    killed_from_outside(env)
    observation, *_, info = env.step("f(1)")
    assert info["session_lost"]
    assert "the interpreter ended; a new one starts" in observation
    assert rewarded(env, ANSWER) == 1


def test_an_interpreter_that_was_killed_between_two_tests_is_no_wrong_answer(made: Made) -> None:
    env = made("python", **{**DOUBLE, "tests": ["import time; time.sleep(3); assert f(1) == 2", "assert f(2) == 4"]})
    env.step(ANSWER)
    env.step(NAMED)
    killer = threading.Thread(target=kill_the_older)
    killer.start()
    with pytest.raises(SandboxDied, match=r"interpreter was killed.*did not happen again"):
        env.step("submit")
    killer.join()
    env.reset()
    assert rewarded(env, ANSWER) == 1


def kill_the_older() -> None:
    """The interpreter, when it has a branch."""
    assert wait_until(lambda: len(the_victims()) == 2)
    os.kill(min(the_victims()), signal.SIGKILL)


def test_an_interpreter_that_kills_itself_after_the_answer_earns_nothing(made: Made) -> None:
    env = made("python", **DOUBLE)
    env.step(f"import os, threading; {NAMED}; threading.Timer(0.5, os.kill, (os.getpid(), 9)).start()")
    env.step(ANSWER)
    assert wait_until(lambda: not the_victims())
    _, reward, _, _, info = env.step("submit")
    assert (reward, info["ended"]) == (0, "agent_fault")


DIES_AT_FORK = """
import os, time
forks = []
def hook():
    forks.append(1)
    if len(forks) == {}: os.kill(os.getpid(), 9)
os.register_at_fork(before=hook)
"""
KILLS_AT_FORK = f"{DIES_AT_FORK}def f(x): return 7"
KILLED_BY_ITS_COPY = "import os\nos.register_at_fork(after_in_child=lambda: os.kill(os.getppid(), 9))\ndef f(x): return 7"


@pytest.mark.parametrize("code", [*(KILLS_AT_FORK.format(number) for number in (1, 2, 3, 5)), KILLED_BY_ITS_COPY])
@pytest.mark.parametrize("moves", [["submit f"], ["submit nosuch", "submit f"], ["submit", "1", "submit f", "1"], ["1", "2"]])
def test_a_wrong_answer_cannot_have_nothing_decided(made: Made, moves: list[str], code: str) -> None:
    """By an interpreter that dies at some fork of its own choice."""
    paper = {"protocol": "paper", "reward": "exact"}
    env = made("python", paper if "1" in moves[:1] else {"submits": len(moves)}, **DOUBLE)
    for action in (code, *moves):
        _, reward, terminated, _, _ = env.step(action)
        assert reward == 0
        if terminated:
            break


COUNTS_ITS_FORKS = """
import os
forks, base = [], 0
os.register_at_fork(before=lambda: forks.append(1))
def f(x):
    if x == 1 and base and not os.path.exists('/tmp/x'):
        open('/tmp/x', 'w').close()
        os._exit(0)
    return 2 if x == 1 else 7
"""


def test_a_death_in_a_test_decides_nothing_only_where_the_answer_is_right(made: Made) -> None:
    """An answer that knows by its forks that it is not re-executed dies in the public test; it fails the hidden one."""
    env = made("python", **DOUBLE)
    for action in (COUNTS_ITS_FORKS, "submit nosuch", "base = len(forks)"):
        env.step(action)
    _, reward, _, _, info = env.step("submit f")
    assert (reward, info["ended"]) == (0, "submit")


GONE_THE_SECOND_TIME = f"{DIES_AT_FORK}if time.time() < {{}}:\n    def f(x): return 2 if x == 1 else 7"


def test_an_episode_whose_hidden_tests_were_asked_for_is_over(made: Made) -> None:
    """An agent that measures the time of a step would know what they ask: its answer dies in them, and is gone when it is
    executed again."""
    env = made("python", **DOUBLE)
    gone = time.time() + 2
    env.step(GONE_THE_SECOND_TIME.format(3, gone))
    assert wait_until(lambda: time.time() > gone)
    _, reward, terminated, _, info = env.step("submit f")
    assert (reward, terminated, info["ended"]) == (0, True, "submit")


def test_a_submission_that_would_be_refused_is_refused(made: Made) -> None:
    env = made("python", **DOUBLE)
    env.step(ANSWER)
    killed_from_outside(env)
    observation, _, terminated, _, _ = env.step("submit g")
    assert (observation, terminated) == ("There is no function or class g; there are f.", False)
    assert env.step("submit f")[1] == 1


def test_an_interpreter_that_was_killed_with_its_copy_when_it_is_asked_for_names_is_no_wrong_answer(made: Made) -> None:
    env = made("python", **DOUBLE)
    env.step(f"import os, time\n{NAMED}\nos.register_at_fork(after_in_child=lambda: time.sleep(2))\n{ANSWER}")
    killer = threading.Thread(target=kill_both)
    killer.start()
    with pytest.raises(SandboxDied, match=r"interpreter was killed.*did not happen again"):
        env.step("submit")
    killer.join()


def kill_both() -> None:
    assert wait_until(lambda: len(the_victims()) == 2)
    for pid in the_victims():
        os.kill(pid, signal.SIGKILL)


KILLS_ALL = (
    "import subprocess; subprocess.Popen(['bash', '-c', 'sleep 0.5; while :; do kill -9 -1; done'], start_new_session=True)"
)


def test_an_agent_that_kills_all_interpreters_before_the_last_submission_decides_nothing_by_it(made: Made) -> None:
    env = made("python", {"submits": 2}, **DOUBLE)
    env.step(f"{NAMED}\nimport os\nforks = []\nos.register_at_fork(before=lambda: forks.append(1))\ndef f(x): return 7")
    env.step("submit nosuch")
    env.step(f"if forks: {KILLS_ALL}")
    assert wait_until(lambda: not the_victims())
    _, reward, terminated, _, _ = env.step("submit")
    assert (reward, terminated) == (0, False)


def test_a_program_needs_no_interpreter(made: Made) -> None:
    env = made("python", gold="print(int(input()) * 2)", cases={"inputs": ["1\n"], "outputs": ["2\n"]})
    env.step(NAMED)
    env.step("print(2 * int(input()))")
    (pid,) = the_victims()
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: not the_victims())
    assert rewarded(env) == 1


DOUBLED = {"gold": "print(int(input()) * 2)", "cases": {"inputs": ["1\n", "2\n"], "outputs": ["2\n", "4\n"]}}
PAUSES = f"x = int(input()); import time; x == 1 and ({NAMED}, time.sleep(1))\nprint({{}} * x)"


def kill_the_first() -> None:
    assert wait_until(the_victims)
    os.kill(the_victims()[0], signal.SIGKILL)


@pytest.mark.parametrize("factor", [2, 3])
def test_a_program_that_was_killed_in_a_test_fails_only_if_it_is_wrong(made: Made, factor: int) -> None:
    env = made("python", **DOUBLED)
    killer = threading.Thread(target=kill_the_first)
    env.step(PAUSES.format(factor))
    killer.start()
    if factor == 3:
        assert env.step("submit")[1] == 0
    else:
        with pytest.raises(SandboxDied, match="it did not happen again"):
            env.step("submit")
    killer.join()


@pytest.mark.parametrize("second", ["4\n", "5\n"], ids=["right", "failing a test of its own"])
def test_a_gold_whose_program_was_killed_once_is_executed_again(made: Made, second: str) -> None:
    cases = {"inputs": ["1\n", "2\n"], "outputs": ["2\n", second]}
    env = made("python", {"reward": "paper"}, gold=PAUSES.format(2), cases=cases)
    env.step("print(2 * int(input()))")
    killer = threading.Thread(target=kill_the_first)
    killer.start()
    assert env.step("submit")[1] == 1
    killer.join()


def test_a_program_that_kills_itself_in_a_test_earns_nothing(made: Made) -> None:
    env = made("python", **DOUBLED)
    env.step("import os; x = int(input()); x == 1 and os.kill(os.getpid(), 9)\nprint(2 * x)")
    _, reward, _, _, info = env.step("submit")
    assert (reward, info["ended"]) == (0, "submit")


def test_a_wrong_answer_whose_interpreter_was_killed_has_failed(made: Made) -> None:
    env = made("python", {"tell": "case"}, **DOUBLE)
    env.step("def f(x): return 7")
    killed_from_outside(env)
    _, reward, terminated, truncated, info = env.step("submit")
    assert (reward, terminated, truncated, info["ended"]) == (0, True, False, "submit")
    assert set(info["score"].parts.values()) == {0}


def test_an_agent_that_may_go_on_finds_an_empty_interpreter(made: Made) -> None:
    """A re-execution would show hidden tests to a session that goes on."""
    env = made("python", {"submits": 2}, **DOUBLE)
    env.step(ANSWER)
    killed_from_outside(env)
    assert env.step("submit f")[0] == "There is no function or class f; nothing is defined yet."
    assert env.step("submit")[0] == "Wrong: nothing was defined. 1 more may be submitted."
    assert env.step("1")[4]["session_lost"]
    assert rewarded(env, ANSWER) == 1


@pytest.mark.parametrize("fork", [1, 2])
def test_an_interpreter_that_dies_at_a_fork_before_the_last_submission_leaves_the_rest_of_the_episode(
    made: Made, fork: int
) -> None:
    env = made("python", {"submits": 2}, **DOUBLE)
    env.step(KILLS_AT_FORK.format(fork))
    _, reward, terminated, _, _ = env.step("submit")
    assert (reward, terminated) == (0, False)
    assert rewarded(env, ANSWER) == 1


def test_a_wall_that_falls_before_the_last_submission_is_the_machines_fault(made: Made) -> None:
    """With an open file, which no live copy can have, the hidden tests need another re-execution."""
    env = made("python", {"submits": 3}, **DOUBLE)
    env.step(f"{ANSWER}\nkept = open('/tmp/kept', 'w')")
    with killing_the_wall_at("sleep 61.75", times=1), pytest.raises(SandboxDied, match="did not happen again"):
        env.step("import os; os.system('timeout 3 sleep 61.75')")


def test_an_interpreter_that_was_killed_is_not_copied_and_no_wrong_answer_either(made: Made) -> None:
    env = made("python", **DOUBLE)
    env.step(ANSWER)
    killed_from_outside(env)
    with pytest.raises(ForkError, match="interpreter"):
        env.fork()
    with closing(env.fork(replay=True)) as twin:
        assert twin.step("submit")[1] == 1
    with pytest.raises(SandboxDied, match="did not happen again"):
        env.step("submit")


def test_what_a_limit_ended_after_the_answer_was_the_agents(made: Made) -> None:
    env = made("python", **DOUBLE)
    env.step(ANSWER)
    env.step(f"{NAMED}; import subprocess; p = subprocess.Popen('for i in $(seq 200); do sleep 60 & done; wait', shell=True)")
    assert wait_until(lambda: not the_victims())
    _, reward, _, _, info = env.step("submit")
    assert (reward, info["ended"]) == (0, "submit")


def test_a_gold_whose_interpreter_was_killed_once_is_executed_again(made: Made) -> None:
    gold = f"import os\nos.system('exec {PAUSE}')\ndef f(x): return x + x"
    env = made("python", **{**DOUBLE, "gold": gold})
    with killing_the_parent_of(PAUSE, times=1) as killed:
        assert env.try_gold(env.task).faults == ()
    assert len(killed) == 1


def test_a_grader_that_was_killed_between_two_submissions_is_replaced(made: Made) -> None:
    env = made("python", **DOUBLE)
    assert rewarded(env, ANSWER) == 1
    env._shop._referee.sandbox.exec(NAMED)
    (grader,) = the_victims()
    os.kill(grader, signal.SIGKILL)
    env.reset()
    assert rewarded(env, ANSWER) == 1
