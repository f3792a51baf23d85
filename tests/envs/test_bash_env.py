"""What a Bash environment answers: tasks in their order, the two protocols, observations, second
contents, wrong usage."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import intercode
from intercode.env import InterCodeEnv
from intercode.errors import UsageError
from intercode.submission import answer_in
from intercode.types import Score, Task, View
from intercode_sandbox.base import Limits

Make = Callable[..., Any]
KEYS = {"exit_code", "timed_out", "truncated_output", "session_lost", "limits"}


# -- tasks -----------------------------------------------------------------------------------------


def ids(env: InterCodeEnv, count: int, seed: int | None = None) -> list[str]:
    first = env.reset(seed=seed)[1]["task"]
    return [first, *(env.reset()[1]["task"] for _ in range(count - 1))]


def test_the_order_of_tasks_follows_from_the_seed_alone_and_repeats_none_too_early(
    make: Make,
) -> None:
    one, other = make(), make()
    order = ids(one, 10, seed=4)
    assert len(set(order[:5])) == len(set(order[5:])) == 5
    other.reset(seed=9)
    other.step("echo something else happened before")
    assert ids(other, 10, seed=4) == order
    assert {tuple(ids(one, 5, seed=seed)) for seed in range(4)} != {tuple(order[:5])}
    first = other.reset(seed=4)[1]["task"]
    other.reset(options={"task": "names"})
    assert [first, *ids(other, 3)] == order[:4], "a chosen task does not disturb it"


def test_a_task_is_chosen_by_id_or_index(make: Make) -> None:
    env = make()
    for task in ("touch", 1, np.int64(1)):
        assert env.reset(options={"task": task}) == (
            "Make the empty file /box/new.",
            {"task": "touch"},
        )
    for task, words in (("nosuch", "nosuch"), (5, "5 tasks"), (-1, "5 tasks"), (1.5, "1.5")):
        with pytest.raises(UsageError, match=words):
            env.reset(options={"task": task})
    with pytest.raises(UsageError, match="no option 'index'; it takes 'task'"):
        env.reset(options={"index": 3})


# -- wrong usage -----------------------------------------------------------------------------------


def test_steps_outside_of_an_episode_are_the_callers_fault(make: Make) -> None:
    env = make().fork()
    with pytest.raises(UsageError, match="reset"):
        env.step("ls")
    env.reset(seed=0)
    env.step("submit")
    with pytest.raises(UsageError, match="over"):
        env.step("ls")
    env.close()
    env.close()
    for call in (lambda: env.step("ls"), env.reset, env.fork):
        with pytest.raises(UsageError, match="the environment is closed; make a new one"):
            call()


def test_what_is_no_text_is_the_callers_fault_and_costs_no_turn(make: Make) -> None:
    env = make("count")
    for action in (None, 3, b"ls", "a\0b", "half \ud800 of a pair"):
        with pytest.raises(UsageError, match="action"):
            env.step(action)
    assert env.turn == 0


@pytest.mark.parametrize(
    ("env", "options", "said"),
    [
        ("bash", {"protocol": "sometimes"}, "sometimes"),
        ("bash", {"max_turns": 0}, "max_turns 0"),
        ("bash", {"shell": "zsh"}, "shell"),
        ("bash", {"data": "/nowhere"}, "nowhere"),
        ("bash", {"render_mode": "human"}, r"render_mode 'human': use one of \['ansi'\]"),
        (
            "bash",
            {"reward": "generous"},
            r"reward 'generous': use 'exact', 'paper'.* or a function \(",
        ),
        ("sql", {"engine": "oracle"}, "there is no engine 'oracle'"),
        (
            "sql",
            {"engine": "http://localhost/"},
            "there is no engine 'http'.*for a running server, dump",
        ),
        ("sql", {"databases": "/nowhere"}, "/nowhere"),
        ("sql", {"dump": "a.sql", "databases": "b"}, "not with both"),
        ("sql", {"tree": "x"}, "takes no tree"),
        ("sql", {"engin": "x"}, r"takes no engin; .*; did you mean 'engine'\?"),
        ("python", {"tell": "all"}, "tell"),
        ("python", {"submits": 0}, "submits"),
        ("python", {"seconds": -1}, "seconds"),
        ("ctf", {"assets": "/nowhere"}, "no such folder"),
    ],
)
def test_wrong_options_are_the_callers_fault(env: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        intercode.make(env, **{"limit": 1, **options})


# -- the submit protocol ---------------------------------------------------------------------------


def test_only_the_submission_is_scored_and_the_answer_is_the_last_output(make: Make) -> None:
    env = make("count")
    for action in ("ls /box", "ls /box | wc -l"):
        _, reward, terminated, truncated, info = env.step(action)
        assert (reward, terminated, truncated, set(info)) == (0.0, False, False, KEYS)
    observation, reward, terminated, truncated, info = env.step("  submit\n")
    assert (observation, reward, terminated, truncated, info["ended"]) == (
        "",
        1.0,
        True,
        False,
        "submit",
    )
    assert set(info) == KEYS | {"score", "ended", "outcomes"}
    assert info["score"] == Score(1.0, True, {"files": 1.0, "answer": 1.0})
    assert make("count", "ls /box | wc -l", "echo 4").step("submit")[1] == 0.0


def test_an_answer_that_is_submitted_stands_in_the_place_of_the_last_output(make: Make) -> None:
    env = make()
    right = (
        "3",
        "'There are 3 entries.'",
        '"3\n"',
        "<<'END'\n3\nEND",
        "<<'END'\r\n3\r\nEND\r\n",
        "3 # as ls says",
    )
    for reward, before, answers in (
        (1.0, "echo 4", right),
        (0.0, "echo 3", ("4", "''")),
        (1.0, "echo 3", ("# that is it",)),
    ):
        for answer in answers:
            env.reset(options={"task": "count"})
            env.step(before)
            assert env.takes_answer
            assert env.step(f"submit {answer}")[1:3] == (reward, True), answer


NOT_TEXT = (
    *(
        "submit $(ls /box | wc -l)",
        "submit `echo 3`",
        "submit <<END\n$x\nEND",
        "submit 3 | cat",
        "submit 3\nls",
    ),
    *("submit it's 3", "submit " + "3" * 100_000),
)


def test_a_hash_begins_a_comment_only_before_a_word() -> None:
    for word, answer in (
        ("C# 7", "C# 7\n"),
        ("a # b", "a\n"),
        ("'# a' # b", "# a\n"),
        ("it\\'s#1", "it's#1\n"),
        ('say "hi', None),
        ("1]'", None),
    ):
        assert answer_in(word) == answer


@pytest.mark.parametrize(
    ("task", "submissions", "why"),
    [("count", NOT_TEXT, "executed or expanded"), ("first", ["submit apple"], "other files")],
)
def test_an_answer_that_cannot_be_taken_costs_a_turn_and_is_not_scored(
    make: Make, task: str, submissions: Sequence[str], why: str
) -> None:
    env = make(task)
    env.step(env.task.gold)
    assert env.takes_answer == (task == "count")
    for submission in submissions:
        observation, reward, terminated, _, info = env.step(submission)
        assert (why in observation, reward, terminated, "score" in info) == (
            True,
            0.0,
            False,
            False,
        ), submission
    assert env.turn == 1 + len(submissions)
    assert env.step("submit")[1] == 1.0


def test_effects_count_and_nothing_of_an_episode_is_left_in_the_next(make: Make) -> None:
    env = make("touch", "ls -l /box; touch /box/new", "true")
    assert env.step("submit")[1] == 1.0
    env.reset(options={"task": "touch"})
    env.step("touch /box/new /box/newer; cd /box; word=left; sleep 100 &")
    assert env.step("submit")[1] == 0.0
    env.reset(options={"task": "touch"})
    assert env.step('echo "$(pwd) $word $(jobs -p) $(ls /box)"')[0] == "/   a\nb\nc\n"
    assert env.step("submit")[1] == 0.0


def test_an_archive_of_another_user_can_be_unpacked(make: Make) -> None:
    env = make()
    env.reset(options={"task": "touch"})
    pack = "cd /box && tar --owner=1000 --group=1000 -cf /tmp/a.tar a && mkdir d"
    assert env.step(f"{pack} && tar xf /tmp/a.tar -C d && stat -c %u d/a")[0] == "0\n"


def test_the_last_turn_truncates_but_a_submission_there_terminates(make: Make) -> None:
    env = make("count", "ls /box | wc -l", max_turns=2)
    _, reward, terminated, truncated, info = env.step("ls /box | wc -l")
    assert (reward, terminated, truncated, info["ended"], "score" in info) == (
        0.0,
        False,
        True,
        "turns",
        False,
    )
    with pytest.raises(UsageError, match="over"):
        env.step("submit")
    env.reset(options={"task": "count"})
    env.step("ls /box | wc -l")
    assert env.step("submit")[1:4] == (1.0, True, False)


# -- the paper's protocol --------------------------------------------------------------------------


def test_under_the_papers_protocol_every_step_is_scored_and_1_ends(make: Make) -> None:
    env = make("count", protocol="paper", max_turns=2)
    _, reward, terminated, truncated, info = env.step("echo wrong words")
    assert 0 < reward < 1
    assert (terminated, truncated, info["score"].reward) == (False, False, reward)
    _, reward, terminated, truncated, info = env.step("ls /box | wc -l")
    assert (reward, terminated, truncated, info["ended"]) == (
        1.0,
        True,
        False,
        "solved",
    ), "at the last turn, too"
    env.reset(options={"task": "count"})
    env.step("true")
    observation, reward, terminated, truncated, info = env.step("submit")
    assert "submit: command not found" in observation, "it is no special word here"
    assert (terminated, truncated, info["ended"]) == (False, True, "turns")
    assert reward == info["score"].reward < 1


# -- info and observation --------------------------------------------------------------------------


def test_equal_episodes_are_equal_in_everything(make: Make) -> None:
    actions = [
        "ls -la /box/../box | tail -3",
        "nosuch",
        "sleep 9 & kill $!; echo; cat /box/c",
        "exit 5",
        "pwd",
        "submit",
    ]

    def played(env: Any) -> list[Any]:
        return [
            env.reset(seed=1, options={"task": "names"}),
            *(env.step(action) for action in actions),
        ]

    assert played(make()) == played(make())


def test_a_long_observation_is_cut_in_the_middle_and_says_so_but_all_of_it_is_scored(
    make: Make,
) -> None:
    env = make("long", view=View(head=20, tail=10))
    observation, *_, info = env.step("seq 5000")
    whole = "".join(f"{number}\n" for number in range(1, 5001))
    assert observation == f"{whole[:20]}\n[… {len(whole) - 30} characters cut …]\n{whole[-10:]}"
    assert info["truncated_output"] is True
    assert env.step("submit")[1] == 1.0
    env.reset(options={"task": "long"})
    assert env.step("seq 1000; echo 1000; seq 1002 5000")[0] == observation, "the two look the same"
    assert env.step("submit")[1] == 0.0
    assert (
        len(make("long", view=View(head=None)).step("head -c 100000 /dev/zero | tr '\\0' x")[0])
        == 100_000
    )


def test_a_time_out_and_a_lost_shell_are_told_in_words_and_info(make: Make) -> None:
    env = make("count", limits=Limits(seconds=0.3))
    observation, *_, info = env.step("word=kept; echo before; sleep 30; echo after")
    assert observation == "before\n[timed out; what the action started was ended]"
    assert (info["timed_out"], info["exit_code"], info["session_lost"]) == (True, None, False)
    assert env.step("echo $word")[0] == "kept\n"
    env.step("cd /box")
    observation, *_, info = env.step("printf bye; exit 7")
    assert observation == "bye\n[the shell ended; a new one starts in /box]"
    assert (info["session_lost"], info["exit_code"]) == (True, 7)
    assert env.step('echo "$(pwd) $word"')[0] == "/box \n"


# -- outcomes --------------------------------------------------------------------------------------


def test_outcomes_show_both_answers_and_the_paths_that_differ(make: Make) -> None:
    answers = {"agent": {"answer": "3\n"}, "gold": {"answer": "3\n"}}
    right = {"failed": [], "rule": "same output", **answers, "paths": []}
    assert make("count", "ls /box | wc -l").step("submit")[4]["outcomes"] == right
    long = make("count", "seq 5000").step("submit")[4]["outcomes"]
    assert (long["failed"], "[… 21993 characters cut …]" in long["agent"]["answer"]) == (
        ["answer"],
        True,
    )
    env = make()
    gold = "echo one > /box/new; printf 'two' > /box/b; rm /box/c; chmod 600 /box/a"
    env.tasks.append(Task("many", "Change the files.", gold))
    env.reset(options={"task": "many"})
    env.step(
        "echo uno > /box/new; echo two > /box/b; chmod 755 /box/a; ln -s /box /box/link; "
        "printf '\\377' > /box/raw"
    )
    outcomes = env.step("submit")[4]["outcomes"]
    env.tasks.pop()
    assert (outcomes["failed"], outcomes["rule"]) == (["files"], "other permissions")
    sides = [(path["path"][5:], path["agent"], path["gold"]) for path in outcomes["paths"]]
    assert sides[:3] == [
        ("a", "modified", "modified"),
        ("b", "modified", "modified"),
        ("c", "untouched", "removed"),
    ]
    assert sides[3:] == [
        ("link", "added", "missing"),
        ("new", "added", "added"),
        ("raw", "added", "missing"),
    ]
    diffs = [path["diff"] for path in outcomes["paths"]]
    header = "--- gold\n+++ agent\n"
    assert diffs[0] == "gold: file 0600\nagent: file 0755\n"
    assert diffs[1] == f"{header}@@ -1 +1 @@\n-two\n\\ No newline at end of file\n+two\n"
    assert diffs[2] == f"{header}@@ -0,0 +1 @@\n+plum ünd €\n"
    assert (diffs[4], diffs[5]) == (f"{header}@@ -1 +1 @@\n-one\n+uno\n", "")


def test_outcomes_say_what_only_one_side_modified(make: Make) -> None:
    env = make()
    env.tasks.append(Task("mode", "Change the mode.", "chmod 600 /box/a"))
    env.reset(options={"task": "mode"})
    env.step("chmod 755 /box/b; seq 25 | xargs -I{} touch /box/n{}")
    outcomes = env.step("submit")[4]["outcomes"]
    env.tasks.pop()
    sides = [(path["agent"], path["gold"], path["diff"]) for path in outcomes["paths"][:2]]
    assert sides[0] == ("untouched", "modified", "gold: file 0600\n")
    assert sides[1] == ("modified", "untouched", "agent: file 0755\n")
    assert (len(outcomes["paths"]), outcomes["paths_total"]) == (20, 27)


def test_outcomes_of_a_general_task_that_fails_on_variant_data_are_of_these(make: Make) -> None:
    sides = {"agent": {"answer": "apple\n"}, "gold": {"answer": "quince\n"}}
    assert make("first", "echo apple").step("submit")[4]["outcomes"] == {
        "failed": ["robust"],
        "rule": "wrong on other data: other lines",
        **sides,
        "paths": [],
    }


def test_under_the_papers_protocol_the_end_alone_has_outcomes(make: Make) -> None:
    env = make("count", protocol="paper", max_turns=2)
    assert "outcomes" not in env.step("echo wrong words")[4]
    assert env.step("echo 4")[4]["outcomes"]["failed"] == ["answer"], "at the last turn"
    env.reset(options={"task": "count"})
    assert env.step("ls /box | wc -l")[4]["outcomes"]["failed"] == []


# -- second contents and rewards of one's own ------------------------------------------------------


def test_an_answer_that_holds_elsewhere_is_robust_and_a_constant_one_is_not(make: Make) -> None:
    solved = {"files": 1.0, "answer": 1.0, "robust": 1.0}
    assert make("first", "cd /box", "cat a").step("submit")[4]["score"] == Score(1.0, True, solved)
    for how in ({}, {"reward": "paper"}, {"protocol": "paper"}):
        env = make("first", **how)
        step = env.step("echo apple")
        score = (step if "protocol" in how else env.step("submit"))[4]["score"]
        assert (score.success, score.parts["robust"], score.reward < 1) == (False, 0.0, True), how
    score = make("count", "echo 3").step("submit")[4]["score"]
    assert (score.success, "robust" in score.parts) == (True, False), "the task is not general"


NO_COMMANDS = [
    "Answer: 3",
    "done",
    "| a |\n|---|\n| 3 |",
    "Это ответ",
    "It's 3",
    "/srv/n: 3",
    "- 3",
    "/etc/passwd",
    "/srv",
    "cat /srv/n | wc -l && submit",
    "cat /srv/n | wc -l\nsubmit\n",
    "cat /srv/n | wc -l\nThat is all.",
    "submit;",
    "Submit",
    "submit\ncat /srv/n | wc -l",
]


def test_a_text_that_bash_cannot_execute_leaves_the_answer_as_it_was(tmp_path: Path) -> None:
    data = tmp_path / "tasks.jsonl"
    setup = "printf 'a\\nb\\nc\\n' >/srv/n"
    gold = "wc -l </srv/n"
    data.write_text(
        json.dumps({"query": "Count.", "gold": gold, "setup": f"mkdir -p /srv; {setup}"})
    )
    with closing(intercode.make("bash", data=str(data))) as env:
        for action in NO_COMMANDS:
            env.reset(options={"task": "0"})
            env.step("cat /srv/n | wc -l")
            observation = env.step(action)[0]
            assert ("action of its own" in observation) == ("submit" in action.lower()), action
            assert env.step("submit")[1] == 1, action
            env.reset(options={"task": "0"})
            env.step("echo 4")
            env.step(action)
            assert env.step("submit")[1] == (1 if "wc" in action else 0), action
    with closing(intercode.make("bash", data=str(data), protocol="paper")) as env:
        env.reset(options={"task": "0"})
        observation = env.step("nothing-like-this\nsubmit")[0]
        assert "action of its own" not in observation
