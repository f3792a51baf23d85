"""A Bash environment of the user's own: a subclass in a file says its world and its reward, a record its image and setup."""

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
from click.testing import CliRunner
from kept import needs_bwrap

import intercode
from intercode.cli import main
from intercode.errors import DataError, ForkError, UsageError
from intercode.types import Score

Own = Callable[..., str]
SERVICE = """
    setsid bash -c 'until read -r line < /dev/shm/service; do :; done; exec sleep 300' > /dev/null 2>&1 &
    mkfifo /dev/shm/service; echo go > /dev/shm/service; echo one > /dev/shm/held
    until grep -qs sleep /proc/$!/comm; do kill -0 $! || exit; done
"""


@pytest.fixture
def own(tmp_path: Path, module_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Own]:
    """Writes a module with the class `Own` and its task file; the name for `make`. The working folder is another."""
    needs_bwrap()
    folder = tmp_path / "theirs"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(tmp_path)

    def write(body: str, *tasks: dict[str, Any], **files: str) -> str:
        top = "from intercode import BashEnv, Score\n\n\nclass Own(BashEnv):\n    data = 'tasks.jsonl'\n"
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


def test_paths_start_at_the_folder_of_the_class(own: Own, made: Callable[..., Any]) -> None:
    name = own("setup = 'setup.sh'", task(), **{"setup.sh": "echo me > /who"})
    env = made(name)
    assert env.reset(seed=0)[0] == "Print what /who holds."
    assert env.step("cat /who")[0] == "me\n"


def test_what_the_caller_says_goes_before_what_the_class_says(own: Own, made: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "other.sh").write_text("echo you > /who")
    name = own("setup = 'setup.sh'", task(), **{"setup.sh": "echo me > /who"})
    env = made(name, setup="other.sh")
    env.reset(seed=0)
    assert env.step("cat /who")[0] == "you\n"


@pytest.mark.parametrize("name", ["data", "tree", "setup"])
def test_a_path_that_leads_nowhere_is_named_with_the_class(own: Own, name: str) -> None:
    with pytest.raises(UsageError, match=rf"Own says {name} = 'far.jsonl', but there is no /.*/theirs/far.jsonl"):
        intercode.prepare(own(f"{name} = 'far.jsonl'", task()))


@pytest.mark.parametrize(
    "said",
    [
        "sandbox = 'dokcer'",
        "sandbox = ['docker']",
        "start = ['a']",
        "start = 5",
        "probe = b'x'",
        "data = 5",
        "image = ['x']",
        "setup = 7",
        "setup = 'a\\0b'",
        "tree = True",
        "tree = ''",
        "reward = 0.5",
        "preprocess = {}",
    ],
)
def test_an_attribute_of_the_wrong_kind_is_named_with_the_class(own: Own, said: str) -> None:
    name = own(said, task())
    with pytest.raises(UsageError, match=rf"Own says {said.split()[0]} = .*, but {said.split()[0]} is "):
        intercode.prepare(name)


def test_a_sandbox_that_there_is_not_is_refused_with_those_there_are(own: Own) -> None:
    with pytest.raises(UsageError, match="sandbox 'dokcer': it is 'local', 'docker'"):
        intercode.prepare(own("", task()), sandbox="dokcer")


def test_a_dockerfile_without_docker_is_told_what_it_needs(own: Own) -> None:
    name = own("image = 'Dockerfile'", task(), Dockerfile="FROM scratch")
    with pytest.raises(UsageError, match="theirs/Dockerfile: a Dockerfile needs --sandbox docker"):
        intercode.prepare(name)


def test_a_recording_is_played_again_under_the_classs_own_reward(own: Own, tmp_path: Path) -> None:
    name = own("def reward(self, agent, gold, task):\n    return 0.25", task(gold="echo x"))
    run, options = tmp_path / "run", {"standalone_mode": False}
    for words in (["eval", name, "--agent", "gold", "--out", str(run)], ["replay", str(run), "--env", name]):
        done = CliRunner().invoke(main, words, **options)
        assert (done.exit_code, done.exception) == (0, None), done.output
    assert "2 of 2 rewards agree (100.0%)" in done.output


