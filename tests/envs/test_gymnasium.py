"""Gymnasium's own tools work with the environment: its checker, its registry, its vector environments."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

import intercode
from intercode.env import Utf8
from intercode.errors import UsageError

ID = "intercode:intercode/Bash-v0"


def test_gymnasiums_checker_passes(make: Callable[..., Any]) -> None:
    check_env(make(), skip_render_check=True)  # that check needs a registered one, below


@pytest.mark.parametrize("options", [{"protocol": "paper"}, {"reward": "paper", "session": "stateless", "max_turns": 2}])
def test_the_checker_passes_under_other_options(make: Callable[..., Any], options: dict[str, Any]) -> None:
    check_env(make(**options), skip_render_check=True)


def test_the_registered_environment_passes_and_forks(box: Path) -> None:
    env = gymnasium.make(ID, data=str(box))
    assert env.spec is not None
    check_env(env.unwrapped)
    env.reset(seed=1, options={"task": "names"})
    env.step("cd /box")
    twin: Any = env.unwrapped.fork()  # type: ignore[attr-defined]
    assert twin.step("pwd")[0] == "/box\n"
    twin.close()
    env.close()


def test_it_renders_what_was_seen_last_as_text(box: Path) -> None:
    env = gymnasium.make(ID, data=str(box), render_mode="ansi")
    query, _ = env.reset(options={"task": "names"})
    assert env.render() == query
    env.step("ls /box")
    assert env.render() == "> ls /box\na\nb\nc\n"
    env.close()
    with pytest.raises(UsageError, match=r"render_mode 'human': it is one of \['ansi'\]"):
        intercode.make("bash", data=str(box), render_mode="human")


def test_an_unknown_option_of_reset_is_refused(make: Callable[..., Any]) -> None:
    with pytest.raises(UsageError, match="no option 'index'; it takes 'task'"):
        make().reset(options={"index": 3})


@pytest.mark.slow
@pytest.mark.parametrize("first", ["import gymnasium, intercode", "import intercode, gymnasium", "import gymnasium"])
def test_the_id_is_known_whatever_is_imported_first(first: str) -> None:
    name = ID if first == "import gymnasium" else "intercode/Bash-v0"
    script = f"{first}\nenv = gymnasium.make({name!r}, limit=1)\nprint(env.unwrapped)\nenv.close()"
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "BashEnv" in done.stdout


def test_importing_the_package_does_not_import_gymnasium() -> None:
    script = "import sys, intercode; print('gymnasium' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


@pytest.mark.parametrize("kind", [SyncVectorEnv, lambda makers: AsyncVectorEnv(makers, context="spawn")])
def test_vector_environments_keep_every_text_apart(box: Path, kind: Callable[..., Any]) -> None:
    vector = kind([lambda: intercode.make("bash", data=str(box))] * 3)
    queries, info = vector.reset(seed=5, options={"task": "names"})
    assert set(queries) == {"Print the names in /box."}
    assert list(info["task"]) == ["names"] * 3
    seen, rewards, terminated, truncated, info = vector.step(("cat /box/c", "printf 'ünïcødé ☃\\n'; exit 4", "submit"))
    assert list(seen) == ["plum ünd €\n", "ünïcødé ☃\n[the shell ended; a new one starts in /]", ""]
    assert list(terminated) == [False, False, True]
    assert not any(truncated)
    assert list(info["exit_code"]) == [0, 4, None]
    assert list(info["ended"]) == [None, None, "submit"]
    seen, rewards, *_ = vector.step(("ls /box", "pwd", "ignored, since this one is reset now"))
    assert list(seen)[:2] == ["a\nb\nc\n", "/\n"]
    assert list(rewards) == [0, 0, 0]
    _, rewards, terminated, *_ = vector.step(("submit", "submit", "pwd"))
    assert list(rewards) == [1, 0, 0]
    assert list(terminated) == [True, True, False]
    vector.close()


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_each_environment_of_a_vector_has_an_order_of_its_own(box: Path, mode: str) -> None:
    vector = gymnasium.make_vec(ID, num_envs=4, vectorization_mode=mode, data=str(box))
    first, _ = vector.reset(seed=11)
    again, _ = vector.reset(seed=11)
    assert list(first) == list(again)
    assert len(set(first)) > 1
    vector.close()


def test_the_text_space_takes_what_utf8_can_carry() -> None:
    space = Utf8(seed=3)
    assert all(text in space for text in ("", "a b", "ünï ☃\n\t\0", "x" * 100_000))
    assert all(thing not in space for thing in (7, None, b"bytes", "\ud800", np.zeros(3)))
    assert all(space.sample() in space for _ in range(20))
    assert Utf8(max_length=3) == Utf8(max_length=3)
    assert "four" not in Utf8(max_length=3)
