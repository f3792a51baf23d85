"""An outer sandbox, for attacks that are meant to succeed: small, short-lived, and as an unprivileged user.

    test ── timeout -s KILL ──► bwrap (own user, pid, net … namespaces; small tmpfs) ──► prlimit ──► this file, as a program
                                                                                                       └─ control of one attack

It prints one line of JSON. Started as root it runs as the sandboxes' user; the limits on processes and memory are set inside
its user namespace, so that they count nobody else's.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from intercode.attacks.sandbox import EXHAUSTION, KERNEL, OUTSIDE, Attack, host_targets
from intercode.sandbox import template
from intercode.sandbox.host import DisabledProtections
from intercode.sandbox.local import LocalSandbox

_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
_ENVIRONMENT = {"PATH": _PATH, "PYTHONPATH": "/code", "INTERCODE_CACHE": "/tmp/cache", "LANG": "C.UTF-8"}
_SECONDS, _PROCESSES, _MIB = 60, 400, 1 << 20
_BY_NAME = {attack.name: attack for attack in [*EXHAUSTION, *KERNEL, *OUTSIDE]}


def control(name: str) -> dict[str, Any]:
    """Run the control of an attack in an outer sandbox; return its output."""
    from intercode.sandbox.host import guest_python
    from intercode.sandbox.identity import identity
    from intercode.sandbox.local import usr_links

    python, folders = guest_python()
    with tempfile.TemporaryDirectory(prefix="outer-") as code:
        _copy_code(Path(code))
        command = ["timeout", "-s", "KILL", str(_SECONDS), "bwrap", "--unshare-all", "--uid", "1000", "--gid", "1000"]
        command += ["--die-with-parent", "--new-session", "--as-pid-1", "--ro-bind", "/usr", "/usr", *usr_links()]
        command += [word for folder in folders for word in ("--ro-bind", folder, folder)]
        command += ["--proc", "/proc", "--dev", "/dev", "--size", str(400 * _MIB), "--tmpfs", "/tmp"]
        command += ["--ro-bind", code, "/code", "--ro-bind", "/etc", "/etc"]
        command += ["--", "prlimit", f"--nproc={_PROCESSES}", f"--data={1024 * _MIB}", f"--fsize={512 * _MIB}", "--core=0"]
        command += [python, "-B", "/code/outer.py", name]
        done = subprocess.run(
            command, env=_ENVIRONMENT, cwd="/", capture_output=True, text=True, check=False, **identity().popen()
        )
    try:
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        answer = {"output": f"the outer sandbox ended with {done.returncode}: {done.stdout}{done.stderr}"}
    return answer


def _copy_code(to: Path) -> None:
    """Copy the modules that the control needs to a folder that the outer sandbox's user can read."""
    source = Path(template.__file__).parents[1]
    (to / "intercode").mkdir()
    (to / "intercode" / "__init__.py").touch()
    for name in ("errors.py", "types.py"):
        shutil.copy(source / name, to / "intercode")
    for room in ("sandbox", "attacks"):
        shutil.copytree(source / room, to / "intercode" / room, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(__file__, to)
    subprocess.run(["chmod", "-R", "a+rX", str(to)], check=True)


# -- inside -------------------------------------------------------------------------------------------------------------------


def weak(attack: Attack) -> dict[str, Any]:
    """The attack on a sandbox where its one protection is off."""
    disabled = DisabledProtections(calls=attack.calls, steps=attack.protections)
    with LocalSandbox(template.base(None), limits=attack.control_limits(), disabled=disabled) as sandbox:
        return {"output": sandbox.exec(attack.action).output}


def bare(attack: Attack) -> dict[str, Any]:
    """The attack by a plain shell."""
    with host_targets() as there:
        shell = ["setsid", "bash", "-c", there.fill(attack.action)]
        done = subprocess.run(shell, capture_output=True, text=True, check=False, timeout=30)
        return {"output": done.stdout + done.stderr + ("BREACH\n" if there.killed() else "")}


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    chosen = _BY_NAME[sys.argv[1]]
    print(json.dumps(bare(chosen) if chosen in OUTSIDE else weak(chosen)), flush=True)
