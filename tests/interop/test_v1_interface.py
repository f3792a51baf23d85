"""Programs in the style of those written for InterCode v1, unchanged: its imports, four values of
`step`, its attributes, its files."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Dict, List  # noqa: UP035 - as programs of 2023 write them
from unittest import mock

import pytest
from intercode.assets import bash_test_data  # type: ignore[import-not-found]
from intercode.envs.ic_env import (  # type: ignore[import-not-found]
    ACTION_EXEC,
    AGENT_OBS,
    CORRUPT_GOLD,
    EVAL_OBS,
    REWARD,
    IntercodeEnv,
)
from intercode.utils import (  # type: ignore[import-not-found]
    IntercodeDataLoader,
    get_container,
)
from kept import needs_bwrap

import intercode
from intercode.envs import BashEnv, CTFEnv, PythonEnv, SqlEnv, SWEEnv  # type: ignore[attr-defined]
from intercode.errors import DataError, UsageError

pytestmark = pytest.mark.slow
SHOP = (
    "CREATE TABLE fruit (name TEXT, price INT); INSERT INTO fruit VALUES ('fig', 3), ('plum', 2);"
)
QUESTIONS = [
    {"query": "How many fruits?", "gold": "SELECT COUNT(*) FROM fruit", "db": "shop"},
    {"query": "Names by price", "gold": "SELECT name FROM fruit ORDER BY price", "db": "shop"},
]
FILES = [
    {"query": "Count the lines of /box/a", "gold": "wc -l < /box/a"},
    {"query": "Make /box/b", "gold": "touch /box/b"},
]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("v1-shop")
    (folder / "databases").mkdir()
    (folder / "databases" / "shop.sql").write_text(SHOP)
    (folder / "sql_queries.json").write_text(json.dumps(QUESTIONS))
    return {
        "data_path": str(folder / "sql_queries.json"),
        "databases": str(folder / "databases"),
        "engine": "sqlite",
    }


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Any:
    needs_bwrap()
    folder = tmp_path_factory.mktemp("v1-box")
    (folder / "tree" / "box").mkdir(parents=True)
    (folder / "tree" / "box" / "a").write_text("one\ntwo\n")
    (folder / "nl2bash.json").write_text(json.dumps(FILES))
    return {"data_path": str(folder / "nl2bash.json"), "tree": str(folder / "tree"), "image": None}


def preprocess_sql(record: Dict) -> List:  # type: ignore[type-arg] # noqa: UP006
    return [f"use {record['db']}"]


@pytest.mark.journey
def test_a_loop_over_records_as_trainers_write_it(shop: Any) -> None:
    env = SqlEnv(image_name="docker-env-sql", preprocess=preprocess_sql, verbose=False, **shop)
    try:
        assert (len(env.data_loader), env.name, env.tool_mode) == (2, "ic_sql", False)
        for index in range(len(env.data_loader)):
            observation, info = env.reset(index)
            assert observation == env.query == QUESTIONS[index]["query"]
            assert env.record["db"] == env.record["extra"]["db"] == "shop"
            observation, reward, done, info = env.step("SELECT 7")
            assert (observation, reward, done, info[ACTION_EXEC]) == ([(7,)], 0, False, True)
            observation, reward, done, info = env.step(env.gold)
            assert (reward, done) == (0, False)
            seen, reward, done, info = env.step("submit")
            assert (seen, reward, done) == (observation, 1, True)
            assert info[AGENT_OBS] == info[EVAL_OBS] == str(observation)
            assert (info[CORRUPT_GOLD], info[REWARD]) == (False, 1)
        observation, _, _, info = env.step("SELEC 1")
        assert observation.startswith("Error executing query: ")
        assert not info[ACTION_EXEC]
        assert env.step("CREATE TABLE fresh (x INT)")[0] is None
        assert env.step("skip") == ("skipped", 0, True, {})
        env.cur.execute("SELECT name FROM fruit ORDER BY name")
        assert env.cur.fetchall() == [("fig",), ("plum",)]
        with pytest.raises(RuntimeError) as caught:
            env.cur.execute("SELEC 1")
        assert caught.value.msg  # type: ignore[attr-defined]
        env.cnx.close()
    finally:
        env.close()


def test_a_wrong_order_and_half_of_the_rows_earn_what_the_paper_says(shop: Any) -> None:
    env = SqlEnv("docker-env-sql-spider", **shop)
    env.reset(1)
    env.step("SELECT name FROM fruit ORDER BY price DESC")
    assert env.step("submit")[1] == -1
    env.reset(1)
    env.step("SELECT 'plum'")
    assert env.step("submit")[1] == 0.5
    env.close()


def test_bash_keeps_the_folder_and_scores_files_and_the_answer(box: Any, tmp_path: Path) -> None:
    env = BashEnv("intercode-nl2bash", traj_dir=str(tmp_path), **box)
    env.reset(1)
    assert env.step("cd /box")[3][ACTION_EXEC]
    assert (env.workdir, env.step("ls")[0]) == ("/box", "a\n")
    _, reward, done, info = env.step("submit")
    assert (reward, done, info[REWARD]["file_diff"]) == (pytest.approx(0.39), True, 0.05)
    env.reset(1)
    env.step("touch /box/b")
    assert env.container.exec_run(env.clean_cmd("ls /box"), workdir="/").output == b"a\nb\n"
    assert env.container_eval.exec_run("ls /box").output == b"a\n"
    _, reward, _, info = env.step("submit")
    assert reward == 1
    assert info[REWARD] == {"file_diff": 0.33, "file_changes": 0.33, "answer_similarity": 0.33}
    assert env.parse_status("?? box/b") == [("box/b", "??")]
    assert env.simplify_path("/box", "../srv") == "/srv"
    env.close()
    logs = sorted((tmp_path / "logs_ic_bash").iterdir())
    written = json.loads(logs[1].read_text())
    assert written["trajectory"] == [{"action": "touch /box/b", "observation": ""}]
    assert {"environment", "query_idx", "query", "gold", "reward", "info"} < written.keys()


def test_a_subclass_with_its_own_execution_and_reward(box: Any) -> None:
    class Loud(BashEnv):  # type: ignore[misc]
        name = "loud"

        def exec_action(self, action: str) -> None:
            exit_code, output = self.container.exec_run(
                self.clean_cmd(action), workdir=self.workdir
            )
            self.observation = output.decode().upper()
            self.info[ACTION_EXEC] = exit_code == 0

        def get_reward(self) -> Any:
            self.reward = float("A" in self.observation)
            return self.reward, {"by": "loud"}

    env = Loud("intercode-bash", **box)
    env.reset(0)
    assert env.step("ls /box")[0] == "A\n"
    assert env.step("submit")[1:] == (1.0, True, {"by": "loud", ACTION_EXEC: True})
    env.close()


def test_a_cursor_and_a_container_leave_the_answer_and_the_next_episode_alone(
    shop: Any, box: Any
) -> None:
    env = SqlEnv("docker-env-sql", **shop)
    env.reset(0)
    env.step("SELECT 7")
    env.cur.execute(env.gold)
    assert env.cur.fetchall() == [(2,)]
    assert env.step("submit")[:2] == ([(7,)], 0)
    env.close()
    files = BashEnv("intercode-bash", **box)
    for _ in range(2):
        files.reset(0)
        assert files.container.exec_run("cat /box/a").output == b"one\ntwo\n"
        files.container.exec_run("rm /box/a")
        assert files.container_eval.exec_run("cat /box/a").exit_code == 0
        files.container_eval.exec_run("rm /box/a")
        assert files.container_eval.exec_run("cat /box/a").exit_code == 1
    files.close()


def test_a_class_of_its_own_and_words_that_mean_nothing_here(box: Any) -> None:
    class Own(IntercodeEnv):  # type: ignore[misc]
        def exec_action(self, action: str) -> None:
            self.observation = self.container.exec_run(["echo", action]).output.decode()
            self.info[ACTION_EXEC] = True

        def get_reward(self) -> Any:
            return float(self.observation == f"{self.gold}\n"), {}

    env = Own("my-image", data_path=box["data_path"], is_agent=True, options=["a", "b"])
    assert env.reset(1) == (FILES[1]["query"], {})
    assert env.step("touch /box/b")[0] == "touch /box/b\n"
    assert env.step("submit")[1] == 1
    assert env.kwargs["options"] == ["a", "b"]
    env.close()


@pytest.mark.parametrize("calls_ours", [False, True])
def test_a_class_that_opens_its_container_itself(box: Any, calls_ours: bool) -> None:
    class Own(IntercodeEnv):  # type: ignore[misc]
        def __init__(self) -> None:
            if calls_ours:
                super().__init__("my-image")
            self.container = get_container("mine", "my-image")

        def exec_action(self, action: str) -> None:
            self.observation = self.container.exec_run(["sh", "-c", action]).output.decode()
            self.info[ACTION_EXEC] = True

        def get_reward(self) -> Any:
            return 1.0, {}

    env = Own()
    assert env.reset() == (None, {})
    assert env.step("echo $((6 * 7))") == ("42\n", 0, False, {ACTION_EXEC: True})
    env.close()


def test_a_class_without_our_beginning_needs_no_container(tmp_path: Path) -> None:
    class Own(IntercodeEnv):  # type: ignore[misc]
        def __init__(self, data_path: str) -> None:
            self.tool_mode, self.data_loader = False, IntercodeDataLoader(data_path)

        def exec_action(self, action: str) -> None:
            self.observation, self.info[ACTION_EXEC] = action.upper(), True

        def get_reward(self) -> Any:
            return float(self.observation == self.gold.upper()), {}

    (tmp_path / "q.json").write_text(json.dumps(FILES))
    env = Own(str(tmp_path / "q.json"))
    assert env.reset(1) == (FILES[1]["query"], {})
    assert env.step("touch /box/b")[0] == "TOUCH /BOX/B"
    assert env.step("submit")[1] == 1
    env.close()


def test_an_unknown_argument_is_refused(box: Any) -> None:
    with pytest.raises(UsageError, match="BashEnv takes no dat_path; it takes data_path, "):
        BashEnv("intercode-bash", dat_path=box["data_path"])


def test_sqlite_shows_what_mysql_shows(shop: Any) -> None:
    env = SqlEnv("docker-env-sql", preprocess=preprocess_sql, **shop)
    env.reset(0)
    assert env.step("SHOW TABLES;")[0] == [("fruit",)]
    columns = [("name", "TEXT", "YES", "", None, ""), ("price", "INT", "YES", "", None, "")]
    for statement in ("describe fruit", "DESC `fruit`;", "SHOW COLUMNS FROM fruit"):
        assert env.step(statement)[0] == columns
    env.cur.execute("SHOW TABLES")
    assert env.cur.fetchall() == [("fruit",)]
    env.close()


def test_a_number_of_an_image_is_that_of_its_files(tmp_path: Path) -> None:
    needs_bwrap()
    (tmp_path / "fs_2" / "box").mkdir(parents=True)
    (tmp_path / "fs_2" / "box" / "a").write_text("one\n")
    (tmp_path / "train.json").write_text(json.dumps(FILES))
    with pytest.warns(UserWarning, match="no tree of files"), suppress(UsageError):
        BashEnv("intercode-nl2bash-1", data_path=str(tmp_path / "train.json")).close()
    env = BashEnv("intercode-nl2bash-2", data_path=str(tmp_path / "train.json"), image=None)
    env.reset(0)
    assert env.step("cat /box/a")[0] == "one\n"
    env.close()


def test_files_that_change_are_read_again(tmp_path: Path) -> None:
    (tmp_path / "databases").mkdir()
    (tmp_path / "queries.json").write_text(json.dumps(QUESTIONS[:1]))
    for price in ("3", "4"):
        (tmp_path / "databases" / "shop.sql").write_text(SHOP.replace("3", price))
        env = SqlEnv("docker-env-sql", data_path=str(tmp_path / "queries.json"), engine="sqlite")
        env.reset(0)
        assert env.step("SELECT MAX(price) FROM fruit")[0] == [(int(price),)]
        env.close()


def test_without_its_files_a_task_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / "train.json").write_text(json.dumps(FILES))
    with pytest.warns(UserWarning, match="no tree of files"), suppress(UsageError):
        BashEnv("intercode-nl2bash", data_path=str(tmp_path / "train.json")).close()


def test_a_patched_get_container_is_called_with_the_names(box: Any) -> None:
    names = []

    def unique(ctr_name: str, image_name: str) -> Any:
        names.append((ctr_name, image_name))
        return original(f"{ctr_name}_{len(names)}", image_name)

    import intercode.envs.ic_env as module  # type: ignore[import-not-found]

    original = module.get_container
    with mock.patch("intercode.envs.ic_env.get_container", unique):
        env = BashEnv("intercode-bash", **box)
    assert names == [("intercode-bash_ic_ctr", "intercode-bash")]
    assert env.container.name == "intercode-bash_ic_ctr_1"
    env.close()
    with (
        mock.patch("intercode.utils.get_container", return_value=object()),
        pytest.raises(UsageError, match="get_container returned object"),
    ):
        BashEnv("intercode-bash", **box)


def test_environments_in_threads_do_not_share_a_container(box: Any) -> None:
    rewards: list[float] = []

    def play(number: int) -> None:
        env = BashEnv("intercode-bash", **box)
        env.reset(1)
        env.step(f"touch /box/{'b' if number % 2 else 'c'}")
        rewards.append(env.step("submit")[1])
        env.close()

    threads = [threading.Thread(target=play, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(rewards)[3:] == [1, 1, 1]
    assert max(sorted(rewards)[:3]) < 1


def test_without_data_it_is_a_shell(box: Any) -> None:
    env = BashEnv("intercode-bash", image=None)
    assert env.tool_mode
    assert env.reset() == (None, {})
    assert env.step("echo hi")[0] == "hi\n"
    assert env.step("submit")[1:3] == (0, True)
    env.close()


def test_python_and_flags(tmp_path: Path) -> None:
    needs_bwrap()
    tasks = [
        {
            "query": "Write double(x).",
            "gold": "def double(x): return 2 * x",
            "tests": ["assert double(2) == 4"],
        }
    ]
    (tmp_path / "mbpp.json").write_text(json.dumps(tasks))
    env = PythonEnv("intercode-python", data_path=str(tmp_path / "mbpp.json"))
    env.reset(0)
    env.step("def twice(x):\n    return x + x")
    assert env.step("submit twice")[1:3] == (1, True)
    env.close()
    (tmp_path / "ctf.json").write_text(json.dumps([{"query": "?", "gold": "flag{a}"}]))
    with_flag = CTFEnv("intercode-ctf", data_path=str(tmp_path / "ctf.json"))
    with_flag.reset(0)
    with_flag.step("ls")
    assert with_flag.step("submit flag{b}")[1:3] == (0, True)
    with_flag.reset(0)
    assert with_flag.step("submit flag{a}")[1:3] == (1, True)
    with_flag.close()
    with_task = CTFEnv("intercode-ctf", task={"query": "?", "gold": "flag{a}"})
    assert with_task.query == "?"
    assert with_task.step("submit flag{a}")[1:3] == (1, True)
    with_task.close()


def test_a_game_is_in_the_folder_that_v1_gave_it(tmp_path: Path) -> None:
    needs_bwrap()

    def preprocess_ctf(record: Dict) -> List:  # type: ignore[type-arg] # noqa: UP006
        return [f"cd /ctf/{record['task_id']}"]

    (tmp_path / "task_assets" / "7").mkdir(parents=True)
    (tmp_path / "task_assets" / "7" / "enc").write_text("flag{b}")
    games = [{"task_id": number, "query": "?", "gold": "flag{b}"} for number in ("3", "7")]
    (tmp_path / "ic_ctf.json").write_text(json.dumps(games))
    path = str(tmp_path / "ic_ctf.json")
    env = CTFEnv("intercode-ctf", data_path=path, preprocess=preprocess_ctf)
    env.reset(1)
    assert (env.workdir, env.step("ls; cat enc")[0]) == ("/ctf/7", "enc\nflag{b}")
    env.reset(-2)
    assert env.step("pwd; ls")[0] == "/ctf/3\n"
    env.close()


DEMO = """
from intercode.assets import bash_build_docker, bash_image_name, bash_test_data
from intercode.envs import ACTION_EXEC, REWARD, BashEnv

