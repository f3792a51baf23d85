"""Rounds: what counts in each, when the next one begins, and what an episode of several earns."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap

import intercode
from intercode.agents import gold, noop
from intercode.errors import DataError, ForkError
from intercode.runner.budget import BudgetTracker
from intercode.runner.episode import play
from intercode.validate.check import check, check_texts

SETUP = "mkdir -p /srv/app; printf 'port=80\\nlog=no\\n' >/srv/app/conf; echo x >/srv/app/keep"
CONF: dict[str, Any] = {
    "setup": SETUP,
    "rounds": [
        {
            "query": "Set the port in /srv/app/conf to 8080.",
            "gold": "sed -i s/=80$/=8080/ /srv/app/conf",
        },
        {"query": "Also add the line host=db.", "gold": "echo host=db >>/srv/app/conf"},
        {
            "query": "No, the port should be 9090. Write it into /srv/app/port, too.",
            "gold": "sed -i s/8080/9090/ /srv/app/conf; echo 9090 >/srv/app/port",
            "changes": [1],
        },
        {
            "query": "How many lines does /srv/app/conf have? Print the number.",
            "gold": "wc -l </srv/app/conf",
        },
    ],
}
GOLDS = [entry["gold"] for entry in CONF["rounds"]]
Make = Callable[..., Any]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    needs_bwrap()
    with ExitStack() as stack:

        def build(*records: dict[str, Any], env: str = "bash", **options: Any) -> Any:
            file = tmp_path / "tasks.jsonl"
            file.write_text("".join(json.dumps(record) + "\n" for record in records))
            made = intercode.make(env, data=str(file), max_turns=None, **options)
            stack.callback(made.close)
            return made

        yield build


def played(env: Any, *rounds: str, task: int = 0) -> tuple[list[bool], dict[str, Any]]:
    """Play one action and a submission for each round. Return which rounds were solved, and the
    `info` of the last step."""
    env.reset(options={"task": task})
    info: dict[str, Any] = {}
    for action in rounds:
        if action:
            env.step(action)
        info = env.step("submit")[4]
        if "ended" in info:
            break
    return [row["success"] for row in info["outcomes"]["rounds"]], info


def demands(info: dict[str, Any]) -> list[str]:
    """Return, for each round, the numbers of the demands that do not hold."""
    broken = []
    for row in info["outcomes"]["rounds"]:
        names = [name for name, holds in row["demands"].items() if not holds]
        broken.append("".join(sorted(name.removeprefix("round ") for name in names)))
    return broken


# -- what counts in a round ------------------------------------------------------------------------

WAYS: list[tuple[Sequence[str], str, Sequence[str]]] = [
    (GOLDS, "1111", ["", "", "", ""]),
    (["", "", "", ""], "0000", ["1", "12", "23", "234"]),
    # another way to the same files
    (["printf 'port=8080\nlog=no\n' >/srv/app/conf", *GOLDS[1:]], "1111", ["", "", "", ""]),
    # round 1 is left out; round 3, which changes it, makes that good
    (["", GOLDS[1], "sed -i s/=80$/=9090/ /srv/app/conf; echo 9090 >/srv/app/port", GOLDS[3]],
     "0011", ["1", "1", "", ""]),
    # round 2 is left out: nobody else's demand is lost, but the file is not what was asked for
    ([GOLDS[0], "", *GOLDS[2:]], "1000", ["", "2", "2", "24"]),
    # the file is written anew with the last request alone
    ([GOLDS[0], "echo host=db >/srv/app/conf", *GOLDS[2:]], "1000", ["", "1", "3", "34"]),
    # round 2 alone is done last
    ([GOLDS[0], "", GOLDS[2], f"{GOLDS[1]}; {GOLDS[3]}"], "1001", ["", "2", "2", ""]),
    # an untouched file is deleted
    ([f"{GOLDS[0]}; rm /srv/app/keep", *GOLDS[1:]], "0000", ["1", "", "", "4"]),
    ([f"{GOLDS[0]}; rm /srv/app/keep", f"{GOLDS[1]}; echo x >/srv/app/keep", *GOLDS[2:]], "0111",
     ["1", "", "", ""]),
    ([GOLDS[0], GOLDS[1], GOLDS[2], "echo 4"], "1110", ["", "", "", "4"]),
]  # fmt: skip


def test_all_demands_that_are_alive_count_and_nothing_else_may_change(make: Make) -> None:
    env = make(CONF)
    for actions, expected, broken in WAYS:
        solved, info = played(env, *actions)
        assert "".join(str(int(success)) for success in solved) == expected, actions
        assert demands(info) == broken, actions
        score = info["score"]
        assert score.reward == expected.count("1") / 4, actions
        assert score.success is (expected == "1111"), actions


TESTED = {
    "rounds": [
        {"query": "Write one.", "verify": "grep one /srv/text", "gold": "echo one >/srv/text"},
        {"query": "And two.", "verify": "grep two /srv/text", "gold": "echo two >>/srv/text"},
        {
            "query": "Replace one by three.",
            "verify": "grep three /srv/text",
            "gold": "sed -i s/one/three/ /srv/text",
            "changes": [1],
        },
    ],
}  # fmt: skip


def test_tests_of_earlier_rounds_run_again_until_a_round_changes_them(make: Make) -> None:
    one, three = "echo one >/srv/text", "sed -i s/one/three/ /srv/text"
    two_alone, three_more = "echo two >/srv/text", "echo three >>/srv/text"
    for rule, actions, expected, broken in (
        ("alive", [one, "echo two >>/srv/text", three], "111", ["", "", ""]),
        ("alive", [one, two_alone, three_more], "101", ["", "1", ""]),
        ("alive", [one, "", three], "100", ["", "2", "2"]),
        ("own", [one, "", three], "101", ["", "2", ""]),
        ("own", [one, two_alone, three_more], "111", ["", "", ""]),
    ):  # fmt: skip
        env = make({**TESTED, "rounds_rule": rule})
        solved, info = played(env, *actions)
        assert "".join(str(int(success)) for success in solved) == expected, actions
        assert demands(info) == broken, (rule, actions)


DEFINED = {
    "rounds": [
        {
            "query": "Write double(n).",
            "tests": ["assert double(2) == 4"],
            "gold": "def double(n): return 2 * n",
        },
        {
            "query": "Write four(n) with it.",
            "tests": ["assert four(2) == 8"],
            "gold": "def four(n): return double(double(n))",
        },
    ]
}


def test_python_goes_on_with_what_was_defined(make: Make) -> None:
    env = make(DEFINED, env="python")
    assert env.run_gold(env.tasks[0]).faults == ()
    define = "def double(n): return n + n"
    four = "def four(n): return 4 * n"
    assert played(env, define, four)[0] == [True, True]
    assert played(env, define, f"{four}\ndef double(n): return n")[0] == [True, False]
    episode = play(env, env.tasks[0], gold, None, BudgetTracker())
    assert (episode.reward, episode.success) == (1.0, True)


SHOP = """
CREATE TABLE item (name TEXT, price INTEGER);
INSERT INTO item VALUES ('pear', 3), ('plum', 4), ('fig', 9);
"""
REPORT = {
    "rounds": [
        {
            "query": "Make a table report with name and price of the items under 5.",
            "gold": "CREATE TABLE report AS SELECT name, price FROM item WHERE price < 5",
        },
        {
            "query": "Pears cost 2 now, in the report too.",
            "gold": [
                "UPDATE item SET price = 2 WHERE name = 'pear'",
                "UPDATE report SET price = 2 WHERE name = 'pear'",
            ],
            "changes": [1],
        },
        {
            "query": "Add figs to the report.",
            "gold": "INSERT INTO report SELECT name, price FROM item WHERE name = 'fig'",
        },
        {"query": "Which prices does the report have?", "gold": "SELECT price FROM report"},
    ]
}


def test_a_database_goes_on_and_its_rows_are_demands(make: Make, tmp_path: Path) -> None:
    (tmp_path / "databases").mkdir()
    with closing(sqlite3.connect(tmp_path / "databases" / "shop.sqlite")) as connection:
        connection.executescript(SHOP)
    env = make(REPORT, env="sql", databases=str(tmp_path / "databases"))
    assert env.run_gold(env.tasks[0]).faults == ()
    rounds: list[Any] = REPORT["rounds"]
    first, _, third, fourth = (entry["gold"] for entry in rounds)
    update = ";".join(rounds[1]["gold"])
    for actions, expected, broken in (
        ([first, update, third, fourth], "1111", ["", "", "", ""]),
        ([first, rounds[1]["gold"][0], third, fourth], "1000", ["", "2", "2", "24"]),
        ([first, update, f"DELETE FROM report; {third}", fourth], "1100", ["", "", "23", "24"]),
        ([first, update, f"{third}; DELETE FROM item", fourth], "1100", ["", "", "23", "24"]),
        ([first, update, third, "SELECT 1"], "1110", ["", "", "", "4"]),
    ):
        solved, info = played(env, *actions)
        assert "".join(str(int(success)) for success in solved) == expected, actions
        if "DELETE" not in actions[2]:
            assert demands(info) == broken, actions
    episode = play(env, env.tasks[0], noop, None, BudgetTracker())
    assert (episode.reward, episode.success, len(episode.turns)) == (0.0, False, 4)


# -- when the next round begins, and what an episode earns -----------------------------------------


def test_what_leads_to_the_next_round_and_what_it_earns(make: Make) -> None:
    right = GOLDS
    two_wrong = [GOLDS[0], "", *GOLDS[2:]]
    late = [GOLDS[1], f"{GOLDS[0]}; {GOLDS[2]}", GOLDS[3]]
    for fields, actions, rounds, reward, success in (
        ({}, two_wrong, 4, 0.25, False),
        ({"go_on": "solved"}, two_wrong, 2, 0.25, False),
        ({"go_on": "solved"}, right, 4, 1.0, True),
        ({"go_on": 0.5}, two_wrong, 2, 0.25, False),
        ({"rounds_reward": "reached", "go_on": "solved"}, two_wrong, 2, 0.5, False),
        ({"rounds_reward": "last"}, two_wrong, 4, 0.0, False),
        ({"rounds_reward": "last"}, ["", *late], 4, 1.0, True),
        ({"rounds_reward": [0.4, 0.3, 0.2, 0.1]}, right, 4, 1.0, True),
        ({"rounds_reward": [0.4, 0.3, 0.2, 0.1]}, two_wrong, 4, 0.4, False),
    ):  # fmt: skip
        env = make({**CONF, **fields})
        env.reset(options={"task": 0})
        earned, ended = 0.0, False
        for action in actions:
            if action:
                env.step(action)
            observation, gained, ended, _, info = env.step("submit")
            earned += gained
            if ended:
                break
            assert "The user goes on:\n\n" in observation
        assert ended
        assert len(info["outcomes"]["rounds"]) == rounds, fields
        assert (info["score"].reward, info["score"].success) == (reward, success), fields
        assert earned == pytest.approx(reward), fields
        episode = play(env, env.tasks[0], _acting(actions), None, BudgetTracker())
        assert (episode.reward, episode.success) == (reward, success), fields
        assert len(episode.outcomes["rounds"]) == rounds


def _acting(actions: Sequence[str]) -> Any:
    def strategy(task: Any, protocol: str) -> Any:
        for action in actions:
            yield intercode.agents.Act(action or "true")
            yield intercode.agents.Act("submit")

    return strategy


def test_the_last_round_that_has_not_begun_earns_nothing(make: Make) -> None:
    env = make({**CONF, "rounds_reward": "last", "go_on": "solved"})
    env.reset(options={"task": 0})
    env.step(GOLDS[0])
    assert env.step("submit")[1] == 0
    assert env.step("submit")[4]["score"].reward == 0  # the second round is not solved


def test_an_answer_counts_in_its_round_only(make: Make) -> None:
    rounds = [
        {"query": "How many lines has /srv/app/conf?", "gold": "wc -l </srv/app/conf"},
        {"query": "How many of its lines have an o?", "gold": "grep -c o /srv/app/conf"},
    ]
    env = make({"setup": SETUP, "rounds": rounds})
    for actions, success in ((["submit"], False), (["grep -c o /srv/app/conf", "submit"], True)):
        env.reset(options={"task": 0})
        for action in ("wc -l </srv/app/conf", "submit", *actions):
            *_, info = env.step(action)
        assert info["score"].success is success


def test_what_a_gold_demanded_counts_where_tests_decide_later(make: Make) -> None:
    tested = {
        "query": "Write two to /srv/b.",
        "verify": "grep -q two /srv/b",
        "gold": "echo two >/srv/b",
    }
    env = make({"setup": SETUP, "rounds": [CONF["rounds"][0], tested]})
    for action, success in (
        ("echo two >/srv/b", True),
        ("sed -i s/8080/80/ /srv/app/conf; echo two >/srv/b", False),
    ):
        env.reset(options={"task": 0})
        for step in (GOLDS[0], "submit", action, "submit"):
            *_, info = env.step(step)
        assert info["score"].success is success
        assert info["score"].parts["round 1"] == success


def test_a_name_that_was_submitted_is_tested_again(make: Make) -> None:
    env = make(DEFINED, env="python")
    env.reset(options={"task": 0})
    for step in (
        "def twice(n): return n + n",
        "submit twice",
        "def four(n): return 4 * n",
        "submit four",
    ):
        *_, info = env.step(step)
    assert info["score"].success


def test_several_submissions_belong_to_a_round(make: Make) -> None:
    env = make(DEFINED, env="python", submits=2)
    env.reset(options={"task": 0})
    env.step("def double(n): return n")
    assert env.step("submit")[0].endswith("Submissions left: 1.")
    env.step("def double(n): return n + n")
    assert env.step("submit")[:2] == ("The user goes on:\n\nWrite four(n) with it.", 0.5)
    for _ in range(2):
        _, gained, ended, _, _ = env.step("submit")
    assert (gained, ended) == (0, True)


# -- in the middle of an episode -------------------------------------------------------------------


def test_values_and_forks_work_in_a_later_round(make: Make) -> None:
    env = make(CONF)
    env.reset(options={"task": 0})
    for action in (GOLDS[0], "submit", GOLDS[1], "submit"):
        env.step(action)
    assert env.value() == 0.5
    env.step(GOLDS[2])
    assert env.value() == 0.75
    for fork in (env.fork(), env.fork(replay=True)):
        with closing(fork):
            assert fork.step("submit")[0].startswith("The user goes on:\n\nHow many")
            fork.step("wc -l </srv/app/conf")
            assert fork.step("submit")[4]["score"].success
    env.step("rm /srv/app/keep")
    assert env.value() == 0.5
    env.step("sleep 100 &")
    with pytest.raises(ForkError):
        env.fork()


# -- data ------------------------------------------------------------------------------------------


def test_check_names_the_round(make: Make) -> None:
    late = {**CONF["rounds"][2], "gold": "cat /srv/app/lost"}
    idle = {**CONF["rounds"][3], "query": "Print nothing.", "gold": "true"}
    first, second, third, fourth = CONF["rounds"]
    records = [
        {**CONF, "id": "sound"},
        {**CONF, "id": "fails", "rounds": [first, second, late, fourth]},
        {**CONF, "id": "idle", "rounds": [first, second, third, idle]},
    ]
    env = make(*records)
    report = check(lambda: make(*records), env.tasks)
    whys = [(row["task"], row["why"]) for row in (*report["broken"], *report["suspicious"])]
    told = {id: " | ".join(why for task, why in whys if task == id) for id in ("sound", "fails")}
    assert report["gold_ok"] == 2
    assert "round 3: gold ends with status 1" in told["fails"]
    assert ("idle", "round 4 succeeds without its gold") in whys
    assert not any("without its gold" in why for task, why in whys if task == "sound")


def test_mistakes_are_the_datas_fault(make: Make) -> None:
    first, second, *_ = CONF["rounds"]
    for fields, why in (
        ({"rounds": {"query": "q"}}, "not a list of one or more objects"),
        ({"rounds": []}, "not a list of one or more objects"),
        ({"rounds": [first, 5]}, "not a list of one or more objects"),
        ({"rounds": [first, {**second, "rounds": [second]}]}, "round 2: field 'rounds' is"),
        ({"rounds": [first, {**second, "rounds_reward": "last"}]}, "only these in a round: .*gold"),
        ({"rounds": [first, {**second, "setup": "true"}]}, "round 2: field 'setup' is 'true'"),
        ({"rounds": [first, {**second, "cwd": "/srv"}]}, "'cwd'.*others next to 'rounds'"),
        ({"rounds": [first, {**second, "chagnes": [1]}]}, "round 2: field 'chagnes'"),
        ({"rounds": [first, {**second, "files_count": False}]}, "round 2: field 'files_count'"),
        ({"files_count": False}, "in rounds all files count"),
        ({"changes": [1]}, "round 1: field 'changes' is .1.; write a list of numbers of earlier"),
        ({"rounds": [first, {**second, "changes": [2]}]}, "round 2: field 'changes'"),
        ({"rounds": [first, {**second, "go_on": "maybe"}]}, "write 'always', 'solved' or a number"),
        ({"rounds": [first, {"query": "And?"}]}, "field 'gold' is missing"),
        ({"rounds_rule": "mine"}, "field 'rounds_rule' is 'mine'; write 'alive' or 'own'"),
        ({"rounds_reward": "sum"}, "field 'rounds_reward'"),
        ({"rounds_reward": [1.0]}, "a list of 4 numbers"),
        ({"rounds_reward": [1, 1, 1, -1]}, "a list of 4 numbers of at least 0"),
        ({"rounds_reward": [1.0, None, 0.0, 0.0]}, "field 'rounds_reward'"),
        ({"rounds": [first, {**second, "changes": [[1]]}]}, "round 2: field 'changes'"),
    ):
        with pytest.raises(DataError, match=why):
            make({**CONF, **fields})
    late = {**TESTED["rounds"][1], "verify_seconds": "soon"}
    with pytest.raises(DataError, match="verify_seconds' is 'soon'; write a positive number"):
        make({**TESTED, "rounds": [TESTED["rounds"][0], late]})


def test_null_is_as_absent_and_without_rounds_their_fields_have_no_effect(make: Make) -> None:
    empty = dict.fromkeys(("rounds_rule", "rounds_reward", "go_on", "changes", "cwd"))
    rounds = [{**entry, **empty} for entry in CONF["rounds"][:2]]
    env = make({**CONF, **empty, "rounds": rounds})
    assert played(env, *GOLDS[:2])[0] == [True, True]
    stray = {"rounds": None, "changes": "many", "rounds_reward": ["much"], "go_on": {}}
    env = make({**CONF["rounds"][0], "setup": SETUP, **stray})
    env.reset(options={"task": 0})
    env.step(GOLDS[0])
    assert env.step("submit")[4]["score"].reward == 1


def test_a_later_query_need_not_name_again_what_an_earlier_one_names(
    make: Make, tmp_path: Path
) -> None:
    again = {"query": "No, to 9090.", "gold": "sed -i s/8080/9090/ /srv/app/conf"}
    other = {"query": "Log as well.", "gold": "sed -i s/no/yes/ /data/lost/conf"}
    make({"setup": SETUP, "rounds": [CONF["rounds"][0], again, other]})
    report = check_texts("bash", data=str(tmp_path / "tasks.jsonl"))
    whys = [row["why"] for row in report["suspicious"]]
    assert [why for why in whys if "gold names" in why] == [
        "gold names /data/lost/conf, which the query does not"
    ]
