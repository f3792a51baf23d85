"""Gymnasium's own tools work with SqlEnv: its checker, its registry, its vector environments, on both engines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from orchard import ENGINES, GOLDS, prepared, write

ID = "intercode:intercode/Sql-v0"
OPTIONS: list[dict[str, Any]] = [{}, {"protocol": "paper"}, {"handicap": True, "max_turns": 2}, {"robust": True}]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_gymnasiums_checker_passes(engine: str, options: dict[str, Any]) -> None:
    env = prepared(engine, **options)()
    check_env(env, skip_render_check=True)
    env.close()


def test_the_registered_environment_passes_and_forks(tmp_path: Path) -> None:
    prepared("sqlite")
    env = gymnasium.make(ID, data=str(write(tmp_path / "orchard")), engine="sqlite")
    check_env(env.unwrapped)
    env.reset(seed=1, options={"task": "count"})
    env.step("DELETE FROM picking")
    twin: Any = env.unwrapped.fork()  # type: ignore[attr-defined]
    assert twin.step("SELECT COUNT(*) FROM picking")[0] == "[(0,)]"
    twin.close()
    env.close()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "kind", [SyncVectorEnv, lambda makers: AsyncVectorEnv(makers, shared_memory=False)], ids=["sync", "async"]
)
def test_vector_environments_keep_every_database_apart(engine: str, kind: Callable[..., Any]) -> None:
    setting = prepared(engine)
    vector = kind([setting.make] * 3)
    queries, info = vector.reset(seed=5, options={"task": "count"})
    assert set(queries) == {"How many trees are there?"}
    assert list(info["task"]) == ["count"] * 3
    seen, _, terminated, truncated, info = vector.step(("DELETE FROM picking", GOLDS["count"], "submit"))
    assert list(seen) == ["OK, 8 rows affected", "[(7,)]", ""]
    assert (list(terminated), any(truncated)) == ([False, False, True], False)
    assert list(info["exit_code"]) == [0, 0, None]
    picked = "SELECT COUNT(*) FROM picking"
    seen, *_ = vector.step((picked, picked, "ignored, since this one is reset now"))
    assert list(seen)[:2] == ["[(0,)]", "[(8,)]"]
    _, rewards, *_ = vector.step((GOLDS["count"], "SELECT 7.0", picked))
    _, rewards, terminated, _, info = vector.step(("submit", "submit", "SELECT 1"))
    assert list(rewards) == [1, 1, 0]
    assert list(terminated) == [True, True, False]
    vector.close()
