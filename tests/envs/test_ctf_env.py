"""What a CTF environment answers: submissions and their limit, files of one task only, tasks that
are left out, forks."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kept import kept, needs_bwrap
from orchard import Pool

import intercode
from intercode.envs.ctf.challenges import survey
from intercode.errors import DataError, ForkError, UsageError
from intercode.types import Score, Task
from intercode.validate.check import check, check_texts
from intercode_sandbox.base import Limits

Make = Callable[..., Any]
TASKS: list[dict[str, Any]] = [
    {"id": "box", "query": "Open the file /ctf/a/letter.", "gold": "tag{Wide Open}"},
    {
        "id": "find",
        "query": "Read the file.",
        "gold": "echo looking; rev turned",
        "gold_is": "script",
    },
    {"id": "number", "query": "What is 0x2A in decimal? Answer tag{n}.", "gold": "tag{42}"},
]
WANTING: list[dict[str, Any]] = [
    {"id": "far", "query": "Ask the host at nc vault.example.net 4000.", "gold": "tag{far}"},
    {
        "id": "got",
        "query": "What is 0x10?",
        "gold": "tag{got}",
        "setup": "wget https://files.example.net/x.img",
    },
    {"id": "gone", "query": "Find what is hidden in lost.bin.", "gold": "tag{gone}"},
    {"id": "bare", "query": "What is 0x10 in decimal?", "gold": "16"},
]


def write(folder: Path, tasks: list[dict[str, Any]]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    return folder


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder: assets in folders for two tasks."""
    needs_bwrap()
    folder = write(tmp_path_factory.mktemp("vault"), [*TASKS, *WANTING])
    letters = folder / "assets" / "box" / "a"
    letters.mkdir(parents=True)
    (letters / "letter").write_text("nothing\n")
    (letters / "run").write_text("echo ran\n")
    (letters / "run").chmod(0o755)
    (folder / "assets" / "find").mkdir()
    (folder / "assets" / "find" / "turned").write_text("}detnuh{gat\n")
    return folder


@pytest.fixture(scope="module")
def vaults(vault: Path) -> Iterator[Pool]:
    prepare = kept("ctf", vault)
    with closing(Pool(lambda **options: prepare(**options)())) as made:
        yield made


@pytest.fixture
def make(vaults: Pool) -> Make:
    return vaults.lent()


# -- submissions -----------------------------------------------------------------------------------


def test_the_flag_ends_the_episode_with_reward_1_and_a_wrong_one_with_0(make: Make) -> None:
    observation, reward, terminated, truncated, info = make("box").step(
        "submit   tag{Wide Open}  \r\n"
    )
    assert (observation, reward, terminated, truncated) == ("", 1.0, True, False)
    assert (info["score"], info["ended"]) == (Score(1.0, True, {"flag": 1.0}), "submit")
    observation, reward, terminated, _, info = make("box").step("submit tag{wrong}")
    assert (observation, reward, terminated) == ("That is not the flag.", 0.0, True)
    assert info["score"] == Score(0.0, False, {"flag": 0.0})
    assert info["outcomes"] == {"failed": ["flag"], "agent": {"submitted": "tag{wrong}"}}


def test_several_wrong_flags_may_be_allowed_and_cost_a_turn_each(make: Make) -> None:
    env = make("box", submits=3, max_turns=4)
    for left in (2, 1):
        observation, reward, terminated, _, info = env.step(f"submit tag{{{left}}}")
        assert (observation, reward, terminated) == (
            f"That is not the flag. Submissions left: {left}.",
            0.0,
            False,
        )
        assert "score" not in info
    assert (env.turn, env.step("echo still here")[0]) == (2, "still here\n")
    assert env.step("submit tag{0}")[2] is True
    with pytest.raises(UsageError, match="over"):
        env.step("submit tag{Wide Open}")
    env.reset(options={"task": "box"})
    assert env.step("submit tag{no}")[2] is False, "the count begins anew with the episode"
    assert env.step("submit tag{Wide Open}")[1:3] == (1.0, True)


