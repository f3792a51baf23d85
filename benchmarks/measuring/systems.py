"""The systems that stand side by side in benchmarks/peers.py, as code for peer.py.

    step       `ls /` where the agent is
    reset      a fresh start after it; what offers none starts another environment
    verdict    the score of what an agent did, where the system scores
    episode    reset, step, and verdict
    outputs    what the golds of our starter tasks print, each after a reset; asked of ours, and of
               a shell that is not the real one

Those on Docker share one small Debian (for SWE-ReX with its server in it), but for intercode-bench,
which has the image of its own Dockerfile on our built root.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from fidelity import data, v1

from intercode.envs import prepare
from intercode_sandbox.docker.daemon import docker
from measuring.peer import Candidate
from measuring.rows import skip

IMAGE = "intercode-bench:procps"
Pair = tuple[Candidate, Candidate]
_REX_IMAGE = "intercode-bench:swe-rex"
_ALL = ("step", "reset", "episode")
_SCORED = (*_ALL, "verdict")

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
{more}
def reset():
    env.reset(options={{"task": setting.tasks[0].id}})
step = lambda: env.step("ls /")
verdict = lambda: env.step("submit")
def episode():
    reset()
    step()
    verdict()
operations = {{"step": step, "reset": reset, "verdict": verdict, "episode": episode}}
episode()
reset()
"""
_OUR_OUTPUTS = """
def outputs():
    for task in setting.tasks:
        env.reset(options={"task": task.id})
        output, *_, info = env.step(task.gold)
        yield output, info["exit_code"]
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
_BASHKIT = """
import tarfile
from bashkit import Bash
bash = Bash(username="root", hostname="intercode", cwd="/", env={variables!r})
disk = bash.fs()
with tarfile.open({files!r}) as tar:
    for entry in tar:
        path = "/" + entry.name
        if entry.issym():
            disk.symlink(entry.linkname, path)
            continue
        if entry.isdir():
            disk.mkdir(path)
        else:
            disk.write_file(path, tar.extractfile(entry).read())
        disk.chmod(path, entry.mode)
start = bash.snapshot()  # without times
def step(command="ls /"):
    said = bash.execute_sync(command)
    return said.stdout + said.stderr, said.exit_code
reset = lambda: bash.restore_snapshot(start)
def episode():
    reset()
    step()
def outputs():
    for gold in {golds!r}:
        reset()
        yield step(gold)
operations = {{"step": step, "reset": reset, "episode": episode}}
assert step()[1] == 0
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
operations = {{
    "step": lambda: env.step("ls /"),
    "reset": lambda: env.reset(0),
    "verdict": lambda: env.step("submit"),
    "episode": episode,
}}
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


def local(
    stack: ExitStack, mini: str | None, sandlock: str | None, bashkit: str | None
) -> Iterator[Pair]:
    """Ours first. The Pythons have mini-swe-agent, sandlock, bashkit; `stack` removes files."""
    setup = _OURS.format(options="", more=_OUR_OUTPUTS)
    yield _twice("intercode, local", sys.executable, setup, _SCORED)
    yield _twice("raw processes", sys.executable, _RAW, ("step", "episode"))
    yield _twice(
        "mini-swe-agent, local",
        mini,
        _MINI.format(module="local", kind="LocalEnvironment", options=""),
    )
    bubblewrap = _MINI.format(module="extra.bubblewrap", kind="BubblewrapEnvironment", options="")
    yield _twice("mini-swe-agent, bubblewrap", mini, bubblewrap, ending=_MINI_END)
    yield _twice("sandlock", sandlock, _SANDLOCK, ("step", "episode"))
    yield _twice("bashkit", bashkit, _BASHKIT.format(**_starter(stack)) if bashkit else "")


def on_docker(
    stack: ExitStack, named: str | None, rex: str | None, mini: str | None
) -> Iterator[Pair]:
    """Ours first. The Pythons have intercode-bench, SWE-ReX, mini-swe-agent; `stack` ends
    containers."""
    options = f"sandbox='docker', image={debian()!r}"
    yield _twice(
        "intercode, docker",
        sys.executable,
        _OURS.format(options=options, more=_OUR_CONTAINERS),
        _SCORED,
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


def _starter(stack: ExitStack) -> dict[str, Any]:
    """Return the golds of our starter tasks, their shell's variables, and a tar of their files, in
    which hard links are copies (bashkit would make symbolic ones)."""
    files = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "files.tar"
    setting = prepare("bash")
    env: Any = setting()
    with closing(env), env.world.spec.make() as sandbox:
        variables = sandbox.run(["env"]).stdout.decode()
        pack = ["tar", "--hard-dereference", "-C", "/", "-c", "depot", "lab"]
        files.write_bytes(sandbox.run(pack, output=2**24).stdout)
    return {
        "golds": [task.gold for task in setting.tasks],
        "variables": dict(line.split("=", 1) for line in variables.splitlines()),
        "files": str(files),
    }


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
    yield tuple(
        Candidate("intercode-bench, docker", python, setup, _SCORED) for setup in (one, other)
    )  # type: ignore[misc]


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
