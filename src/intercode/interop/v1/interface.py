"""InterCode v1's classes, so that programs written for it run here (docs/from-intercode-v1.md).

    from intercode.envs import SqlEnv                         V1SqlEnv
    env = SqlEnv("docker-env-sql", data_path="tasks.json", preprocess=use_database)
    observation, info = env.reset(3)                          the query of the fourth record
    observation, reward, done, info = env.step("SELECT 1")    0 and False until `submit`

Each class is a face of an environment under the protocol `paper`: actions and rewards are its.
Nothing needs Docker, and any number of environments may be open at once. `intercode.envs.ic_env`,
`intercode.utils` and the other modules that such programs import are this module (`doors.MOVED`).
"""

from __future__ import annotations

import json
import logging
import re
import shlex
import signal
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import MappingProxyType
from typing import Any, NamedTuple

import gymnasium
from numpy import random

from intercode.env import InterCodeEnv
from intercode.envs import environment_class, prepare
from intercode.envs.judges import Attempt
from intercode.envs.sql.engines import Answer
from intercode.envs.sql.options import SECONDS
from intercode.errors import DataError, SandboxDied, UsageError
from intercode.factory import EnvFactory
from intercode.interop.v1.session import folder_after_cd
from intercode.interop.v1.sql import _common_rows, sql_paper
from intercode.tasks.dataset import STARTER
from intercode.tasks.formats import Unreadable, read_file
from intercode.types import Table

Fields = dict[str, Any]
__path__: list[str] = []  # so that `intercode.utils.data_loader` can be imported
AGENT_OBS, EVAL_OBS, CORRUPT_GOLD = "agent_obs", "eval_obs", "corrupt_gold"
ACTION_EXEC, REWARD = "action_executed", "reward"
GIT_STATUS_SCRIPT, GIT_RESET_SCRIPT = "git status --short;", "git reset --hard; git clean -fd;"
SQL_CONFIG = {"host": "127.0.0.1", "port": 3307, "user": "admin", "password": "admin"}
"""Not read: a server of the environment's own is used."""
TIMEOUT_DURATION, START_UP_DELAY = 10, 0
IMAGE_TO_SETTINGS = {"intercode-bash": "/bin/sh", "intercode-nl2bash": "/bin/bash"}
"""Not read: any image name is taken, and the shell is bash."""
bash_image_name, sql_image_name = "intercode-bash", "docker-env-sql"
bash_test_data = str(STARTER / "bash" / "tasks.jsonl")
sql_test_data = str(STARTER / "sql" / "tasks.jsonl")
_BASH_IMAGE = re.compile(
    r"(?:(?:.*[\W_])?fs|intercode-(?:nl2)?bash)[-_]?(?P<tree>\d)\b.*|intercode-(?:nl2)?bash(?:\W.*)?"
)
"""InterCode v1's names of our image v1-bash, perhaps with the number of a file system. Of another
name, `image=` says which programs are used."""
_SHOW = re.compile(
    r"\s*(?:(?P<tables>show\s+tables)"
    r"|(?:describe|desc|show\s+columns\s+(?:from|in))\s+[`\"']?(?P<table>\w+)[`\"']?)\s*;?\s*",
    re.IGNORECASE,
)
"""Matches MySQL's statements that list tables or columns; SQLite has none."""
_COLUMNS = """SELECT name, type, CASE "notnull" WHEN 1 THEN 'NO' ELSE 'YES' END,
CASE pk WHEN 0 THEN '' ELSE 'PRI' END, dflt_value, '' FROM pragma_table_info('{}')"""
_USE = re.compile(r"\s*use\s+[`\"']?(\w+)[`\"']?\s*;?\s*", re.IGNORECASE)
_ARGUMENTS = {"data_path", "preprocess", "traj_dir", "verbose"}
logger = logging.getLogger("intercode.v1")
logger.addHandler(logging.StreamHandler())
logger.setLevel(logging.INFO)


def bash_build_docker() -> None:
    """Do nothing: `intercode image build v1-bash` builds what is needed."""


sql_build_docker = bash_build_docker


