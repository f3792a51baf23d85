"""The systems that stand side by side in benchmarks/peers.py, as code for peer.py.

    step       `ls /` where the agent is
    reset      a fresh start after it; what offers none starts another environment
    episode    reset, step, and the score where there is one

Those on Docker share one small Debian (for SWE-ReX with its server in it), but for intercode-bench,
which has the image of its own Dockerfile on our built root.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from fidelity import data, v1

from intercode_sandbox.docker.daemon import docker
from measuring.peer import Candidate
from measuring.rows import skip

IMAGE = "intercode-bench:procps"
Pair = tuple[Candidate, Candidate]
_REX_IMAGE = "intercode-bench:swe-rex"
_ALL = ("step", "reset", "episode")

_RAW = """
import subprocess
def step():
    subprocess.run(["bash", "-c", "ls /"], capture_output=True, check=True)
operations = {"step": step, "episode": step}
"""
_OURS = """
from intercode.envs import prepare
setting = prepare("bash", max_turns=None, {options})
env = setting()
{containers}
def reset():
    env.reset(options={{"task": setting.tasks[0].id}})
def episode():
    reset()
    env.step("ls /")
    env.step("submit")
operations = {{"step": lambda: env.step("ls /"), "reset": reset, "episode": episode}}
episode()
reset()
"""
_OUR_CONTAINERS = """
from intercode_sandbox.docker import daemon
owned = "label=" + daemon.owner_label()
containers = lambda: daemon.docker("ps", "--quiet", "--filter", owned).split()
"""
_MINI = """
os.environ["MSWEA_SILENT_STARTUP"] = "1"
from minisweagent.environments.{module} import {kind} as Environment
def step():
    said = env.execute({{"command": "ls /"}})
    assert said["returncode"] == 0, said
def reset():
    global env
    getattr(env, "cleanup", lambda: None)()
    env = Environment({options})
def episode():
    reset()
    step()
env = Environment({options})
containers = lambda: [env.container_id] if hasattr(env, "container_id") else []
operations = {{"step": step, "reset": reset, "episode": episode}}
step()
"""
_MINI_END = 'getattr(env, "cleanup", lambda: None)()'
_SANDLOCK = """
from sandlock import Sandbox
box = Sandbox(fs_readable=["/"])
def step():
    said = box.run(["bash", "-c", "ls /"])
    assert said.exit_code == 0, said
operations = {"step": step, "episode": step}
step()
"""
_FIRST = """
from intercode.envs.bash import bash_env
bash_env.IMAGE_TO_SETTINGS[{image!r}] = "/bin/bash"
env = bash_env.BashEnv({image!r}, data_path={queries!r})
def episode():
    env.reset(0)
    env.step("ls /")
    env.step("submit")
containers = lambda: ["{image}_ic_ctr", "{image}_ic_ctr_eval"]
operations = {{"step": lambda: env.step("ls /"), "reset": lambda: env.reset(0), "episode": episode}}
episode()
"""
_REX = """
import asyncio
from swerex.deployment.docker import DockerDeployment
from swerex.runtime.abstract import BashAction, CreateBashSessionRequest
run = asyncio.new_event_loop().run_until_complete
def start():
    global deployment
    deployment = DockerDeployment(image={image!r}, pull="never")
    run(deployment.start())
    run(deployment.runtime.create_session(CreateBashSessionRequest()))
def step():
    run(deployment.runtime.run_in_session(BashAction(command="ls /")))
def reset():
    run(deployment.stop())
    start()
def episode():
    reset()
    step()
containers = lambda: [deployment.container_name]
operations = {{"step": step, "reset": reset, "episode": episode}}
start()
step()
"""


def local(mini: str | None, sandlock: str | None) -> Iterator[Pair]:
    """Ours first. The Pythons have mini-swe-agent and sandlock."""
    yield _twice("intercode, local", sys.executable, _OURS.format(options="", containers=""))
    yield _twice("raw processes", sys.executable, _RAW, ("step", "episode"))
    yield _twice(
        "mini-swe-agent, local",
        mini,
        _MINI.format(module="local", kind="LocalEnvironment", options=""),
    )
    bubblewrap = _MINI.format(module="extra.bubblewrap", kind="BubblewrapEnvironment", options="")
    yield _twice("mini-swe-agent, bubblewrap", mini, bubblewrap, ending=_MINI_END)
    yield _twice("sandlock", sandlock, _SANDLOCK, ("step", "episode"))


def on_docker(
    stack: ExitStack, named: str | None, rex: str | None, mini: str | None
) -> Iterator[Pair]:
    """Ours first. The Pythons have intercode-bench, SWE-ReX, mini-swe-agent; `stack` ends
    containers."""
    options = f"sandbox='docker', image={debian()!r}"
    yield _twice(
        "intercode, docker",
        sys.executable,
        _OURS.format(options=options, containers=_OUR_CONTAINERS),
    )
    yield from _first(stack, named)
    yield _twice(
        "SWE-ReX, docker",
        rex,
        _REX.format(image=_rex_image(rex)) if rex else "",
        ending="run(deployment.stop())",
    )
    how = f"image={IMAGE!r}, run_args=['--rm', '--network', 'none']"
    setup = _MINI.format(module="docker", kind="DockerEnvironment", options=how)
    yield _twice("mini-swe-agent, docker", mini, setup, ending=_MINI_END)


def debian() -> str:
    if not docker("image", "ls", "--quiet", IMAGE):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "root.tar"
            made = [
                "mmdebstrap",
                "--quiet",
                "--variant=minbase",
                "--include=procps",
                "bookworm",
                str(root),
            ]
            subprocess.run(made, check=True, stderr=subprocess.DEVNULL)
            docker("import", "--change", 'CMD ["bash"]', str(root), IMAGE, seconds=600)
    return IMAGE


def _twice(
    name: str, python: str | None, setup: str, operations: tuple[str, ...] = _ALL, ending: str = ""
) -> Pair:
    made = Candidate(name, python, setup, operations, ending)
    return made, made


def _first(stack: ExitStack, named: str | None) -> Iterator[Pair]:
    """It finds its containers by the image's name, so each has a name of its own."""
    python, missing = v1.interpreter(named)
    if why := (None if python else missing) or data.no_image():
        return skip("intercode-bench, docker", why)
    if missing:
        raise OSError(missing)
    image, queries = v1.own_image(python)
    names = [stack.enter_context(v1.containers(image)) for _ in range(2)]
    one, other = [_FIRST.format(image=name, queries=queries) for name in names]
    yield tuple(Candidate("intercode-bench, docker", python, setup, _ALL) for setup in (one, other))  # type: ignore[misc]


def _rex_image(python: str) -> str:
    """Debian with SWE-ReX's server, so that its deployment need not install it at each start."""
    with tempfile.TemporaryDirectory() as folder:
        wheels = ["--only-binary=:all:", "--python-version", "3.11", "--dest", f"{folder}/wheels"]
        download = [python, "-I", "-m", "pip", "download", "--quiet", *wheels, "swe-rex"]
        subprocess.run(download, check=True, capture_output=True)
        Path(folder, "Dockerfile").write_text(
            f"FROM {debian()}\nRUN apt-get update -qq && apt-get install -y -qq"
            " --no-install-recommends python3-pip >/dev/null\nCOPY wheels /wheels\nRUN pip install"
            " --quiet --break-system-packages --no-index --find-links /wheels swe-rex\n"
        )
        docker("build", "--quiet", "--force-rm", "--tag", _REX_IMAGE, folder, seconds=600)
    return _REX_IMAGE
