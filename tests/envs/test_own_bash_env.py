"""A Bash environment of the user's own: a subclass in a file says its world and its reward, a
record its image and setup."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap

import intercode
from intercode.errors import DataError, EntryLeftOut, ForkError, UsageError
from intercode.types import Score

Own = Callable[..., str]
SERVICE = """
    setsid bash -c \
'until read -r line < /dev/shm/service; do :; done; exec sleep 300' > /dev/null 2>&1 &
    mkfifo /dev/shm/service; echo go > /dev/shm/service; echo one > /dev/shm/held
    until grep -qs sleep /proc/$!/comm; do kill -0 $! || exit; done
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Own]:
    """Writes a module with the class `Own` and its task file; the name for `make`. The working
    folder is another."""
    needs_bwrap()
    folder = tmp_path / "theirs"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(tmp_path)

    def write(body: str, *tasks: dict[str, Any], **files: str) -> str:
        top = (
            "from intercode import BashEnv, Score\n\n\nclass Own(BashEnv):\n"
            "    data = 'tasks.jsonl'\n"
        )
        (folder / "own_module.py").write_text(top + textwrap.indent(textwrap.dedent(body), "    "))
        (folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
        for name, text in files.items():
            (folder / name).write_text(text)
        return "own_module:Own"

    yield write
    sys.modules.pop("own_module", None)


@pytest.fixture
def made() -> Iterator[Callable[..., Any]]:
    with ExitStack() as stack:
        yield lambda name, **options: stack.enter_context(intercode.make(name, **options))


def task(**fields: Any) -> dict[str, Any]:
    return {"query": "Print what /who holds.", "gold": "cat /who", **fields}


def played(env: Any, *actions: str, task: int | str = 0) -> Any:
    """The last step's score."""
    env.reset(options={"task": task})
    for action in actions:
        _, _, _, _, info = env.step(action)
    return info["score"]


def test_paths_start_at_the_folder_of_the_class_and_the_caller_goes_first(
    own: Own, made: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "other.sh").write_text("echo you > /who")
    name = own("setup = 'setup.sh'", task(), **{"setup.sh": "echo me > /who"})
    for options, who in (({}, "me\n"), ({"setup": "other.sh"}, "you\n")):
        env = made(name, **options)
        assert env.reset(seed=0)[0] == "Print what /who holds."
        assert env.step("cat /who")[0] == who


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("data = 'far.jsonl'", "Own says data = 'far.jsonl', but there is no /.*/theirs/far.jsonl"),
        ("tree = 'far'", "Own says tree = 'far', but there is no /.*/theirs/far"),
        ("sandbox = 'dokcer'", "no sandbox named 'dokcer'; there are local, docker"),
        ("start = ['a']", "Own says start = .*, but start is Bash, as text"),
        ("setup = 'a\\0b'", "Own says setup = .*, but setup is a path"),
        ("reward = 0.5", "Own says reward = .*, but reward is a method"),
    ],
)
def test_a_wrong_attribute_is_named_with_the_class(own: Own, said: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        intercode.prepare(own(said, task()))


# -- its reward ------------------------------------------------------------------------------------


def test_a_named_reward_goes_before_the_classs_own_which_can_build_on_exact(
    own: Own, made: Callable[..., Any]
) -> None:
    half = (
        "def reward(self, agent, gold, task):\n"
        "    return super().reward(agent, gold, task).reward / 2"
    )
    name = own(half, task(gold="echo x"))
    assert played(made(name), "echo x", "submit").reward == 0.5
    assert played(made(name, reward="exact"), "echo x", "submit").reward == 1.0
    assert intercode.prepare(name).facts()["reward"] == "Own.reward"
    assert intercode.prepare(name, reward="paper").facts()["reward"] == "paper"


# -- services and probes ---------------------------------------------------------------------------


def test_a_start_script_begins_each_episode_anew_and_forks_play_again(
    own: Own, made: Callable[..., Any]
) -> None:
    name = own(f'start = """{SERVICE}"""', task(gold="echo held"))
    env = made(name)
    for _ in range(2):
        env.reset(seed=0)
        assert env.step("cat /dev/shm/held; cat /proc/[0-9]*/comm | grep -c sleep")[0] == "one\n1\n"
        env.step(
            "echo two > /dev/shm/held; pkill sleep; "
            "kill $(grep -l '^sleep' /proc/[0-9]*/comm | cut -d/ -f3)"
        )
    env.reset(seed=0)
    env.step("echo mine >> /dev/shm/held")
    with pytest.raises(ForkError, match="sleep"):
        env.fork()
    with env.fork(replay=True) as twin:
        assert (
            twin.step("cat /dev/shm/held; cat /proc/[0-9]*/comm | grep -c sleep")[0]
            == "one\nmine\n1\n"
        )


def test_what_a_probe_shows_must_be_the_golds_and_counts_for_no_change(
    own: Own, made: Callable[..., Any]
) -> None:
    name = own("probe = 'cat /dev/shm/held; touch /seen'", task(gold="echo 7 > /dev/shm/held"))
    env = made(name)
    solved = {"files": 1.0, "answer": 1.0, "probe": 1.0}
    assert played(env, "echo $((3 + 4)) > /dev/shm/held", "submit") == Score(1.0, True, solved)
    assert played(env, "echo 8 > /dev/shm/held", "submit") == Score(
        0.0, False, {**solved, "probe": 0.0}
    )
    assert played(env, "rm -f /dev/shm/held", "submit").parts["probe"] == 0


@pytest.mark.parametrize(
    ("body", "fields", "why"),
    [
        (
            "start = 'echo no service; exit 3'",
            {},
            r"the start script ended with status 3; it printed:\nno service",
        ),
        (
            "probe = 'echo what; no-such-tool'",
            {},
            r"after the gold, the probe ended with status 127; it printed:\nwhat",
        ),
        (
            "",
            {"setup": "echo oh no; false"},
            r"of task bad \(field 'setup'\) ended with status 1; it printed:\noh no",
        ),
        ("", {"image": "nowhere"}, "task bad: field 'image': no image named 'nowhere'"),
        (
            "",
            {"image": "../.."},
            r"task bad: field 'image': '.*' leads out of the task file's folder",
        ),
        (
            "",
            {"image": "x" * 300},
            r"task bad: field 'image': '.* can be neither an image nor a path",
        ),
    ],
)
def test_scripts_and_images_that_fail_are_the_datas_fault(
    own: Own, made: Callable[..., Any], body: str, fields: dict[str, Any], why: str
) -> None:
    name = own(body, task(id="bad", **{"gold": "echo x", **fields}))
    with pytest.raises(DataError, match=why):
        made(name).reset(seed=0)


# -- a record's own world --------------------------------------------------------------------------


def test_a_record_may_bring_a_setup_of_its_own(own: Own, made: Callable[..., Any]) -> None:
    """It runs once for all episodes."""
    random = "echo $RANDOM$RANDOM$RANDOM > /who"
    tasks = [task(), task(setup=random), task(query="Delete /who.", gold="rm /who", setup=random)]
    env = made(own("setup = 'setup.sh'", *tasks, **{"setup.sh": "echo one > /who"}))

    def who(number: int) -> str:
        env.reset(options={"task": number})
        return str(env.step("cat /who")[0])

    words = [who(number) for number in (0, 1, 2, 0)]
    assert words == ["one\n", words[1], words[1], "one\n"]
    assert played(env, f"echo {words[1]}", "submit", task=1).success
    assert not played(env, "echo one", "submit", task=1).success
    assert played(env, "rm /who", "submit", task=2).success
    with env.fork() as twin:
        assert played(twin, f"echo {words[1]}", "submit", task=1).success


def test_a_record_and_an_option_may_set_limits(own: Own, made: Callable[..., Any]) -> None:
    sleeps = {"query": "Sleep.", "gold": "sleep 1.2; echo up"}
    plain = {"query": "Greet.", "gold": "echo hi"}
    tasks = [plain, {**sleeps, "action_seconds": 30}, {**plain, "memory": 300, "disk": 64}]
    env = made(own("", *tasks), action_seconds=0.3, processes=40)
    assert played(env, "sleep 1.2; echo up", "submit", task=1).success
    env.reset(options={"task": 0})
    assert "time" in env.step("sleep 1.2")[4]["limits"]
    env.reset(options={"task": 2})
    assert "disk" in env.step("head -c 100M /dev/zero > /big")[4]["limits"]


@pytest.mark.parametrize("value", [0, -1, "9", True, 1.5, float("nan")])
def test_a_limit_that_is_not_a_positive_number_is_the_datas_fault(own: Own, value: object) -> None:
    with pytest.raises(DataError, match=r"line 1: field memory is .*; write a positive whole"):
        intercode.prepare(own("", task(memory=value)))


def test_a_limit_below_what_an_episode_needs_is_named(own: Own) -> None:
    with pytest.raises(UsageError, match="limit processes is 8; write at least 9"):
        intercode.prepare(own("", task()), processes=8)
    intercode.prepare(own("", task()), processes=9).facts()
    with pytest.raises(UsageError, match="the limit of memory is too small for an episode"):
        intercode.prepare(own("", task()), memory=1).facts()


@pytest.mark.parametrize(("field", "value"), [("setup", 3), ("image", "  "), ("image", "a\0b")])
def test_a_wrong_field_is_named_with_file_record_and_field(
    own: Own, field: str, value: object
) -> None:
    name = own("", task(), task(**{field: value}))
    with pytest.warns(
        EntryLeftOut,
        match=rf"tasks\.jsonl: line 2: field '{field}' is .*; write .* as text, or leave it out",
    ):
        assert len(intercode.prepare(name).tasks) == 1


def test_a_record_may_bring_an_image_of_its_own(own: Own, tmp_path: Path) -> None:
    name = own(
        "",
        task(gold="echo none"),
        task(id="other", gold="read -r who < /who; echo $who", image="root"),
    )
    root = tmp_path / "theirs" / "root"
    listed = subprocess.check_output(["ldd", "/bin/bash"], text=True).split()
    for file in ["/bin/bash", *(word for word in listed if word.startswith("/"))]:
        (root / file[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(file).resolve(), root / file[1:])
    for folder in ("dev", "proc", "tmp", "etc", "root"):
        (root / folder).mkdir()
    (root / "who").write_text("other\n")
    factory = intercode.prepare(name)
    assert list(factory.facts()["images"]) == ["root"]
    with factory() as env:
        env.reset(options={"task": "other"})
        assert env.step("read -r who < /who; echo $who")[0] == "other\n"
        assert env.step("ls /")[4]["exit_code"] == 127
        env.reset(options={"task": 0})
        assert "No such file" in env.step("cat /who")[0]


def test_records_are_preprocessed_by_the_class_or_by_the_caller(
    own: Own, made: Callable[..., Any]
) -> None:
    body = (
        "@staticmethod\ndef preprocess(record):\n"
        "    return {'query': record['ask'], 'gold': record['cmd']}"
    )
    name = own(body, {"ask": "Say x.", "cmd": "echo x"})
    assert made(name).reset(seed=0)[0] == "Say x."
    shouted = made(
        name, preprocess=lambda record: {"query": record["ask"].upper(), "gold": record["cmd"]}
    )
    assert shouted.reset(seed=0)[0] == "SAY X."
    for env in ("sql", "python", "ctf"):
        factory = intercode.prepare(
            env, limit=2, preprocess=lambda record: {**record, "query": f"Now: {record['query']}"}
        )
        assert {each.query.startswith("Now: ") for each in factory.tasks} == {True}