def test_nothing_but_the_flag_itself_is_right(make: Make) -> None:
    wrong = (
        "",
        "tag{wide open}",
        "'tag{Wide Open}\"",
        "''",
        "Wide Open",
        "tag{Wide  Open}",
        "tag{Wide Open} x",
    )
    quoted = ("'tag{Wide Open}'", '"tag{Wide Open}"', " ' tag{Wide Open}'")
    quoted += ("tag{Wide Open}.", "tag{Wide Open};", "tag{Wide Open} # found", "**tag{Wide Open}**")
    for words, options, earned in (
        (wrong, {}, 0),
        (quoted, {}, 1),
        (("TAG{wide OPEN}",), {"reward": "paper"}, 1),
    ):
        env = make(**options)
        for word in words:
            env.reset(options={"task": "box"})
            assert env.step(f"submit {word}")[1] == earned, word
    env = make("box")
    env.step("echo 'tag{Wide Open}' >f")
    for action in ("submit $(cat f)", "submit `cat f`"):
        observation, _, ended, _, _ = env.step(action)
        assert "Nothing in the answer" in observation
        assert not ended
    assert env.step("submit `tag{Wide Open}`")[1] == 0, "Bash would take it for a command"
    env = make("box")
    for action in (
        "submit tag{Wide Open}\nls",
        "echo submit tag{Wide Open}",
        "submitted tag{Wide Open}",
    ):
        assert env.step(action)[1:3] == (0.0, False), "only a line of its own submits"


def test_under_the_papers_protocol_any_number_of_flags_is_scored(make: Make) -> None:
    env = make("box", protocol="paper")
    for _ in range(3):
        assert env.step("submit tag{no}")[:3] == ("That is not the flag.", 0.0, False)
        assert env.step("ls a")[:3] == ("letter\nrun\n", 0.0, False)
    _, reward, terminated, _, info = env.step("submit TAG{wide open}")
    assert (reward, terminated, info["ended"]) == (1.0, True, "solved")


# -- a task's files --------------------------------------------------------------------------------


def test_the_shell_starts_among_the_tasks_own_files(make: Make) -> None:
    """Which the agent may change and remove."""
    for session in ("persistent", "stateless"):
        env = make(session=session)
        for task, listed in (
            ("box", "a/letter\na/run"),
            ("find", "turned"),
            ("number", ""),
            ("box", "a/letter\na/run"),
        ):
            env.reset(options={"task": task})
            assert env.step("pwd; find . -type f -printf %P. | tr . '\\n' | sort")[0].split() == [
                "/ctf",
                *listed.split(),
            ]
            env.step("touch mine; mkdir -p /ctf/a; echo changed > a/letter")
        assert env.step("ls /dev/shm")[0] == ""
        env.reset(options={"task": "box"})
        assert env.step("a/run; stat -c %a a/letter")[0] == "ran\n644\n"


def test_solutions_among_the_assets_never_reach_the_agent(tmp_path: Path) -> None:
    """In a folder and in a tar; folders with nothing else have no assets."""
    needs_bwrap()
    given = ["code/resolution.txt", "flag.enc"]
    secret = ["solution/README.md", "code/Solution.py", "write-ups/a/b", "walkthrough.txt"]
    tasks = [{"id": id, "query": "Open flag.enc.", "gold": "tag{x}"} for id in ("f", "t", "e")]
    data = write(tmp_path / "data", tasks)
    for name in (*given, *secret):
        file = data / "assets" / "f" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("tag{x}" if name in secret else name)
    with tarfile.open(data / "assets" / "t.tar", "w") as tar:
        tar.add(data / "assets" / "f", ".")
    (data / "assets" / "e" / "solution").mkdir(parents=True)
    (data / "assets" / "e" / "solution" / "README.md").write_text("tag{x}")
    (data / "assets" / "e" / ".placeholder").touch()
    factory = intercode.prepare("ctf", data=str(data))
    assert list(factory.facts()["left_out"]) == ["e"]
    with factory() as env:
        for id in ("f", "t"):
            env.reset(options={"task": id})
            assert env.step("find . -type f -printf '%P\\n' | sort")[0].split() == given
            assert env.step("grep -r 'tag{' .")[0] == ""
    for part in (check_texts("ctf", data=str(data)), check(factory, factory.tasks)):
        found = {row["task"]: row["why"] for row in part["suspicious"] if row["kind"] == "solution"}
        assert set(found) == {"f", "t"}
        assert all("solution, walkthrough.txt, write-ups" in why for why in found.values())


# -- golds -----------------------------------------------------------------------------------------