@contextmanager
def timeout(
    seconds: int = TIMEOUT_DURATION, error_message: str = "Timeout"
) -> Generator[None, None, None]:
    """Raise `TimeoutError` in the block after this many seconds; in the main thread only."""

    def expire(*_: object) -> None:
        raise TimeoutError(error_message)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGALRM, expire)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


class IntercodeDataLoader:
    """The records of a file, by index."""

    def __init__(self, data_path: str, parse_func: object = None) -> None:
        self.data_path = data_path
        self.records = list[Any]()
        for number, (_, record) in enumerate(read_file(Path(data_path))):
            if isinstance(record, Unreadable):
                raise DataError(record.why)
            if not {"query", "gold"} <= record.keys():
                raise DataError(f"{data_path}, record {number}: it needs a query and a gold")
            self.records.append(record)

    def __len__(self) -> int:
        return len(self.records)

    def get(self, index: int | None = None) -> Fields:
        """Return the record of an index, or of a random one: its fields, and `extra` with those
        other than query and gold."""
        if index is None:
            index = random.randint(len(self))
        record = dict(self.records[index])
        extra = dict(record)
        del extra["query"], extra["gold"]
        if extra:
            record["extra"] = extra
        return record

    @cached_property
    def data(self) -> Any:
        """The records as a DataFrame. Raises `UsageError` without pandas."""
        try:
            import pandas  # type: ignore[import-untyped]
        except ImportError as error:
            raise UsageError("`data` needs pandas: pip install pandas") from error
        return pandas.DataFrame(self.records)


class ExecRun(NamedTuple):
    exit_code: int | None
    output: bytes


class V1Container:
    """Stands for a Docker container: the sandbox of an environment, in Docker's words."""

    def __init__(self, name: str, image: str) -> None:
        self.name, self.image, self.status = name, image, "running"
        self.env: Callable[[], Any] | None = None
        """Returns the environment of ours; the environment that opens the container sets it."""

    def exec_run(self, cmd: str | Sequence[str], workdir: str = "/", **_: object) -> ExecRun:
        """Run a program, as `docker exec` does, and return its status and output."""
        if self.env is None:
            raise UsageError(f"the container {self.name} is no environment's `container` yet")
        files = self.env().world.files()
        if files is None:
            raise UsageError(f"the container {self.name} has no programs to run")
        argv = list(cmd)
        if isinstance(cmd, str):
            argv = shlex.split(cmd)
        result = files.run(argv, cwd=workdir)
        return ExecRun(result.exit_code, result.output.encode("utf-8", "surrogateescape"))

    def start(self) -> None:
        self.status = "running"

    def stop(self, **_: object) -> None:
        self.status = "exited"

    remove = stop


def get_container(ctr_name: str, image_name: str) -> V1Container:
    """Return a container for an environment. Programs replace this function to choose names."""
    return V1Container(ctr_name, image_name)


_factories: dict[str, EnvFactory] = {}


def _factory(language: str, options: Fields) -> EnvFactory:
    """Return the factory of environments with these options, the same for all environments as long
    as no file that the options name is written."""
    written = []
    for value in options.values():
        if isinstance(value, str | Path) and (path := Path(value)).exists():
            files = filter(Path.exists, (path, *path.rglob("*")))
            written += [(str(file), file.stat().st_mtime_ns) for file in files]
    key = repr((language, sorted(options.items()), written))
    if key not in _factories:
        _factories[key] = prepare(language, **{"protocol": "paper", "max_turns": None, **options})
    return _factories[key]


