"""An outer sandbox, for attacks that are meant to succeed: small, short-lived, and as an
unprivileged user.

    test ── timeout -s KILL ──► bwrap (own user, pid, net … namespaces; small tmpfs) ──► prlimit
      ──► this file, as a program ── control of one attack

It prints one line of JSON. Started as root it runs as the sandboxes' user; the limits on processes
and memory are set inside its user namespace, so that they count nobody else's.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from intercode_sandbox import template
from intercode_sandbox.attacks import (
    EXHAUSTION,
    KERNEL,
    LIMITS,
    NEIGHBOURS,
    OUTSIDE,
    SandboxAttack,
    host_targets,
)
from intercode_sandbox.errors import SandboxError
from intercode_sandbox.host import DisabledProtections
from intercode_sandbox.local import LocalSandbox

_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
_ENVIRONMENT = {
    "PATH": _PATH,
    "PYTHONPATH": "/code",
    "INTERCODE_CACHE": "/tmp/cache",
    "LANG": "C.UTF-8",
}
_SECONDS, _PROCESSES, _MIB = 60, 400, 1 << 20
_BY_NAME = {attack.name: attack for attack in [*EXHAUSTION, *KERNEL, *OUTSIDE, *NEIGHBOURS]}
_NEIGHBOUR, _DESCRIPTORS, _TIMERS = 61_777, 3000, 3000


def control(name: str) -> dict[str, Any]:
    """Run the control of an attack in an outer sandbox; return its output."""
    from intercode_sandbox.host import guest_python
    from intercode_sandbox.identity import identity
    from intercode_sandbox.local import usr_links

    python, folders = guest_python()
    code = _code(python)
    command = [
        "timeout",
        "-s",
        "KILL",
        str(_SECONDS),
        "bwrap",
        "--unshare-all",
        "--uid",
        "1000",
        "--gid",
        "1000",
    ]
    command += [
        "--die-with-parent",
        "--new-session",
        "--as-pid-1",
        "--ro-bind",
        "/usr",
        "/usr",
        *usr_links(),
    ]
    command += [word for folder in folders for word in ("--ro-bind", folder, folder)]
    command += [
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--size",
        str(400 * _MIB),
        "--tmpfs",
        "/tmp",
    ]
    command += ["--ro-bind", str(code), "/code", "--ro-bind", "/etc", "/etc"]
    command += [
        "--",
        "prlimit",
        f"--nproc={_PROCESSES}",
        f"--data={1024 * _MIB}",
        f"--fsize={512 * _MIB}",
        "--core=0",
    ]
    command += [python, "-B", "/code/outer.py", name]
    done = subprocess.run(
        command,
        env=_ENVIRONMENT,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        **identity().popen(),
    )
    try:
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        answer = {
            "output": f"the outer sandbox ended with {done.returncode}: {done.stdout}{done.stderr}"
        }
    return answer


def beside(name: str, *, controlled: bool) -> dict[str, Any]:
    """Return what a neighbour of the sandbox of an attack suffers. Both run as a user of whom
    nobody else has sandboxes."""
    python = "/usr/bin/python3"
    code = _code(python)
    with tempfile.TemporaryDirectory(prefix="outer-") as cache:
        Path(cache).chmod(0o777)
        user = (
            {"user": _NEIGHBOUR, "group": _NEIGHBOUR, "extra_groups": []}
            if os.getuid() == 0
            else {}
        )
        limited = [
            "prlimit",
            f"--nofile={_DESCRIPTORS}",
            f"--sigpending={_TIMERS}",
            python,
            "-B",
            f"{code}/outer.py",
        ]
        environment = {**_ENVIRONMENT, "PYTHONPATH": str(code), "INTERCODE_CACHE": cache}
        done = subprocess.run(
            [*limited, name, "beside", *(["controlled"] if controlled else [])],
            env=environment,
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
            **user,
        )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


@functools.cache
def _code(python: str) -> Path:
    """Return a folder that the outer sandbox's user can read, with the modules that a control
    needs, compiled; it is there until this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="outer-"))
    atexit.register(shutil.rmtree, folder)
    source = Path(template.__file__).parents[1]
    name = "intercode_sandbox"
    shutil.copytree(source / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(__file__, folder)
    subprocess.run([python, "-m", "compileall", "-q", str(folder)], check=True)
    subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
    return folder


# -- inside ----------------------------------------------------------------------------------------


def weak(attack: SandboxAttack) -> dict[str, Any]:
    """The attack on a sandbox where its one protection is off."""
    disabled = DisabledProtections(attack.calls.split(), attack.protections.split())
    with LocalSandbox(
        template.base(None), limits=attack.control_limits(), disabled=disabled
    ) as sandbox:
        return {"output": sandbox.exec(attack.action).output}


def bare(attack: SandboxAttack) -> dict[str, Any]:
    """The attack by a plain shell."""
    with host_targets() as there:
        shell = ["setsid", "bash", "-c", there.fill(attack.action)]
        done = subprocess.run(shell, capture_output=True, text=True, check=False, timeout=30)
        return {"output": done.stdout + done.stderr + ("BREACH\n" if there.killed() else "")}


def neighbour(attack: SandboxAttack, controlled: bool) -> dict[str, Any]:
    """What an honest sandbox prints while the attack holds what it took. A fork sends a
    descriptor."""
    disabled = DisabledProtections(steps=attack.protections.split()) if controlled else None
    start = template.base(None)
    with (
        LocalSandbox(start, limits=replace(LIMITS, seconds=30), disabled=disabled) as hostile,
        LocalSandbox(start) as honest,
    ):
        held = hostile.exec(attack.action)
        try:
            with honest.fork() as copy:
                said = (
                    copy.exec(attack.after).output + honest.exec("seq 3 | sort -r | head -1").output
                )
        except SandboxError as error:
            said = f"{type(error).__name__}: {error}"
        return {"held": held.output, "timed_out": held.timed_out, "output": said}


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    chosen, *how = sys.argv[1:]
    attack = _BY_NAME[chosen]
    if how:
        print(json.dumps(neighbour(attack, "controlled" in how)), flush=True)
    else:
        print(json.dumps(bare(attack) if attack in OUTSIDE else weak(attack)), flush=True)