def test_a_scripts_last_line_is_the_flag(make: Make) -> None:
    assert make("find").step("submit tag{hunted}")[1] == 1.0
    assert make("find").step("submit echo looking; rev turned")[1] == 0.0


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"gold": "cat nosuch", "gold_is": "script"}, "task x: .*status 1"),
        ({"gold": "true", "gold_is": "script"}, "task x: .*nothing"),
        ({"gold": "sleep 30", "gold_is": "script"}, "task x: .*out of time"),
        ({"gold": "1", "gold_is": "riddle"}, r"task x: .*'riddle'.*flag, script"),
    ],
)
def test_a_gold_that_finds_nothing_is_the_datas_fault(
    tmp_path: Path, fields: dict[str, Any], words: str
) -> None:
    data = write(tmp_path, [{"id": "x", "query": "What is 0x1?", **fields}])
    with (
        pytest.raises(DataError, match=words),
        intercode.make("ctf", data=str(data), limits=Limits(seconds=0.5)) as env,
    ):
        env.reset()


# -- tasks that cannot be played -------------------------------------------------------------------


def test_tasks_that_cannot_be_played_are_left_out_and_listed(vault: Path, tmp_path: Path) -> None:
    factory = intercode.prepare("ctf", data=str(vault))
    assert [task.id for task in factory.tasks] == ["box", "find", "number"]
    left_out = factory.facts()["left_out"]
    assert list(left_out) == ["far", "got", "gone", "bare"]
    words = ("nc vault.example.net", "files.example.net", "'lost.bin'", "form …{…}")
    assert all(word in why for word, why in zip(words, left_out.values(), strict=True))
    assert len(intercode.prepare("ctf", data=str(vault), limit=2).tasks) == 2, (
        "a limit counts before"
    )
    words = r"none of 3 tasks can be played here: .*\(1: far\); .*lost\.bin.* --assets DIR"
    with pytest.raises(UsageError, match=words):
        intercode.prepare("ctf", data=str(write(tmp_path / "none", WANTING[:3])))


@pytest.mark.parametrize(
    ("golds", "odd"),
    [
        (["flag{a}", "flag{b}", "flag{c}", "other{d}"], []),
        (["flag{a}", "key{b c}", "Odd CTF{{d}}", "CSAW{e}"], []),
        (["flag{a}", "flag{b}", "hunter2", "letmein"], []),
        (["1f", "2e", "3d"], []),
        (["flag{a}", "other{b}", "hunter2", "flag{c}"], ["hunter2"]),
        (["flag{a}", "flag{b", "hunter2", "flag c}"], ["flag{b", "flag c}"]),
        (["flag{a}", "plain"], []),
    ],
)
def test_a_set_has_its_own_forms_of_flags_and_a_damaged_flag_is_odd(
    golds: list[str], odd: list[str]
) -> None:
    tasks = [Task(str(n), "What is 0x1?", gold) for n, gold in enumerate(golds)]
    challenges = survey(tasks, None)
    assert [task.gold for task in tasks if challenges[task.id].gold] == odd


# -- forks, leaks ----------------------------------------------------------------------------------


def test_a_fork_has_the_files_and_as_many_submissions_left(make: Make) -> None:
    """Live, or by replay where a job runs."""
    for job in ("", "sleep 100 & "):
        env = make("box", submits=2)
        env.step(f"cd a; {job}x=7; rm run")
        env.step("submit no")
        if job:
            with pytest.raises(ForkError, match="process"):
                env.fork()
        with env.fork(replay=bool(job)) as twin:
            assert twin.step("pwd; echo $x; ls")[0] == "/ctf/a\n7\nletter\n"
            assert twin.step("submit no")[2] is True
        assert env.step("submit tag{Wide Open}")[1:3] == (1.0, True)


def test_the_flag_is_in_no_info_and_no_observation_before_it_is_found(make: Make) -> None:
    env = make(submits=2)
    seen = [
        env.reset(options={"task": "find"}),
        env.step("env; set; cat /proc/*/environ /proc/*/cmdline"),
        env.step("submit x"),
    ]
    assert "hunted" not in repr(seen)


def test_the_value_tells_whether_the_agent_has_seen_the_flag(make: Make) -> None:
    env = make("number")
    for action, value in (
        ("echo tag{42}", 1.0),
        ("true", 0.0),
        ("seq -f 'tag{%g}' -5000 5000", 0.0),
        ("echo TAG{42}", 0.0),
    ):
        env.step(action)
        assert env.value() == value
