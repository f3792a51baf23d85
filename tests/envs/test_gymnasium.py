"""Gymnasium's own tools work with the environments: its checker, its registry, its vector
environments."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from kept import needs_bwrap

import intercode
from intercode.envs.rewards import load_reward
from intercode.errors import UsageError

pytestmark = pytest.mark.slow

ID = "intercode:intercode/Bash-v0"


def test_gymnasiums_checker_passes_under_any_options(make: Callable[..., Any]) -> None:
    for options in (
        {},
        {"protocol": "paper"},
        {"reward": "paper", "session": "stateless", "max_turns": 2},
    ):
        # that check needs a registered one, below
        check_env(make(**options), skip_render_check=True)


@pytest.mark.parametrize("name", ["Bash", "Sql", "Python", "Ctf"])
def test_the_registered_environments_pass_and_fork(name: str) -> None:
    needs_bwrap()
    env = gymnasium.make(
        f"intercode:intercode/{name}-v0", limit=2, **{"engine": "sqlite"} if name == "Sql" else {}
    )
    assert env.spec is not None
    check_env(env.unwrapped)
    env.reset(seed=1)
    with env.unwrapped.fork() as twin:  # type: ignore[attr-defined]
        assert twin.step("1")[0] == env.step("1")[0]
    env.close()


def test_it_renders_what_was_seen_last_as_text(box: Path) -> None:
    env = gymnasium.make(ID, data=str(box), render_mode="ansi")
    query, _ = env.reset(options={"task": "names"})
    assert env.render() == query
    env.step("ls /box")
    assert env.render() == "> ls /box\na\nb\nc\n"
    env.close()


def test_the_id_is_known_whatever_is_imported_first() -> None:
    for first, name in (
        ("import intercode, gymnasium", "intercode/Bash-v0"),
        ("import gymnasium", ID),
    ):
        script = (
            f"{first}\nenv = gymnasium.make({name!r}, limit=1)\nprint(env.unwrapped)\nenv.close()"
        )
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", script],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "BashEnv" in done.stdout


def test_a_factory_is_pickled_as_a_name_and_options_and_prepared_anew_in_the_other_process(
    box: Path,
) -> None:
    reward = load_reward("intercode.envs.bash.compare:bash_exact")
    factory = intercode.prepare("bash", data=str(box), limit=2, reward=reward)
    script = (
        "import pickle, sys; factory = pickle.load(sys.stdin.buffer); env = factory(); "
        "env.reset(options={'task': 'count'})\nenv.step(env.task.gold); "
        "print([task.id for task in factory.tasks], env.step('submit')[1], factory.facts())"
    )
    command = [sys.executable, "-c", script]
    content = pickle.dumps(replace(factory, tasks=factory.tasks[:1]))
    done = subprocess.run(command, input=content, capture_output=True, check=True)
    assert done.stdout.decode() == f"['count'] 1.0 {factory.facts()}\n"


def test_shared_memory_is_refused_in_one_sentence() -> None:
    with pytest.raises(UsageError, match=r"shared_memory=False\), or make_vec\(…, vector_kwargs="):
        AsyncVectorEnv([lambda: intercode.make("bash", limit=1)], context="spawn")


ASYNC = partial(AsyncVectorEnv, context="spawn", shared_memory=False)


@pytest.mark.parametrize("kind", [SyncVectorEnv, ASYNC], ids=["sync", "async"])
def test_vector_environments_keep_every_text_apart(box: Path, kind: Callable[..., Any]) -> None:
    vector = kind([lambda: intercode.make("bash", data=str(box))] * 3)
    queries, info = vector.reset(seed=5, options={"task": "names"})
    assert set(queries) == {"Print the names in /box."}
    assert list(info["task"]) == ["names"] * 3
    seen, rewards, terminated, truncated, info = vector.step(
        ("cat /box/c", "printf 'ünïcødé ☃\\n'; exit 4", "submit")
    )
    assert list(seen) == ["plum ünd €\n", "ünïcødé ☃\n[the shell ended; a new one starts in /]", ""]
    assert (list(terminated), any(truncated)) == ([False, False, True], False)
    assert list(info["exit_code"]) == [0, 4, None]
    assert list(info["ended"]) == [None, None, "submit"]
    seen, rewards, *_ = vector.step(("ls /box", "pwd", "ignored, since this one is reset now"))
    assert list(seen)[:2] == ["a\nb\nc\n", "/\n"]
    assert list(rewards) == [0, 0, 0]
    _, rewards, terminated, *_ = vector.step(("submit", "submit", "pwd"))
    assert (list(rewards), list(terminated)) == ([1, 0, 0], [True, True, False])
    vector.close()