@pytest.mark.parametrize("words", [["eval", "{}", "--agent", "gold", "--json"], ["check", "{}", "--json"]])
def test_a_function_named_on_the_command_line_rewards_any_environment(own: Own, words: list[str]) -> None:
    name = own("", task(gold="echo x"), **{"judge.py": "def half(agent, gold, task):\n    return 0.5"})
    done = CliRunner().invoke(main, [word.format(name) for word in words] + ["--reward", "judge:half"])
    assert '"mean_reward": 0.5' in done.stdout or "earns only 0.5" in done.stdout
    done = CliRunner().invoke(main, ["eval", name, "--agent", "gold", "--reward", "judge:whole"])
    assert done.exit_code == 2
    assert "reward 'judge:whole' cannot be loaded" in done.stderr


def test_a_reward_may_give_a_number_of_which_1_is_success(own: Own, made: Callable[..., Any]) -> None:
    name = own("def reward(self, agent, gold, task):\n    return len(agent.output) / task.extra['of']", task(of=4))
    env = made(name)
    assert played(env, "printf abc", "submit") == Score(0.75, False)
    assert played(env, "printf abcd", "submit") == Score(1.0, True)
    with pytest.raises(UsageError, match=r"the reward Own\.reward, asked about task 0, returned 1\.25; it returns a Score"):
        played(env, "printf abcde", "submit")


def test_a_named_reward_goes_before_the_classs_own_and_the_run_names_it(own: Own, made: Callable[..., Any]) -> None:
    name = own("def reward(self, agent, gold, task):\n    return Score(0.5, False)", task(gold="echo x"))
    assert played(made(name), "echo x", "submit").reward == 0.5
    assert played(made(name, reward="exact"), "echo x", "submit").reward == 1.0
    assert intercode.prepare(name).facts()["reward"] == "Own.reward"
    assert intercode.prepare(name, reward="paper").facts()["reward"] == "paper"


def test_an_own_reward_can_build_on_the_exact_one(own: Own, made: Callable[..., Any]) -> None:
    name = own("def reward(self, agent, gold, task):\n    return super().reward(agent, gold, task).reward / 2", task())
    assert played(made(name), "cat /who", "submit").reward == 0.5


def test_a_start_script_begins_each_episode_anew(own: Own, made: Callable[..., Any]) -> None:
    name = own(f'start = """{SERVICE}"""', task(gold="echo held"))
    env = made(name)
    for _ in range(2):
        env.reset(seed=0)
        assert env.step("cat /dev/shm/held; cat /proc/[0-9]*/comm | grep -c sleep")[0] == "one\n1\n"
        env.step("echo two > /dev/shm/held; pkill sleep; kill $(grep -l '^sleep' /proc/[0-9]*/comm | cut -d/ -f3)")


def test_a_fork_with_a_service_is_made_by_playing_again(own: Own, made: Callable[..., Any]) -> None:
    env = made(own(f'start = """{SERVICE}"""', task(gold="echo held")))
    env.reset(seed=0)
    env.step("echo mine >> /dev/shm/held")
    with pytest.raises(ForkError, match="sleep"):
        env.fork()
    with env.fork(replay=True) as twin:
        assert twin.step("cat /dev/shm/held; cat /proc/[0-9]*/comm | grep -c sleep")[0] == "one\nmine\n1\n"


def test_a_start_script_that_fails_is_the_datas_fault(own: Own, made: Callable[..., Any]) -> None:
    env = made(own("start = 'echo no such service; exit 3'", task(gold="echo x")))
    with pytest.raises(DataError, match=r"the start script ended with status 3; it printed:\nno such service"):
        env.reset(seed=0)


def test_what_a_probe_shows_must_be_the_golds_and_counts_for_no_change(own: Own, made: Callable[..., Any]) -> None:
    name = own("probe = 'cat /dev/shm/held; touch /seen'", task(gold="echo 7 > /dev/shm/held"))
    env = made(name)
    solved = {"effects": 1.0, "answer": 1.0, "probe": 1.0}
    assert played(env, "echo $((3 + 4)) > /dev/shm/held", "submit") == Score(1.0, True, solved)
    assert played(env, "echo 8 > /dev/shm/held", "submit") == Score(0.0, False, {**solved, "probe": 0.0})
    assert played(env, "rm -f /dev/shm/held", "submit").parts["probe"] == 0


