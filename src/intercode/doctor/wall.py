"""The local wall, layer by layer: each is tried, as the sandboxes' user, when those below it work.

user ─► bubblewrap ─► namespaces ─► /proc ─► nested namespaces ─► Python ─► overlay ─► attributes
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from intercode.doctor.finding import Finding
from intercode.errors import IntercodeError
from intercode.sandbox import wall
from intercode.sandbox.identity import identity

_APPARMOR = (
    "allow bwrap alone: printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap /usr/bin/bwrap flags=(unconfined) "
    "{\\n  userns,\\n}\\n' > /etc/apparmor.d/bwrap && apparmor_parser -r /etc/apparmor.d/bwrap "
    "(or everyone: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0)"
)
_REFUSALS = {  # a setting of the kernel, the value by which it refuses, and the line that mends it; the first one counts
    "/proc/sys/kernel/unprivileged_userns_clone": ("0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    "/proc/sys/user/max_user_namespaces": ("0", "sysctl -w user.max_user_namespaces=15000"),
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": ("1", _APPARMOR),
}
CONTAINER_OPTIONS = "--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined"
_MOUNT_OVERLAY = "cd /t && mkdir l u w m && mount -t overlay -o lowerdir=l,upperdir=u,workdir=w,userxattr overlay m"
_SET_ATTRIBUTE = "import os; open('/t/file', 'w').close(); os.setxattr('/t/file', 'user.intercode', b'y')"
_PYTHON_VERSION = "import sys; print('Python', sys.version.split()[0]); sys.exit(sys.version_info < (3, 9))"


def layers() -> Iterator[Finding]:
    walled = ["bwrap", "--unshare-all", "--unshare-user", "--uid", "0", "--gid", "0", "--cap-add", "ALL"]
    walled += ["--ro-bind", "/usr", "/usr", *wall.usr_links(), "--dev", "/dev"]
    program, folders = "python3", list[str]()
    with contextlib.suppress(IntercodeError):
        program, folders = wall.guest_python()
    python = [*(word for folder in folders for word in ("--ro-bind", folder, folder)), "--", program, "-I", "-S", "-c"]
    nested = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "true"]
    options = f"in a container, start it with {CONTAINER_OPTIONS}"
    allowing = f"{options}; else see what refuses them: dmesg | tail"
    for path, (refusing, line) in reversed(_REFUSALS.items()):
        with contextlib.suppress(OSError):
            allowing = line if Path(path).read_text().strip() == refusing else allowing
    trials = [
        ("sandboxes' user", ["/bin/true"], f"run intercode as an ordinary user, or where uid {identity().uid} is mapped"),
        ("bubblewrap", ["bwrap", "--version"], "apt-get install bubblewrap"),
        ("user namespaces", [*walled, "--", "true"], allowing),
        ("/proc", [*walled, "--proc", "/proc", "--", "true"], options),
        ("nested namespaces", [*walled, "--proc", "/proc", "--", *nested], options),
        ("guest's Python", [*walled, *python, _PYTHON_VERSION], "apt-get install python3 (3.9 or newer)"),
        (
            "overlay",
            [*walled, "--proc", "/proc", "--tmpfs", "/t", "--", "sh", "-c", _MOUNT_OVERLAY],
            "modprobe overlay; in a user namespace it needs Linux 5.11 or newer",
        ),
        ("tmpfs attributes", [*walled, "--tmpfs", "/t", *python, _SET_ATTRIBUTE], "use Linux 6.6 or newer"),
    ]
    broken = ""
    for what, argv, mend in trials:
        if broken:
            yield Finding(what, None, f"not tried, since it needs {broken}", f"mend {broken} first")
            continue
        worked, said = _attempt(argv)
        broken = "" if worked else what
        yield Finding(what, worked, said or ("works" if worked else "refused"), "" if worked else mend)


def _attempt(argv: list[str]) -> tuple[bool, str]:
    """Run a program as the sandboxes' user; return whether it succeeds, and the last line that it prints."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, cwd="/", **identity().popen())
    except (OSError, subprocess.SubprocessError) as error:
        return False, str(error)
    lines = (done.stdout + done.stderr).decode(errors="replace").split("\n")
    return done.returncode == 0, next((line.strip() for line in reversed(lines) if line.strip()), "")