class V1Env(gymnasium.Env[Any, str]):
    """The base of the classes. `image_name` is a name of InterCode v1's.

    Args:
        data_path: the records; without, the environment is a shell without tasks (`tool_mode`).
        preprocess: returns the actions, a list or one text, that begin an episode on a record.
        traj_dir: a folder for trajectories, written at each submission.
        verbose: whether the logger prints.

    Of other arguments, options of our environments count, such as `tree`, `dump` and `sandbox`;
    those of a subclass are its own. The base itself has a shell without tasks, for subclasses with
    an execution and a reward of their own; one that does not call `__init__` has a shell once it
    uses a container.
    """

    name, language, has_tasks = "intercode", "bash", False
    image_name, tool_mode = "intercode", True
    logger = logger.getChild(name)
    logger.disabled = True
    preprocess: Callable[[Fields], Any] | None = None
    traj_dir: str | None = None
    query, gold, query_idx, workdir = "", "", 0, "/"
    reward: float | None = None
    observation: Any = None
    _options: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, image_name: str, **kwargs: Any) -> None:
        self.image_name = image_name
        self.kwargs = kwargs
        self.data_path = kwargs.get("data_path")
        self.preprocess = kwargs.get("preprocess")
        self.traj_dir = kwargs.get("traj_dir")
        self.logger = logger.getChild(self.name)
        self.logger.disabled = not kwargs.get("verbose", False)
        self.record: Fields = {}
        self.info: Fields = {}
        self.trajectory: list[tuple[str, Any]] = []
        self.tool_mode = self.data_path is None
        data = None
        if self.data_path is not None:
            self.data_loader = IntercodeDataLoader(self.data_path)
            data = Path(self.data_path).resolve()
        ours = {field.name for field in fields(environment_class(self.language).Options)}
        unknown = sorted(kwargs.keys() - ours - _ARGUMENTS)
        if unknown and type(self).__module__ == __name__:
            raise UsageError(
                f"{type(self).__name__.removeprefix('V1')} takes no {', '.join(unknown)}; it takes "
                f"{', '.join(sorted(_ARGUMENTS))} and our options (docs/options.md)"
            )
        self._options = self._implied(data)
        for name in kwargs.keys() & ours - {"preprocess"}:
            self._options[name] = kwargs[name]
        self.container_name = f"{image_name}_ic_ctr"
        self.container = self._open_container(self.container_name, lambda: self.env)
        self.env = self._make_env()

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; a container of ours that belongs to no environment becomes this
        one's."""
        if isinstance(value, V1Container) and value.env is None:
            value.env = lambda: self.env
        super().__setattr__(name, value)

    @cached_property
    def env(self) -> Any:
        """The environment of ours, made and reset here if `__init__` was not called."""
        env = self._make_env()
        env.reset(options={"task": self._task_id(env)})
        return env

    def _make_env(self) -> InterCodeEnv:
        """Return an environment of ours with the data, or with a single task that asks nothing.
        `tasks.*` is the task file of a data folder."""
        with NamedTemporaryFile("w", suffix=".jsonl") as no_task:
            no_task.write('{"query": "-", "gold": "true"}')
            no_task.flush()
            data = Path(no_task.name)
            if self.has_tasks and not self.tool_mode:
                data = Path(str(self.data_path))
            if data.stem == "tasks":
                data = data.parent
            return _factory(self.language, {**self._options, "data": str(data)})()

    def _implied(self, data: Path | None) -> Fields:
        """Return the options that the image and the path of the data imply."""
        return {}

    def _open_container(self, name: str, env: Callable[[], Any]) -> Any:
        container = get_container(name, self.image_name)
        if not isinstance(container, V1Container):
            raise UsageError(
                f"get_container returned {type(container).__name__}, but actions run in a sandbox "
                "of intercode's; return intercode.utils.get_container(name, image)"
            )
        container.env = env
        return container

    def reset(self, index: int | None = None, **_: object) -> tuple[Any, Fields]:
        """Begin an episode on the record of an index, or of a random one."""
        self.info, self.trajectory, self.observation, self.reward = {}, [], None, None
        self.query_idx = self._scored = 0
        if not self.tool_mode:
            indices = range(len(self.data_loader))
            if index is None:
                index = random.randint(len(indices))
            self.query_idx = indices[index]
            self.record = self.data_loader.get(self.query_idx)
            self.query = self.record["query"]
            self.gold = self.record["gold"]
            self.observation = self.query
            self.logger.info("Query: %s\nGold: %s", self.query, self.gold)
        if "env" in vars(self):
            self.env.reset(options={"task": self._task_id(self.env)})
        self.reset_container()
        if self.preprocess is not None and not self.tool_mode:
            actions = self.preprocess(self.record)
            if isinstance(actions, str):
                actions = [actions]
            for action in actions:
                self.exec_action(action)
                if not self.info.get(ACTION_EXEC):
                    raise RuntimeError(f"preprocess: {action!r} failed: {self.observation}")
        return None if self.tool_mode else self.query, self.info

    def _task_id(self, env: InterCodeEnv) -> str | int:
        """Return the world's task of the record. Raises `UsageError` if it cannot be played."""
        if self.tool_mode or not self.has_tasks:
            return 0
        if len(env.tasks) == len(self.data_loader):
            return self.query_idx  # none is left out
        for task in env.tasks:
            if (task.query, task.gold) == (self.query, self.gold):
                return task.id
        raise UsageError(f"record {self.query_idx} cannot be played here; `check` says why")

    def step(self, action: str) -> tuple[Any, float, bool, Fields]:  # type: ignore[override]
        """Execute an action, score a submission, or skip the task."""
        self.logger.info("Action: %s", action)
        if action.startswith("submit"):
            reward: float = 0
            if not self.tool_mode:
                reward, self.info = self.get_reward()
            self.info[ACTION_EXEC] = True
            if self.traj_dir:
                self.save_trajectory()
            return self.observation, reward, True, self.info
        if action == "skip":
            return "skipped", 0, True, {}
        self.exec_action(action)
        self.logger.info("Observation: %s", self.observation)
        self.trajectory.append((action, self.observation))
        return self.observation, 0, False, self.info

    def exec_action(self, action: str) -> None:
        """Execute an action; set `observation`, and `action_executed` in `info`."""
        try:
            result = self.env.execute(action)
        except SandboxDied as death:
            if not death.by_agent:
                raise
            self.env.start_episode(self.env.task)
            self.observation = "Command timed out"
            self.info[ACTION_EXEC] = False
            return
        self.observation = self._observed(result)
        self.info[ACTION_EXEC] = result.exit_code == 0

    def _observed(self, result: Any) -> Any:
        self.workdir = result.cwd or self.workdir
        return result.output

    def get_reward(self) -> tuple[float, Fields]:
        """Return the paper's reward for the state and the last observation, and what it compared
        in `info`."""
        score = self.env.score()
        self.info |= {
            AGENT_OBS: self.observation,
            EVAL_OBS: self.env.outcomes().get("gold"),
            CORRUPT_GOLD: False,
            REWARD: score.reward,
        }
        self.reward = score.reward
        return score.reward, self.info

    def reset_container(self) -> None:
        """Go back to the first folder; `reset` has given the episode an untouched sandbox."""
        self.workdir = "/"

    def get_available_actions(self) -> list[str]:
        return []

    def save_trajectory(self) -> None:
        """Write the episode to `traj_dir`/logs_NAME/log_TIME.json."""
        folder = Path(self.traj_dir or ".") / f"logs_{self.name}"
        folder.mkdir(parents=True, exist_ok=True)
        record: Fields = {"environment": self.name}
        if not self.tool_mode:
            record |= {"query_idx": self.query_idx, "query": self.query, "gold": self.gold}
            record["reward"] = self.reward
        record["trajectory"] = steps = list[dict[str, str]]()
        for action, observation in self.trajectory:
            steps.append({"action": action, "observation": _text(observation)})
        record["info"] = self.info
        path = folder / f"log_{datetime.now():%Y%m%d%H%M%S%f}.json"
        path.write_text(json.dumps(record, indent=2, default=str), "utf-8")

    def close(self) -> None:
        if container := vars(self).get("container"):
            container.stop()
        if env := vars(self).get("env"):
            env.close()