if __name__ == "__main__":
    bash_build_docker()
    options = {"image": None, "traj_dir": "logs"}
    env = BashEnv(bash_image_name, data_path=bash_test_data, verbose=True, **options)
    try:
        for index in range(2):
            env.reset(index)
            done = False
            while not done:
                observation, reward, done, info = env.step(input("> "))
            print("reward:", round(reward, 2), info[REWARD], info[ACTION_EXEC])
        env.reset()
        env.step(input("> "))
    except (KeyboardInterrupt, EOFError):
        print("bye")
    finally:
        env.close()
"""


@pytest.mark.journey
def test_a_person_types_actions_at_the_demo(tmp_path: Path) -> None:
    needs_bwrap()
    gold = json.loads(Path(bash_test_data).read_text().splitlines()[1])["gold"]
    typed = ["ls", "cd /depot", "pwd", "submit", "ls /lab", gold, "submit"]
    words = [sys.executable, "-c", DEMO]
    lines = "\n".join(typed) + "\n"
    done = subprocess.run(words, input=lines, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.splitlines()[-1].endswith("bye"), done.stderr
    rewards = [line for line in done.stdout.splitlines() if "reward:" in line]
    assert "reward: 1.0" in rewards[1]
    assert "reward: 1.0" not in rewards[0]
    assert f"Action: {gold}" in done.stderr
    assert "/depot\n" in done.stderr
    assert len(list((tmp_path / "logs" / "logs_ic_bash").iterdir())) == 2


def test_names_are_those_of_v1_and_ours_stay() -> None:
    assert issubclass(SqlEnv, IntercodeEnv)
    assert intercode.SqlEnv is not SqlEnv
    assert not issubclass(intercode.BashEnv, IntercodeEnv)
    with pytest.raises(UsageError, match="harbor"):
        SWEEnv("x")
    with pytest.raises(ImportError):
        from intercode.envs import NoSuchEnv  # type: ignore[attr-defined] # noqa: F401


def test_a_loader_names_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "tasks.csv").write_text("query,gold\nhow?,ls\n")
    loader = IntercodeDataLoader(str(tmp_path / "tasks.csv"))
    assert loader.get(0) == {"query": "how?", "gold": "ls"}
    assert loader.data.iloc[0]["gold"] == "ls"
    (tmp_path / "tasks.csv").write_text("question,gold\nhow?,ls\n")
    with pytest.raises(DataError, match="query and a gold"):
        IntercodeDataLoader(str(tmp_path / "tasks.csv"))
    (tmp_path / "odd.jsonl").write_text('{"query": "q", "gold": "g"}\nno record\n')
    with pytest.raises(DataError, match="line 2"):
        IntercodeDataLoader(str(tmp_path / "odd.jsonl"))
