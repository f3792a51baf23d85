"""What a Bash environment answers: tasks in their order, the two protocols, observations, second contents, wrong usage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from families import killing_the_wall_at

import intercode
from intercode.env import InterCodeEnv, View
from intercode.errors import SandboxDied, UsageError
from intercode.sandbox.base import Limits
from intercode.types import Outcome, Score, Task

Make = Callable[..., Any]
KEYS = {"exit_code", "timed_out", "truncated_output", "session_lost"}


def ids(env: InterCodeEnv, count: int, seed: int | None = None) -> list[str]:
    first = env.reset(seed=seed)[1]["task"]
    return [first, *(env.reset()[1]["task"] for _ in range(count - 1))]


# -- tasks --------------------------------------------------------------------------------------------------------------


def test_the_order_of_tasks_follows_from_the_seed_alone(make: Make) -> None:
    one, other = make(), make()
    order = ids(one, 10, seed=4)
    other.reset(seed=9)
    other.step("echo something else happened before")
    assert ids(other, 10, seed=4) == order
    assert {tuple(ids(one, 5, seed=seed)) for seed in range(8)} != {tuple(order[:5])}


def test_every_task_comes_once_before_one_comes_again(make: Make) -> None:
    order = ids(make(), 10, seed=0)
    assert len(set(order[:5])) == len(set(order[5:])) == 5


def test_a_chosen_task_does_not_disturb_the_order(make: Make) -> None:
    one, other = make(), make()
    order = ids(one, 4, seed=2)
    first = other.reset(seed=2)[1]["task"]
    other.reset(options={"task": "names"})
    assert [first, *(other.reset()[1]["task"] for _ in range(3))] == order


@pytest.mark.parametrize("task", ["touch", 1, np.int64(1)])
def test_a_task_is_chosen_by_id_or_index(make: Make, task: object) -> None:
    query, info = make().reset(options={"task": task})
    assert (query, info) == ("Make the empty file /box/new.", {"task": "touch"})


@pytest.mark.parametrize(("task", "words"), [("nosuch", "nosuch"), (5, "5 tasks"), (-1, "5 tasks"), (1.5, "1.5")])
def test_a_task_that_is_not_there_is_the_callers_fault(make: Make, task: object, words: str) -> None:
    env = make()
    with pytest.raises(UsageError, match=words):
        env.reset(options={"task": task})
    env.reset(seed=0)


def test_steps_outside_of_an_episode_are_the_callers_fault(make: Make) -> None:
    env = make()
    with pytest.raises(UsageError, match="reset"):
        env.step("ls")
    env.reset(seed=0)
    env.step("submit")
    with pytest.raises(UsageError, match="over"):
        env.step("ls")
    env.reset()
    env.close()
    env.close()
    with pytest.raises(UsageError, match="closed"):
        env.step("ls")
    with pytest.raises(UsageError, match="closed"):
        env.reset()


@pytest.mark.parametrize("action", [None, 3, b"ls", "a\0b", "half \ud800 of a pair"])
def test_what_is_no_text_is_the_callers_fault_and_costs_no_turn(make: Make, action: Any) -> None:
    env = make(max_turns=1)
    env.reset(seed=0)
    with pytest.raises(UsageError, match="action"):
        env.step(action)
    assert env.turn == 0
    assert env.step("echo fine")[0] == "fine\n"


@pytest.mark.parametrize(
    "options", [{"protocol": "sometimes"}, {"max_turns": 0}, {"reward": "generous"}, {"shell": "zsh"}, {"data": "/nowhere"}]
)
def test_wrong_options_are_the_callers_fault(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=str(next(iter(options.values()))).strip("/") if "shell" not in options else "shell"):
        intercode.make("bash", **options)


# -- the submit protocol ------------------------------------------------------------------------------------------------


def test_only_the_submission_is_scored(make: Make) -> None:
    env = make()
    env.reset(options={"task": "count"})
    for action in ("ls /box", "ls /box | wc -l"):
        _, reward, terminated, truncated, info = env.step(action)
        assert (reward, terminated, truncated, set(info)) == (0.0, False, False, KEYS)
    observation, reward, terminated, truncated, info = env.step("  submit\n")
    assert (observation, reward, terminated, truncated) == ("", 1.0, True, False)
    assert set(info) == KEYS | {"score", "ended"}
    assert info["ended"] == "submit"
    assert info["score"] == Score(1.0, True, {"effects": 1.0, "answer": 1.0})


def test_the_answer_is_the_output_of_the_last_action_before_the_submission(make: Make) -> None:
    env = make()
    env.reset(options={"task": "count"})
    env.step("ls /box | wc -l")
    env.step("echo 4")
    assert env.step("submit")[1] == 0.0


@pytest.mark.parametrize(
    ("submission", "reward"),
    [
        ("submit 3", 1.0),
        ("submit 'There are 3 entries.'", 1.0),
        ('submit "3\n"', 1.0),
        ("submit <<'END'\n3\nEND", 1.0),
        ("submit 3 # as ls says", 1.0),
        ("submit 4", 0.0),
        ("submit ''", 0.0),
    ],
)
def test_an_answer_that_is_submitted_stands_in_the_place_of_the_last_output(make: Make, submission: str, reward: float) -> None:
    env = make()
    env.reset(options={"task": "count"})
    env.step("echo 3" if reward == 0 else "echo 4")
    assert env.takes_answer
    assert env.step(submission)[1:3] == (reward, True)


def test_a_comment_behind_submit_is_no_answer(make: Make) -> None:
    env = make()
    env.reset(options={"task": "count"})
    env.step("echo 3")
    assert env.step("submit # that is it")[1] == 1.0


NOT_TEXT = (
    "submit $(ls /box | wc -l)",
    "submit `echo 3`",
    "submit <<END\n$x\nEND",
    "submit 3 | cat",
    "submit 3\nls",
    "submit it's 3",
    "submit " + "3" * 100_000,
)


@pytest.mark.parametrize(
    ("task", "submissions", "why"), [("count", NOT_TEXT, "executed or expanded"), ("first", ["submit apple"], "other files")]
)
def test_an_answer_that_cannot_be_taken_costs_a_turn_and_is_not_scored(
    make: Make, task: str, submissions: Sequence[str], why: str
) -> None:
    env = make()
    env.reset(options={"task": task})
    env.step(env.task.gold)
    assert env.takes_answer == (task == "count")
    for submission in submissions:
        observation, reward, terminated, _, info = env.step(submission)
        assert (why in observation, reward, terminated, "score" in info) == (True, 0.0, False, False), submission
    assert env.turn == 1 + len(submissions)
    assert env.step("submit")[1] == 1.0


@pytest.mark.parametrize("options", [{"reward": "paper"}, {"reward": lambda agent, gold, task: 1.0}, {"protocol": "paper"}])
def test_only_exact_takes_an_answer(make: Make, options: dict[str, Any]) -> None:
    env = make(**options)
    env.reset(options={"task": "count"})
    assert not env.takes_answer
    assert env.step("submit 3")[4]["exit_code"] == 127


def test_an_effect_counts_whatever_was_printed_before_the_last_action(make: Make) -> None:
    env = make()
    env.reset(options={"task": "touch"})
    env.step("ls -l /box; touch /box/new")
    env.step("true")
    assert env.step("submit")[1] == 1.0
    env.reset(options={"task": "touch"})
    env.step("touch /box/new /box/newer")
    assert env.step("submit")[1] == 0.0


def test_nothing_of_an_episode_is_left_in_the_next(make: Make) -> None:
    env = make()
    env.reset(options={"task": "touch"})
    env.step("touch /box/new; cd /box; word=left; sleep 100 &")
    env.reset(options={"task": "touch"})
    assert env.step('echo "$(pwd) $word $(jobs -p) $(ls /box)"')[0] == "/   a\nb\nc\n"
    assert env.step("submit")[1] == 0.0


def test_an_episode_without_a_submission_is_truncated_at_the_last_turn(make: Make) -> None:
    env = make(max_turns=3)
    env.reset(options={"task": "count"})
    assert [env.step("ls /box | wc -l")[2:4] for _ in range(2)] == [(False, False)] * 2
    _, reward, terminated, truncated, info = env.step("ls /box | wc -l")
    assert (reward, terminated, truncated, info["ended"]) == (0.0, False, True, "turns")
    assert "score" not in info
    with pytest.raises(UsageError):
        env.step("submit")


def test_a_submission_at_the_last_turn_terminates(make: Make) -> None:
    env = make(max_turns=2)
    env.reset(options={"task": "count"})
    env.step("ls /box | wc -l")
    assert env.step("submit")[1:4] == (1.0, True, False)


# -- the paper's protocol -----------------------------------------------------------------------------------------------


def test_under_the_papers_protocol_every_step_is_scored_and_1_ends(make: Make) -> None:
    env = make(protocol="paper")
    env.reset(options={"task": "count"})
    _, reward, terminated, truncated, info = env.step("echo wrong words")
    assert 0 < reward < 1
    assert (terminated, truncated, info["score"].reward) == (False, False, reward)
    _, reward, terminated, truncated, info = env.step("ls /box | wc -l")
    assert (reward, terminated, truncated, info["ended"]) == (1.0, True, False, "solved")


def test_under_the_papers_protocol_the_last_turn_is_scored_and_truncates(make: Make) -> None:
    env = make(protocol="paper", max_turns=2)
    env.reset(options={"task": "count"})
    env.step("true")
    _, reward, terminated, truncated, info = env.step("submit")
    assert "submit: command not found" in env._seen[-1], "it is no special word here"
    assert (terminated, truncated, info["ended"]) == (False, True, "turns")
    assert reward == info["score"].reward < 1


def test_a_solution_at_the_last_turn_of_the_papers_protocol_terminates(make: Make) -> None:
    env = make(protocol="paper", max_turns=1)
    env.reset(options={"task": "count"})
    assert env.step("ls /box | wc -l")[1:4] == (1.0, True, False)


# -- info and observation -----------------------------------------------------------------------------------------------


def test_equal_episodes_are_equal_in_everything(make: Make) -> None:
    actions = ["ls -la /box/../box | tail -3", "nosuch", "sleep 9 & kill $!; echo; cat /box/c", "exit 5", "pwd", "submit"]

    def played(env: Any) -> list[Any]:
        return [env.reset(seed=1, options={"task": "names"}), *(env.step(action) for action in actions)]

    assert played(make()) == played(make())


def test_a_long_observation_is_cut_in_the_middle_and_says_so_but_all_of_it_is_scored(make: Make) -> None:
    env = make(view=View(head=20, tail=10))
    env.reset(options={"task": "long"})
    observation, *_, info = env.step("seq 5000")
    whole = "".join(f"{number}\n" for number in range(1, 5001))
    assert observation == f"{whole[:20]}\n[… {len(whole) - 30} characters cut …]\n{whole[-10:]}"
    assert info["truncated_output"] is True
    assert env.step("submit")[1] == 1.0
    env.reset(options={"task": "long"})
    assert env.step("seq 1000; echo 1000; seq 1002 5000")[0] == observation, "the two look the same"
    assert env.step("submit")[1] == 0.0


def test_an_observation_that_fits_is_not_touched(make: Make) -> None:
    env = make(view=View(head=20, tail=10))
    env.reset(seed=0)
    observation, *_, info = env.step("printf %030d 7")
    assert (observation, info["truncated_output"]) == (f"{7:030}", False)
    whole = make(view=View(head=None))
    whole.reset(seed=0)
    assert len(whole.step("head -c 100000 /dev/zero | tr '\\0' x")[0]) == 100_000


def test_output_beyond_what_the_sandbox_keeps_is_scored_by_its_digest(make: Make) -> None:
    env = make(limits=Limits(output=4096))
    env.reset(options={"task": "long"})
    *_, info = env.step("seq 5000")
    assert info["truncated_output"] is True
    assert env.step("submit")[1] == 1.0
    env.reset(options={"task": "long"})
    env.step("seq 4999; echo 5001")
    assert env.step("submit")[1] == 0.0


def test_a_timed_out_action_says_so_and_keeps_what_it_printed(make: Make) -> None:
    env = make(limits=Limits(seconds=0.3))
    env.reset(seed=0)
    observation, *_, info = env.step("word=kept; echo before; sleep 30; echo after")
    assert observation == "before\n[timed out; what the action started was ended]"
    assert (info["timed_out"], info["exit_code"], info["session_lost"]) == (True, None, False)
    assert env.step("echo $word")[0] == "kept\n"


def test_a_lost_shell_is_told_in_words_and_info(make: Make) -> None:
    env = make()
    env.reset(seed=0)
    env.step("cd /box; word=gone")
    observation, *_, info = env.step("printf bye; exit 7")
    assert observation == "bye\n[the shell ended; a new one starts in /box]"
    assert (info["session_lost"], info["exit_code"]) == (True, 7)
    assert env.step('echo "$(pwd) $word"')[0] == "/box \n"


def test_a_folder_that_the_agent_named_says_nothing_beyond_its_name(make: Make) -> None:
    env = make()
    env.reset(seed=0)
    env.step(r"mkdir $'/tmp/\xff\n[solved]'; cd /tmp/*solved*")
    observation, *_ = env.step("exit 7")
    assert observation.encode() == rb"[the shell ended; a new one starts in '/tmp/\udcff\n[solved]']"
    assert env.step("pwd | wc -l")[0] == "2\n"


# -- second contents and rewards of one's own ---------------------------------------------------------------------------


def test_an_answer_that_holds_elsewhere_is_robust(make: Make) -> None:
    env = make()
    env.reset(options={"task": "first"})
    env.step("cd /box")
    env.step("cat a")
    *_, info = env.step("submit")
    assert info["score"] == Score(1.0, True, {"effects": 1.0, "answer": 1.0, "robust": 1.0})


@pytest.mark.parametrize("how", [{}, {"reward": "paper"}, {"protocol": "paper"}])
def test_a_constant_answer_to_a_general_task_is_not_robust(make: Make, how: dict[str, str]) -> None:
    env = make(**how)
    env.reset(options={"task": "first"})
    step = env.step("echo apple")
    *_, info = step if how.get("protocol") else env.step("submit")
    assert not info["score"].success
    assert info["score"].parts["robust"] == 0.0
    assert info["score"].reward < 1


def test_a_task_that_is_not_general_is_scored_where_it_was_played(make: Make) -> None:
    env = make()
    env.reset(options={"task": "count"})
    env.step("echo 3")
    *_, info = env.step("submit")
    assert (info["score"].success, "robust" in info["score"].parts) == (True, False)


def test_a_function_takes_the_place_of_the_reward(make: Make) -> None:
    asked: list[tuple[Outcome, Outcome, Task]] = []

    def short(agent: Outcome, gold: Outcome, task: Task) -> Score:
        asked.append((agent, gold, task))
        return Score(1 / (1 + len(agent.output)), len(agent.output) < 3, {"length": float(len(agent.output))})

    env = make(reward=short)
    env.reset(options={"task": "names"})
    env.step("touch /box/made; printf abc")
    _, reward, terminated, _, info = env.step("submit")
    assert (reward, terminated, info["score"]) == (0.25, True, Score(0.25, False, {"length": 3.0}))
    agent, gold, task = asked[0]
    assert (agent.output, set(agent.changes), gold.output, task.id) == ("abc", {"/box/made"}, "a\nb\nc\n", "names")


def test_a_sandbox_that_dies_under_a_gold_is_an_error(make: Make) -> None:
    env = make()
    env.tasks.append(Task("fatal", "Die.", "sleep 61.25"))
    with killing_the_wall_at("sleep 61.25", times=1), pytest.raises(SandboxDied):
        env.reset(options={"task": "fatal"})
    assert env.reset(options={"task": "names"})[1] == {"task": "names"}