def _text(observation: object) -> str:
    if isinstance(observation, list):
        return "".join(map(str, observation))
    return str(observation)


class V1BashEnv(V1Env):
    name, language, has_tasks = "ic_bash", "bash", True

    def __init__(self, image_name: str, **options: Any) -> None:
        super().__init__(image_name, **options)
        self.ctr_name_eval = f"{image_name}_ic_ctr_eval"
        self._second: InterCodeEnv | None = None
        self._episode: object = None

    def _implied(self, data: Path | None) -> Fields:
        named = _BASH_IMAGE.fullmatch(self.image_name)
        image = {}
        if named:
            image["image"] = "v1-bash"
        if not data or data.stem == "tasks":
            return image
        of_data = re.search(r"fs_(\d)", data.name)
        number = of_data[1] if of_data else named and named["tree"]
        for tree in (data.with_name(f"fs_{number}"), data.with_name(f"fs_{number}.tar")):
            if number and tree.exists():
                return {**image, "tree": str(tree)}
        if image and not {"tree", "setup", "image"} & self.kwargs.keys():
            text = f"{data} has no tree of files: its tasks see the image alone; give tree=PATH"
            warnings.warn(text, stacklevel=4)
        return image

    @cached_property
    def container_eval(self) -> Any:
        """The container of the gold: a second sandbox, at the start of the episode."""

        def second() -> Any:
            self._second = self._second or self._make_env()
            if self._episode is not self.trajectory:  # a list of each episode's own
                self._second.reset(options={"task": self._task_id(self._second)})
                self._episode = self.trajectory
            return self._second

        return self._open_container(self.ctr_name_eval, second)

    def close(self) -> None:
        super().close()
        if self._second:
            self._second.close()

    def get_reward(self) -> tuple[float, Fields]:
        workspace = self.env.world.workspace
        output = _text(self.observation)  # which is the query until an action
        if output != workspace.answer.output:
            workspace.answer = replace(workspace.answer, output=output, overflow=None)
        self._scored += 1  # the gold's second execution differs from its first
        task = self.env.task  # the paper has no second data for tasks marked `general`
        plain = replace(task, extra={**task.extra, "general": False})
        ruling = self.env.judge_of(task).rule(self.env.world, Attempt(plain, [""] * self._scored))
        score = ruling.score
        outcomes = ruling.show()
        names = {"file_diff": "effects", "file_changes": "contents", "answer_similarity": "answer"}
        self.info |= {
            AGENT_OBS: workspace.answer.output,
            EVAL_OBS: outcomes.get("gold", {}).get("answer"),
            CORRUPT_GOLD: False,
            REWARD: {name: score.parts[part] for name, part in names.items()},
        }
        self.reward = score.reward
        return score.reward, self.info

    def clean_cmd(self, action: str) -> str:
        return f'/bin/bash -c "{action.strip()}"'

    def parse_status(self, status: str) -> list[tuple[str, str]]:
        words = status.split()
        return list(zip(words[1::2], words[::2], strict=False))

    def simplify_path(self, current: str, changed: str) -> str:
        if changed:
            return folder_after_cd(current, changed)
        return current