def test_a_probe_that_fails_after_the_gold_is_the_datas_fault(own: Own, made: Callable[..., Any]) -> None:
    name = own("probe = 'echo what; no-such-tool'", task(gold="echo x"))
    with pytest.raises(DataError, match=r"after the gold, the probe ended with status 127; it printed:\nwhat"):
        made(name).reset(seed=0)
    done = CliRunner().invoke(main, ["check", name, "--json"])
    assert done.exit_code == 1
    assert "the probe ended with status 127" in json.loads(done.stdout)["broken"][0]["why"]


def test_what_a_probe_prints_reaches_the_reward(own: Own, made: Callable[..., Any]) -> None:
    reward = "def reward(self, agent, gold, task):\n    return float(agent.probe == gold.probe + '!\\n')"
    body = f"probe = 'cat /dev/shm/held'\n{reward}"
    env = made(own(body, task(gold="printf held > /dev/shm/held")))
    assert played(env, "echo held! > /dev/shm/held", "submit").success
    assert not played(env, "submit").success


def test_a_record_may_bring_a_setup_of_its_own(own: Own, made: Callable[..., Any]) -> None:
    tasks = [task(), task(setup="echo two > /who"), task(query="Delete /who.", gold="rm /who", setup="echo two > /who")]
    env = made(own("setup = 'setup.sh'", *tasks, **{"setup.sh": "echo one > /who"}))
    for number, word in [(0, "one"), (1, "two"), (2, "two"), (0, "one")]:
        env.reset(options={"task": number})
        assert env.step("cat /who")[0] == f"{word}\n"
    assert played(env, "echo two", "submit", task=1).success
    assert not played(env, "echo one", "submit", task=1).success
    assert played(env, "rm /who", "submit", task=2).success
    with env.fork() as twin:
        assert played(twin, "echo two", "submit", task=1).success


def test_a_records_setup_runs_once_for_all_episodes(own: Own, made: Callable[..., Any]) -> None:
    random = "tr -dc a-z < /dev/urandom | head -c 20 > /who"
    name = own("", task(id="one", setup=random), task(id="two", query="Print it.", setup=random))
    words = set()
    for env in (made(name), made(name)):
        for each in ("one", "two"):
            env.reset(options={"task": each})
            words.add(env.step("cat /who")[0])
    assert len(words) == 1


def test_a_general_tasks_setup_runs_on_the_second_contents_too(own: Own, made: Callable[..., Any], tmp_path: Path) -> None:
    name = own("", task(gold="cat /box/*", setup="cp /box/a /box/b", general=True))
    folder = tmp_path / "set"
    for place, word in (("tree", "apple"), ("second", "quince")):
        (folder / place / "box").mkdir(parents=True)
        (folder / place / "box" / "a").write_text(f"{word}\n")
    (tmp_path / "theirs" / "tasks.jsonl").rename(folder / "tasks.jsonl")
    env = made(name, data=str(folder))
    assert played(env, "cat /box/a /box/b", "submit") == Score(1.0, True, {"effects": 1.0, "answer": 1.0, "robust": 1.0})
    assert played(env, "echo apple; echo apple", "submit").parts["robust"] == 0


def test_a_records_setup_that_fails_names_the_task_and_the_field(own: Own, made: Callable[..., Any]) -> None:
    env = made(own("", task(id="bad", setup="echo oh no; false")))
    with pytest.raises(DataError, match=r"of task bad \(field 'setup'\) ended with status 1; it printed:\noh no"):
        env.reset(seed=0)


@pytest.mark.parametrize("field", ["setup", "image"])
@pytest.mark.parametrize("value", [3, ["a"], "  ", "a\0b"])
def test_a_wrong_field_is_named_with_file_record_and_field(own: Own, field: str, value: object) -> None:
    name = own("", task(), task(**{field: value}))
    with pytest.raises(DataError, match=rf"tasks\.jsonl: line 2: field '{field}' is .*; write .* as text, or leave it out"):
        intercode.prepare(name)


def test_a_missing_image_of_a_record_names_the_task_and_the_field(own: Own) -> None:
    setting = intercode.prepare(own("", task(id="far", image="nowhere")))
    with pytest.raises(DataError, match="task far: field 'image': no image named 'nowhere'"):
        setting.facts()


