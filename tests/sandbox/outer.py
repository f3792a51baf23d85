"""A second wall, for attacks that are meant to succeed: small, short-lived, and as an unprivileged user.

    test ── timeout -s KILL ──► bwrap (own user, pid, net … namespaces; small tmpfs) ──► prlimit ──► this file, as a program
                                                                                                       └─ control of one attack

It prints one line of JSON. Started as root it runs as the sandboxes' user; the limits on processes and memory are set inside
its user namespace, so that they count nobody else's.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attacks import EXHAUSTION, KERNEL, OUTSIDE, Attack

from intercode.sandbox import template
from intercode.sandbox.local import LocalSandbox

_SECONDS, _PROCESSES, _MIB = 60, 400, 1 << 20
_BY_NAME = {attack.name: attack for attack in [*EXHAUSTION, *KERNEL, *OUTSIDE]}


def control(name: str) -> dict[str, Any]:
    """Run the control of an attack in an outer wall; what it printed."""
    from intercode.sandbox.identity import identity
    from intercode.sandbox.wall import guest_python, usr_links

    python, folders = guest_python()
    with tempfile.TemporaryDirectory(prefix="outer-") as code:
        _copy_code(Path(code))
        command = ["timeout", "-s", "KILL", str(_SECONDS), "bwrap", "--unshare-all", "--uid", "1000", "--gid", "1000"]
        command += ["--die-with-parent", "--new-session", "--as-pid-1", "--ro-bind", "/usr", "/usr", *usr_links()]
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
            "--ro-bind",
            code,
            "/code",
        ]
        command += ["--ro-bind", "/etc", "/etc"]
        command += ["--", "prlimit", f"--nproc={_PROCESSES}", f"--data={1024 * _MIB}", f"--fsize={512 * _MIB}", "--core=0"]
        command += [python, "-B", "/code/outer.py", name]
        done = subprocess.run(
            command, env=_ENVIRONMENT, cwd="/", capture_output=True, text=True, check=False, **identity().popen()
        )
    try:
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        answer = {"output": f"the outer wall ended with {done.returncode}: {done.stdout}{done.stderr}"}
    return answer


_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
    "PYTHONPATH": "/code",
    "INTERCODE_CACHE": "/tmp/cache",
    "LANG": "C.UTF-8",
}


def source() -> Path:
    """The package's own folder."""
    return Path(template.__file__).parents[1]


def _copy_code(to: Path) -> None:
    """The sandbox room and this folder, where the outer wall's user can read them."""
    here = Path(__file__).parent
    (to / "intercode").mkdir()
    (to / "intercode" / "__init__.py").touch()
    for name in ("errors.py", "types.py"):
        shutil.copy(source() / name, to / "intercode")
    shutil.copytree(source() / "sandbox", to / "intercode" / "sandbox", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("attacks.py", "outer.py"):
        shutil.copy(here / name, to)
    subprocess.run(["chmod", "-R", "a+rX", str(to)], check=True)


# -- inside -------------------------------------------------------------------------------------------------------------------


def weak(attack: Attack) -> dict[str, Any]:
    """The attack on a sandbox where its one protection is off."""
    with LocalSandbox(template.base(None), limits=attack.wide(), weakened=attack.weakened()) as sandbox:
        return {"output": sandbox.exec(attack.action).output}


def bare(attack: Attack) -> dict[str, Any]:
    """The attack by a plain shell."""
    return with_targets(lambda fill: _plain(fill(attack.action)))


def _plain(action: str) -> dict[str, Any]:
    done = subprocess.run(["setsid", "bash", "-c", action], capture_output=True, text=True, check=False, timeout=30)
    return {"output": done.stdout + done.stderr}


def with_targets(run: Callable[[Callable[[str], str]], dict[str, Any]], **user: Any) -> dict[str, Any]:
    """Plant what an attack from inside wants to reach: a process with a secret, a file, two listening sockets."""
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
        subprocess.Popen(["sleep", "54321"], env={**os.environ, "PLANTED": "outside"}, **user) as victim,
    ):
        port = server.getsockname()[1]
        abstract.bind(f"\0intercode-test-{port}")
        abstract.listen()
        file = Path(folder) / "planted"
        file.write_text("BREACH\n")
        Path(folder).chmod(0o755)
        words = {"@FILE@": str(file), "@PORT@": str(port)}

        def fill(action: str) -> str:
            for word, value in words.items():
                action = action.replace(word, value)
            return action

        try:
            answer = run(fill)
            dead = victim.poll() is not None or _ends_soon(victim)
            return {"output": answer["output"] + ("BREACH\n" if dead else "")}
        finally:
            victim.kill()


def _ends_soon(victim: subprocess.Popen[bytes]) -> bool:
    try:
        victim.wait(timeout=0.5)
    except subprocess.TimeoutExpired:
        return False
    return True


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    chosen = _BY_NAME[sys.argv[1]]
    print(json.dumps(bare(chosen) if chosen in OUTSIDE else weak(chosen)), flush=True)