class V1SqlEnv(V1Env):
    name, language, has_tasks = "ic_sql", "sql", True

    def __init__(self, image_name: str, **options: Any) -> None:
        super().__init__(image_name, **options)
        self.cur = self.cnx = V1Cursor(self)

    def _implied(self, data: Path | None) -> Fields:
        if not data:
            return {}
        dumps = sorted(data.parent.glob("*.sql"))
        folder = data.with_name("databases")
        if len(dumps) == 1:
            return {"engine": "mariadb", "dump": str(dumps[0])}
        if folder.is_dir():
            return {"databases": str(folder)}
        return {}

    def use(self, action: str) -> str | None:
        """Choose a database if that is what the action does, and return an error message, "" for
        none; None for other actions."""
        used = _USE.fullmatch(action)
        if not used:
            return None
        engine = self.env.world.engine
        try:
            name = engine.name_of(used[1])
            if name != engine._db:
                engine.open(name)
        except UsageError as error:
            return str(error)
        return ""

    def exec_action(self, action: str) -> None:
        message = self.use(action)
        if message is None:
            super().exec_action(self._for_sqlite(action))
            return
        self.observation = None
        if message:
            self.observation = f"Error executing query: {message}"
        self.info[ACTION_EXEC] = not message

    def _for_sqlite(self, statement: str) -> str:
        """Return the statement, or SQLite's for one of MySQL that shows tables or columns."""
        shows = _SHOW.fullmatch(statement)
        if self.env.world.engine.name != "sqlite" or not shows:
            return statement
        if shows["tables"]:
            return "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
        return _COLUMNS.format(shows["table"])

    def _observed(self, result: Any) -> Any:
        answer = self.env.world.answer
        if answer.error or answer.timed_out:
            return result.output
        if answer.table is None:
            return None
        return list(answer.table.rows)

    def get_reward(self) -> tuple[float, Fields]:
        table = None
        if isinstance(self.observation, list):
            table = Table((), tuple(self.observation))
        gold = self.env.judge_of(self.env.task).gold(self.env.world, self.env.task).table
        score = sql_paper(table, gold)
        self.info = {
            AGENT_OBS: str(self.observation),
            EVAL_OBS: str(list(gold.rows)) if gold else "[]",
            CORRUPT_GOLD: gold is None,
            REWARD: score.reward,
        }
        self.reward = score.reward
        return score.reward, self.info

    def get_intersect_items(self, my_list: list[str], my_dict: Counter[str]) -> list[str]:
        return _common_rows(my_list, my_dict)