def test_a_record_may_bring_an_image_of_its_own(own: Own, tmp_path: Path) -> None:
    name = own("", task(), task(id="other", gold="read -r who < /who; echo $who", image="root"))
    _root(tmp_path / "theirs" / "root", who="other")
    setting = intercode.prepare(name)
    assert list(setting.facts()["images"]) == ["root"]
    with setting() as env:
        env.reset(options={"task": "other"})
        assert env.step("read -r who < /who; echo $who")[0] == "other\n"
        assert env.step("ls /")[4]["exit_code"] == 127
        env.reset(options={"task": 0})
        assert "No such file" in env.step("cat /who")[0]


@pytest.mark.parametrize("image", ["/", "..", "link", "images/../.."])
def test_a_records_image_stays_within_the_folder_of_the_task_file(own: Own, tmp_path: Path, image: str) -> None:
    setting = intercode.prepare(own("", task(id="far", image=image)))
    (tmp_path / "theirs" / "images").mkdir()
    (tmp_path / "theirs" / "link").symlink_to("/")
    with pytest.raises(DataError, match=r"task far: field 'image': '.*' leads out of the task file's folder"):
        setting.facts()


@pytest.mark.parametrize("image", ["x" * 300, "x/" * 3000, "circle"])
def test_an_image_that_cannot_be_looked_for_is_the_datas_fault(own: Own, tmp_path: Path, image: str) -> None:
    setting = intercode.prepare(own("", task(id="far", image=image)))
    (tmp_path / "theirs" / "circle").symlink_to("circle")
    with pytest.raises(DataError, match=r"task far: field 'image': '.* can be neither an image nor a path"):
        setting.facts()


def _root(folder: Path, *, who: str) -> None:
    """A root file system with nothing but a bash."""
    listed = subprocess.check_output(["ldd", "/bin/bash"], text=True).split()
    for file in ["/bin/bash", *(word for word in listed if word.startswith("/"))]:
        target = folder / file[1:]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(file).resolve(), target)
    for name in ("dev", "proc", "tmp", "etc", "root"):
        (folder / name).mkdir()
    (folder / "who").write_text(f"{who}\n")


def test_records_are_preprocessed_by_the_class_or_by_the_caller(own: Own, made: Callable[..., Any]) -> None:
    body = "@staticmethod\ndef preprocess(record):\n    return {'query': record['ask'], 'gold': record['cmd']}"
    name = own(body, {"ask": "Say x.", "cmd": "echo x"})
    assert made(name).reset(seed=0)[0] == "Say x."
    shouted = made(name, preprocess=lambda record: {"query": record["ask"].upper(), "gold": record["cmd"]})
    assert shouted.reset(seed=0)[0] == "SAY X."


@pytest.mark.parametrize("env", ["sql", "python", "ctf"])
def test_every_environment_takes_a_preprocess(env: str) -> None:
    setting = intercode.prepare(env, limit=2, preprocess=lambda record: {**record, "query": f"Now: {record['query']}"})
    assert {each.query.startswith("Now: ") for each in setting.tasks} == {True}


@pytest.mark.parametrize(("files", "size"), [(40, 1 << 10), (1, 10 << 20)])
def test_many_archives_and_large_ones_are_compared_by_what_they_hold(
    own: Own, made: Callable[..., Any], files: int, size: int
) -> None:
    name = own(
        "setup = 'setup.sh'",
        task(id="pack", query="Compress each file in /logs.", gold="gzip /logs/*"),
        **{"setup.sh": f"mkdir /logs; for i in {{1..{files}}}; do head -c {size} /dev/urandom > /logs/$i; done"},
    )
    env = made(name)
    again = "for f in /logs/*; do gzip -1 < $f > $f.gz; chmod --reference=$f $f.gz; rm $f; done"
    assert played(env, again, "submit").success
    assert not played(env, f"{again}; echo x | gzip > /logs/{files}.gz", "submit").success


@pytest.mark.parametrize("takes", ["self", "self, tasks", "self, *tasks"])
def test_an_init_with_other_parameters_is_named(own: Own, takes: str) -> None:
    name = own(f"def __init__({takes}): super().__init__()", task())
    with pytest.raises(UsageError, match=r"Own.__init__\(\) got an unexpected keyword .*; let it take \*\*how"):
        intercode.make(name)
