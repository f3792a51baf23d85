"""Between a submission and its verdict the host reads and writes paths in sandboxes that the agent
worked in. Whatever the agent put there, the episode has a reward."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kept import needs_bwrap

import intercode
from intercode.env import InterCodeEnv
from intercode_sandbox.client import GuestSandbox

SERVE = "cd /srv && exec python3 -m http.server 8000 --bind 127.0.0.1"
SERVICES = {"shop": {"command": SERVE, "port": 8000}}
RECORDS: list[dict[str, Any]] = [
    {
        "id": "kept",
        "gold": "echo ok >/srv/done",
        "verify": "curl -s http://shop:8000/ >/dev/null && grep -q ok /srv/done\n",
        "keep_processes": True,
        "services": SERVICES,
    },
    {"id": "moved", "gold": "echo ok >/srv/done", "verify": "grep -q ok /srv/done\n"},
    {
        "id": "compared",
        "gold": "mkdir /srv/d; echo ok >/srv/d/x; tar cf /srv/d.tar -C /srv d; cat /srv/d/x",
    },
]
PLANTS = {
    "a folder": "mkdir {0}",
    "a FIFO": "mkfifo {0}",
    "a loop": "ln -s {0} {0}",
    "a device": "ln -s /dev/zero {0}",
    "a link to nowhere": "ln -s /nowhere/at/all {0}",
    "a file in place of its folder": "rm -rf {1}; echo >{1}",
}
OWN = """
import intercode
class Probed(intercode.BashEnv):
    data = "tasks.jsonl"
    probe = "#!/usr/bin/env bash\\nls /srv\\n"
"""
LEAST = 14
"""Paths that the host is known to touch."""


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InterCodeEnv]:
    needs_bwrap()
    folder = tmp_path_factory.mktemp("owned")
    lines = [json.dumps({"query": f"Do {record['id']}.", **record}) for record in RECORDS]
    (folder / "tasks.jsonl").write_text("\n".join(lines))
    own = folder / "own.py"
    own.write_text(OWN)
    with closing(intercode.make(f"{own}:Probed", max_turns=None)) as env:
        yield env


def play(env: InterCodeEnv, task: str, *actions: str) -> float:
    env.reset(options={"task": task})
    for action in actions:
        env.step(action)
    _, reward, terminated, _, info = env.step("submit")
    assert terminated
    assert info["ended"] == "submit"
    return reward


def traced(env: InterCodeEnv, task: str, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the paths that requests of the host name while a gold's work is judged."""
    gold = next(one.gold for one in env.tasks if one.id == task)
    env.reset(options={"task": task})
    env.step(gold)
    paths, plain = set[str](), GuestSandbox._request

    def noting(sandbox: GuestSandbox, op: str, *words: Any, **head: Any) -> Any:
        paths.update(str(head[key]) for key in ("path", "cwd") if head.get(key))
        paths.update(word for word in head.get("argv", ()) if str(word).startswith("/"))
        return plain(sandbox, op, *words, **head)

    with monkeypatch.context() as patched:
        patched.setattr(GuestSandbox, "_request", noting)
        assert env.step("submit")[1] == 1
    return {path for path in paths if path.startswith("/") and path != "/"}


@pytest.mark.slow
@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.soak), 3])
def test_whatever_is_at_a_path_of_the_host_there_is_a_reward(
    env: InterCodeEnv, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """At each path every third kind of entry, others at the next; all of them by soak."""
    paths = {record["id"]: traced(env, record["id"], monkeypatch) for record in RECORDS}
    assert {"/etc/hosts"} <= paths["kept"]
    assert {"/srv/done", "/srv/d.tar", "/srv/d/x"} & set.union(*paths.values())
    assert len(set.union(*paths.values())) >= LEAST
    for task, touched in paths.items():
        gold = next(one.gold for one in env.tasks if one.id == task)
        for number, path in enumerate(sorted(touched)):
            for what, plant in list(PLANTS.items())[number % step :: step]:
                quoted = shlex.quote(path), shlex.quote(str(Path(path).parent))
                action = f"rm -rf {quoted[0]}; {plant.format(*quoted)}"
                assert 0 <= play(env, task, gold, action) <= 1, (task, path, what)
