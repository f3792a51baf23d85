"""InterCode v1's interface: are recorded rewards earned through it, and how fast is it, 64
environments at once, beside one environment of InterCode v1 itself on Docker.

    .venv/bin/python benchmarks/v1_interface.py [--envs 64] [--seconds 10] [--json] [--first PYTHON]

A step of the speed is an episode: reset, the gold, `submit`. Both sides play the queries that
`intercode-bench` brings, Bash on the same root, SQL on the same MariaDB (MySQL's image would come
from a registry). InterCode v1 plays one environment, since it names its containers by the image;
ours plays in threads of one process. InterCode v1's reset of a database only chooses it: what the
agent has written stays.

Fifteen episodes like a person's are logged through `traj_dir`, put into one object by index, and
counted in `report`, `show` and `replay`.

The rewards are those of the recorded runs (Try Again) of Bash, SQL and Python, scored after each
turn. An agreement is a difference of at most 0.011, as in `intercode replay`.

Exit status 1 if a bound is missed: agreement of SQL .992 and of Python 1, all 15 episodes; Bash 25
times as fast, SQL not slower.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from fidelity import data, v1
from measuring.rows import Row, command, finish, skip

from intercode.envs.sql.engines.mariadb import MariadbEngine
from intercode.interop.v1.interface import (
    V1BashEnv,
    V1Env,
    V1PythonEnv,
    V1SqlEnv,
    bash_test_data,
)
from intercode.rescoring.recordings import load_recording

AGREES = 0.011
RECORDINGS = (
    ("sql", "ic_sql_multiturn_gpt-3.5_10_turns.json", 0.992),
    ("python", "ic_python_multiturn_gpt-3.5_7_turns.json", 1.0),
    ("bash", "ic_bash_multiturn_gpt-3.5_10_turns_fs_1.json", None),
)


def use_database(record: dict[str, Any]) -> list[str]:
    return [f"use {record['db']}"]


def environment(language: str, root: Path) -> V1Env:
    if language == "sql":
        path = str(root / "spider" / "ic_spider_dev.json")
        return V1SqlEnv("docker-env-sql-spider", data_path=path, preprocess=use_database)
    if language == "python":
        (path,) = map(str, (root / "mbpp").glob("*.json"))
        return V1PythonEnv("intercode-python", data_path=path)
    path = str(root / "nl2bash" / "nl2bash_fs_1.json")
    return V1BashEnv("intercode-nl2bash", data_path=path)


def agreement(language: str, name: str, root: Path) -> tuple[int, int]:
    """Return how many recorded rewards are earned, and how many there are."""
    env, agree, scored = environment(language, root), 0, 0
    queries = {env.data_loader.get(index)["query"]: index for index in range(len(env.data_loader))}
    for episode in load_recording(root / "recorded" / name).episodes:
        env.reset(queries[episode.query])
        for turn in episode.turns:
            if turn.action is not None and turn.score is not None:
                env.step(turn.action)
                scored += 1
                agree += abs(env.get_reward()[0] - turn.score) < AGREES
    env.close()
    return agree, scored


def people(episodes: int) -> list[int]:
    """Return how many logged episodes `report` counts, `show` lists and `replay` repeats with the
    same reward."""
    with tempfile.TemporaryDirectory() as folder:
        env = V1BashEnv("intercode-bash", data_path=bash_test_data, image=None, traj_dir=folder)
        for index in range(episodes):
            env.reset(index)
            for action in ("ls", "cd /lab", "ls -la", "cat README.md", env.gold)[: 3 + index % 3]:
                env.step(action)
            env.step("submit")
        env.close()
        files = sorted(Path(folder, "logs_ic_bash").iterdir())
        log = Path(folder, "people.json")
        log.write_text(
            json.dumps({n: json.loads(file.read_text()) for n, file in enumerate(files)})
        )

        def asked(name: str) -> Any:
            program = Path(sys.executable).with_name("intercode")
            words = [str(program), name, str(log), "--json"]
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            return json.loads(done.stdout)

        differ = {reward["task"] for reward in asked("replay")["disagreements"]}
        shown = len(asked("show")["episodes"])
        return [asked("report")["episodes"], shown, episodes - len(differ)]


def play(env: Any, indices: range, ends: float, played: list[int]) -> None:
    """Play episodes until `ends`; append their number."""
    count = 0
    while time.monotonic() < ends:
        env.reset(indices[count % len(indices)])
        env.step(env.gold)
        env.step("submit")
        count += 1
    played.append(count)


def ours(make: Callable[[], V1Env], envs: int, seconds: float) -> float:
    """Return episodes per second of `envs` environments in threads."""
    made = [make() for _ in range(envs)]
    played: list[int] = []
    indices = range(len(made[0].data_loader))
    for env in made:
        env.reset(0)
    ends = time.monotonic() + seconds
    threads = [threading.Thread(target=play, args=(env, indices, ends, played)) for env in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for env in made:
        env.close()
    return sum(played) / seconds


def main() -> int:
    parser = command(__doc__)
    parser.add_argument("--first", help=f"a Python with intercode-bench (${v1.INTERPRETER})")
    parser.add_argument("--envs", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    rows, root = [], Path(os.environ.get("INTERCODE_DATA", "../shared/data"))
    for language, name, bound in RECORDINGS:
        if not (root / "recorded" / name).exists():
            skip(f"recorded rewards, {language}", f"{root} has no recorded/{name}")
            continue
        agree, scored = agreement(language, name, root)
        rows.append(Row(f"recorded rewards, {language}", agree, scored, bound, floor=True, unit=""))
    rows.append(Row("logged episodes, read", min(people(15)), 15, 1, floor=True, unit=""))
    python, missing = v1.interpreter(options.first)
    if why := missing or data.no_image() or v1.no_docker():
        skip("beside InterCode v1 on Docker", why)
        return finish(options, rows)
    image, queries = v1.own_image(python)
    with v1.playing(python, image, queries) as first:
        slow = first.speed(options.seconds)
    bash = partial(V1BashEnv, "intercode-bash", data_path=queries, image=v1.export(image))
    fast = ours(bash, options.envs, options.seconds)
    rows.append(Row("bash, episodes a second", fast, slow, 25, floor=True, unit=""))
    if why := MariadbEngine.missing():
        skip("sql beside InterCode v1 on Docker", why)
        return finish(options, rows)
    with v1.playing_sql(python) as first:
        slow = first.speed(options.seconds)
    queries = v1.own_data(python, "sql_queries.csv")  # the dump beside it is loaded
    sql = partial(V1SqlEnv, "docker-env-sql", data_path=queries, preprocess=use_database)
    fast = ours(sql, options.envs, options.seconds)
    rows.append(Row("sql, episodes a second", fast, slow, 1, floor=True, unit=""))
    return finish(options, rows)


if __name__ == "__main__":
    sys.exit(main())
