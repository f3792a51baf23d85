"""The real thing: a sandbox, timed, and which of the backends can be used here."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from intercode.doctor.finding import Finding
from intercode.errors import IntercodeError
from intercode.sandbox import cache, template
from intercode.sandbox.build import with_script
from intercode.sandbox.identity import UID
from intercode.sandbox.local import LocalSandbox

_BACKENDS = {"local": "sandbox", "docker": "docker"}
_CHROOT = "chroot"
_CAGE = f"""
import os, sys
os.chown(sys.argv[1], {UID}, {UID})
os.mknod(sys.argv[1] + "/null", 0o20666, os.makedev(1, 3))
open(sys.argv[1] + "/null", "wb").close()
os.chroot(sys.argv[1])
os.setgroups([])
os.setresgid({UID}, {UID}, {UID})
os.setresuid({UID}, {UID}, {UID})
"""


def findings() -> Iterator[Finding]:
    yield _cage()
    try:
        made = with_script(template.base(None), "rmdir /media", name="doctor")
        assert isinstance(made, template.Template)
        start = time.perf_counter()
        with LocalSandbox(made) as sandbox:
            started = time.perf_counter() - start
            yield _first_steps(sandbox, started)
            yield _owners(sandbox)
    except (IntercodeError, OSError) as error:
        yield Finding("sandbox", False, str(error), "mend what is found above")


def backends(found: list[Finding]) -> Finding:
    """Which of them can be used, by what else was found."""
    well = {finding.what for finding in found if finding.ok}
    names = [name for name, what in _BACKENDS.items() if what in well]
    if names:
        return Finding("backends", True, f"--sandbox {' or '.join(names)} works here", "")
    if _CHROOT in well:
        return Finding(
            "backends", None, "only --sandbox chroot works here, which is weak", "see docs/security.md before using it"
        )
    return Finding("backends", False, "no sandbox works here", "mend what is found above")


def _cage() -> Finding:
    """Whether root may do what the chroot sandbox needs."""
    if os.getuid() != 0:
        return Finding(_CHROOT, None, "only root can make one (--sandbox chroot)", "use another backend")
    try:
        with tempfile.TemporaryDirectory(dir=cache.root()) as folder:
            done = subprocess.run([sys.executable, "-I", "-c", _CAGE, folder], capture_output=True, text=True, timeout=20)
    except (IntercodeError, OSError, subprocess.SubprocessError) as error:
        return Finding(_CHROOT, None, str(error), "use another backend")
    if done.returncode == 0:
        return Finding(_CHROOT, True, "can be made; it is weak (--sandbox chroot)", "")
    mend = "start the container with --cap-add CHOWN,DAC_OVERRIDE,FOWNER,KILL,MKNOD,SETGID,SETUID,SYS_CHROOT"
    return Finding(_CHROOT, None, done.stderr.strip().rpartition("\n")[2], mend)


def _first_steps(sandbox: LocalSandbox, started: float) -> Finding:
    said = sandbox.exec("echo works > /file; cat /file; ls -d /media 2>/dev/null").output
    start = time.perf_counter()
    sandbox.reset()
    left = sandbox.exec("ls /file 2>/dev/null").output
    reset = time.perf_counter() - start
    ok = (said, left) == ("works\n", "")
    detail = f"started in {started * 1e3:.0f} ms, reset with a first command in {reset * 1e3:.0f} ms"
    return Finding("sandbox", ok, detail if ok else f"printed {said!r}, and after a reset {left!r}", "" if ok else "report it")


def _owners(sandbox: LocalSandbox) -> Finding:
    if sandbox.exec("touch /owned && chown 1 /owned").exit_code == 0:
        return Finding("owners", True, "files can be given to other users inside", "")
    mend = "leave out the tasks that need it (intercode check names them)"
    return Finding("owners", None, "one user inside: chown to another fails, which tasks seldom notice", mend)
