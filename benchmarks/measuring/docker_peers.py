"""The docker backend against other systems on Docker: the first InterCode, and SWE-ReX.

    intercode-bench    its own 24 queries, its own Dockerfile on our built root; ours plays the same on the same image
    SWE-ReX            a session in a container whose image has its server; ours has a session in the same image

A system is left out, in words, where nobody named a Python that has it (benchmarks/peers.sh makes them). The first system
plays one episode at a time, since its containers have fixed names; for two of it the image is given two names.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from statistics import median

from fidelity import data, first

from intercode.agents import gold
from intercode.env import InterCodeEnv, Setting
from intercode.envs import prepare
from intercode.runner.run import evaluate
from intercode.sandbox.docker.daemon import docker
from intercode.sandbox.docker.images import make_image
from intercode.sandbox.docker.sandbox import DockerSandbox
from measuring.clock import Measure, timed
from measuring.peer import Candidate, Peer, installed
from measuring.rows import Row, skip

REX_INTERPRETER = "SWE_REX_PYTHON"
_RUNS, _EPOCHS = 15, 4
_REX_IMAGE = "intercode-bench:swe-rex"

_FIRST = """
from intercode.envs.bash import bash_env
bash_env.IMAGE_TO_SETTINGS[{image!r}] = "/bin/bash"
env = bash_env.BashEnv({image!r}, data_path={queries!r})
def episode(index):
    env.reset(index)
    env.step(env.gold)
    env.step("submit")
operations = {{
    "ls": lambda: env.step("ls /"),
    "reset": lambda: env.reset(0),
    "score": lambda: env.step("submit"),
    "all": lambda: [episode(index) for index in range(len(env.data_loader))],
}}
episode(0)
"""
_REX = """
import asyncio
from swerex.deployment.docker import DockerDeployment
from swerex.runtime.abstract import BashAction, Command, CreateBashSessionRequest
run = asyncio.new_event_loop().run_until_complete
deployment = DockerDeployment(image={image!r}, pull="never")
run(deployment.start())
run(deployment.runtime.create_session(CreateBashSessionRequest()))
operations = {{
    "ls": lambda: run(deployment.runtime.run_in_session(BashAction(command="ls /"))),
    "execute": lambda: run(deployment.runtime.execute(Command(command=["ls", "/"]))),
}}
operations["ls"]()
"""


def peer_rows(base: str, first_python: str | None, rex_python: str | None) -> Iterator[Row]:
    """`base` is a docker image of Debian 12, for SWE-ReX."""
    yield from _first_rows(first_python)
    rex = rex_python or os.environ.get(REX_INTERPRETER)
    setup = _REX.format(image=_rex_image(rex, base)) if rex else ""
    with installed([Candidate("SWE-ReX", rex, setup, ("ls", "execute"), "run(deployment.stop())")]) as peers:
        for peer in peers:
            yield from _rex_rows(peer)


def _medians(table: Mapping[str, Measure]) -> dict[str, float]:
    """All operations in turns, so that they meet the same noise."""
    rounds = [{name: measure() for name, measure in table.items()} for _ in range(_RUNS)]
    return {name: median(times[name] for times in rounds) for name in table}


# -- the first system ---------------------------------------------------------------------------------------------------


def _first_rows(named: str | None) -> Iterator[Row]:
    python, missing = first.interpreter(named)
    if why := data.no_image() or missing:
        return skip("intercode-bench", why)
    image, queries = first.own_image(python)
    how = {"protocol": "submit", "reward": "paper", "session": "stateless", "sandbox": "docker"}
    setting = prepare("bash", data=queries, image=image, **how)
    with ExitStack() as stack:
        names = [stack.enter_context(first.containers(image)) for _ in range(2)]
        setups = [_FIRST.format(image=name, queries=queries) for name in names]
        candidates = [Candidate("intercode-bench", python, setup, ("ls", "reset", "score")) for setup in setups]
        peers = stack.enter_context(installed(candidates))
        if len(peers) == len(names):
            yield from _operations(setting, peers[0])
            yield from _throughput(setting, peers)


def _operations(setting: Setting, peer: Peer) -> Iterator[Row]:
    words = {"ls": "step `ls /`", "reset": "reset", "score": "score"}
    with closing(setting()) as env:
        env.reset()
        ours: dict[str, Measure] = {
            "ls": lambda: timed(lambda: env.step("ls /")),
            "reset": lambda: timed(env.reset),
            "score": lambda: _score(env),
        }
        theirs = {f"peer {name}": partial(peer.measure, name) for name in peer.operations}
        at = _medians(ours | theirs)
    for name in peer.operations:
        yield Row(f"{words[name]}: docker backend, {peer.name}", at[name], at[f"peer {name}"])


def _score(env: InterCodeEnv) -> float:
    env.step("ls /")
    seconds = timed(lambda: env.step("submit"))
    env.reset()
    return seconds


def _throughput(setting: Setting, peers: Sequence[Peer]) -> Iterator[Row]:
    """Seconds for each gold episode, starting and ending of ours included."""
    sides: list[Callable[[], float]] = [
        lambda: timed(lambda: evaluate(setting, gold, workers=2, tasks=setting.tasks, epochs=_EPOCHS)) / _EPOCHS,
        lambda: peers[0].measure("all"),
        lambda: _together(peers) / len(peers),
    ]
    ours, alone, both = (side() / len(setting.tasks) for side in sides)
    yield Row("a gold episode: docker backend with 2 workers, intercode-bench", ours, alone, 1 / 3)
    yield Row("a gold episode: docker backend with 2 workers, intercode-bench twice", ours, both)


def _together(peers: Sequence[Peer]) -> float:
    started = time.perf_counter()
    with ThreadPoolExecutor(len(peers)) as pool:
        list(pool.map(lambda peer: peer.measure("all"), peers))
    return time.perf_counter() - started


# -- SWE-ReX ------------------------------------------------------------------------------------------------------------


def _rex_image(python: str, base: str) -> str:
    """Debian with SWE-ReX's server, so that its deployment need not install it at each start."""
    with tempfile.TemporaryDirectory() as folder:
        wheels = ["--only-binary=:all:", "--python-version", "3.11", "--dest", f"{folder}/wheels"]
        download = [python, "-I", "-m", "pip", "download", "--quiet", *wheels, "swe-rex"]
        subprocess.run(download, check=True, capture_output=True)
        Path(folder, "Dockerfile").write_text(
            f"FROM {base}\n"
            "RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-pip >/dev/null\n"
            "COPY wheels /wheels\n"
            "RUN pip install --quiet --break-system-packages --no-index --find-links /wheels swe-rex\n"
        )
        docker("build", "--quiet", "--force-rm", "--tag", _REX_IMAGE, folder, seconds=600)
    return _REX_IMAGE


def _rex_rows(peer: Peer) -> Iterator[Row]:
    with DockerSandbox(make_image(_REX_IMAGE)) as here:
        table: dict[str, Measure] = {name: partial(peer.measure, name) for name in peer.operations}
        at = _medians({"ours": lambda: timed(lambda: here.exec("ls /")), **table})
    yield Row("step `ls /`: docker backend, SWE-ReX's session", at["ours"], at["ls"], 0.5)
    yield Row("step `ls /`: docker backend, SWE-ReX without a session", at["ours"], at["execute"])