class V1Cursor:
    """Stands for a MySQL connection and its cursor: `cur` and `cnx` of an environment."""

    def __init__(self, env: V1SqlEnv) -> None:
        self._env = env
        self.description: list[tuple[str]] | None = None
        self._rows: list[tuple[object, ...]] = []

    def execute(self, statement: str) -> None:
        """Raises `RuntimeError`, with the server's message as `msg`."""
        message = self._env.use(statement)
        if message is None:
            engine = self._env.env.world.engine
            answer = engine.run(self._env._for_sqlite(statement), seconds=SECONDS)
        else:
            answer = Answer(error=message or None)
        if answer.error or answer.timed_out:
            error = RuntimeError(f"Error executing query: {answer.error}")
            error.msg = answer.error  # type: ignore[attr-defined]
            raise error
        self.description = None
        self._rows = []
        if answer.table:
            self.description = [(column,) for column in answer.table.columns]
            self._rows = list(answer.table.rows)

    def fetchall(self) -> list[tuple[object, ...]]:
        rows, self._rows = self._rows, []
        return rows

    def fetchone(self) -> tuple[object, ...] | None:
        if self._rows:
            return self._rows.pop(0)
        return None

    def cursor(self, **_: object) -> V1Cursor:
        return self

    def commit(self) -> None:
        pass

    close = commit


class V1PythonEnv(V1Env):
    name, language, has_tasks = "ic_python", "python", True


class V1CTFEnv(V1Env):
    """As in `intercode-bench`, `task` may be a record, whose episode has then begun."""

    name, language, has_tasks = "ic_ctf", "ctf", True

    def __init__(
        self,
        image_name: str,
        task: Fields | None = None,
        manual_mode: bool = False,
        **options: Any,
    ) -> None:
        if task is None:
            super().__init__(image_name, **options)
            return
        with NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.write(json.dumps(dict(task)))
            file.flush()
            super().__init__(image_name, **{**options, "data_path": file.name})
        self.reset(0)

    def _implied(self, data: Path | None) -> Fields:
        options: Fields = {"everything": True}
        assets = data and data.with_name("task_assets")
        if assets and assets.is_dir():
            options["assets"] = str(assets)
        if not self.tool_mode and "task_id" in self.data_loader.get(0):
            options["id_field"] = "task_id"
        return options

    def reset_container(self) -> None:
        """Move the files of a task with `task_id` from /ctf to /ctf/ID, where InterCode v1's image
        had them."""
        self.workdir = "/ctf"
        if "task_id" in self.record:
            move = 'mkdir "$1" && find . -maxdepth 1 ! -name . ! -name "$1" -exec mv -t "$1" {} +'
            self.env.world.workspace.run(["sh", "-c", move, "-", self.env.task.id], cwd="/ctf")

    def step(self, action: str) -> tuple[Any, float, bool, Fields]:  # type: ignore[override]
        if action.startswith("submit"):
            self.env.execute(action)
        return super().step(action)


class V1SWEEnv:
    def __init__(self, *_: object, **__: object) -> None:
        raise UsageError(
            "SWEEnv is not here: `intercode eval harbor` plays repositories (docs/harbor.md), and "
            "records with `verify` test a folder (docs/records.md)"
        )


IntercodeEnv, BashEnv, SqlEnv = V1Env, V1BashEnv, V1SqlEnv
PythonEnv, CTFEnv, SWEEnv = V1PythonEnv, V1CTFEnv, V1SWEEnv
"""The names that programs import."""
