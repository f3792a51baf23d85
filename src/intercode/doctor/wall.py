"""The local wall, layer by layer: each is tried when those below it work.

    user ─► bubblewrap ─► namespaces ─► /proc ─► nested namespaces ─► Python ─► overlay ─► attributes

Kernel settings are read only to explain a trial that failed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

from intercode.doctor.finding import Finding, attempt, in_container, read
from intercode.errors import IntercodeError
from intercode.sandbox import wall
from intercode.sandbox.identity import identity

_APPARMOR = (
    "allow bwrap alone: printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap /usr/bin/bwrap flags=(unconfined) "
    "{\\n  userns,\\n}\\n' > /etc/apparmor.d/bwrap && apparmor_parser -r /etc/apparmor.d/bwrap "
    "(or everyone: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0)"
)
_REFUSALS = {
    "/proc/sys/kernel/unprivileged_userns_clone": ("0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    "/proc/sys/user/max_user_namespaces": ("0", "sysctl -w user.max_user_namespaces=15000"),
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": ("1", _APPARMOR),
}
CONTAINER_OPTIONS = "--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined"
_MOUNT_OVERLAY = "cd /t && mkdir l u w m && mount -t overlay -o lowerdir=l,upperdir=u,workdir=w,userxattr overlay m"
_SET_ATTRIBUTE = "import os; open('/t/file', 'w').close(); os.setxattr('/t/file', 'user.intercode', b'y')"
_PYTHON_VERSION = "import sys; print('Python', sys.version.split()[0]); sys.exit(sys.version_info < (3, 9))"


def layers() -> Iterator[Finding]:
    checks: list[tuple[str, Callable[[str], Finding]]] = [
        ("sandboxes' user", _user),
        ("bubblewrap", _bubblewrap),
        ("user namespaces", _namespaces),
        ("/proc", _proc),
        ("nested namespaces", _nested),
        ("guest's Python", _python),
        ("overlay", _overlay),
        ("tmpfs attributes", _attributes),
    ]
    broken = ""
    for what, check in checks:
        found = Finding(what, None, f"not tried, since it needs {broken}", f"mend {broken} first") if broken else check(what)
        broken = broken or (what if found.ok is False else "")
        yield found


def _user(what: str) -> Finding:
    trial = attempt("/bin/true")
    if trial.worked:
        return Finding(what, True, f"uid {identity().uid}" + (", since the caller is root" if identity().other else ""), "")
    mend = f"run intercode as an ordinary user, or in a container that maps uid {identity().uid}"
    return Finding(what, False, f"root cannot become uid {identity().uid} here: {trial.said}", mend)


def _bubblewrap(what: str) -> Finding:
    program = shutil.which("bwrap")
    if program is None:
        return Finding(what, False, "bwrap is not on PATH", "apt-get install bubblewrap")
    trial = attempt(program, "--version")
    return Finding(what, trial.worked, trial.said, "" if trial.worked else "apt-get install --reinstall bubblewrap")


def _namespaces(what: str) -> Finding:
    trial = attempt(*_walled(), "--", "true")
    if trial.worked:
        return Finding(what, True, "can be made without privileges", "")
    why, mend = _refusal(trial.said)
    return Finding(what, False, f"{trial.said or 'refused'} ({why})", mend)


def _nested(what: str) -> Finding:
    """Each episode lives in namespaces of its own inside the wall."""
    trial = attempt(
        *_walled("--proc", "/proc"), "--", "unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "true"
    )
    if trial.worked:
        return Finding(what, True, "can be made inside the wall", "")
    why, mend = _refusal(trial.said)
    return Finding(what, False, f"{trial.said or 'refused'} ({why})", mend)


def _refusal(said: str) -> tuple[str, str]:
    """Why there are no user namespaces, and the line that mends it."""
    if "Unexpected capabilities" in said:
        return "an ordinary user with capabilities", "start it with: setpriv --ambient-caps -all --inh-caps -all intercode …"
    for path, (refusing, mend) in _REFUSALS.items():
        if read(path).strip() == refusing:
            return f"{path} is {refusing}", mend
    if in_container():
        return "inside a container that refuses them", f"start the container with {CONTAINER_OPTIONS}"
    if "\nSeccomp:\t2\n" in read("/proc/self/status"):
        return "a seccomp filter around this process", "start it outside of that filter (a service manager, another sandbox)"
    return "no setting explains it", "look for a security module's refusal: dmesg | tail; cat /sys/kernel/security/lsm"


def _proc(what: str) -> Finding:
    trial = attempt(*_walled("--proc", "/proc"), "--", "true")
    mend = f"parts of /proc are hidden by mounts, as containers do; start the container with {CONTAINER_OPTIONS}"
    return Finding(what, trial.worked, "can be mounted" if trial.worked else trial.said, "" if trial.worked else mend)


def _python(what: str) -> Finding:
    mend = "apt-get install python3 (3.9 or newer)"
    try:
        program, folders = wall.guest_python()
    except IntercodeError as error:
        return Finding(what, False, str(error), mend)
    trial = attempt(*_walled(*_bound(folders)), "--", program, "-I", "-S", "-c", _PYTHON_VERSION)
    return Finding(what, trial.worked, f"{program}: {trial.said}", "" if trial.worked else mend)


def _overlay(what: str) -> Finding:
    trial = attempt(*_walled("--proc", "/proc", "--tmpfs", "/t"), "--", "sh", "-c", _MOUNT_OVERLAY)
    mend = "modprobe overlay; in a user namespace it needs Linux 5.11 or newer"
    return Finding(what, trial.worked, "can be mounted" if trial.worked else trial.said, "" if trial.worked else mend)


def _attributes(what: str) -> Finding:
    program, folders = wall.guest_python()
    trial = attempt(*_walled("--tmpfs", "/t", *_bound(folders)), "--", program, "-I", "-S", "-c", _SET_ATTRIBUTE)
    if trial.worked:
        return Finding(what, True, "folders can be marked as replaced", "")
    broken = "a folder of the template that is removed and made again fails or shows its old files"
    return Finding(what, False, f"{broken} ({trial.said})", "use Linux 6.6 or newer")


def _walled(*more: str) -> list[str]:
    """bwrap as the wall starts it, without its layers."""
    argv = ["bwrap", "--unshare-all", "--unshare-user", "--uid", "0", "--gid", "0", "--cap-add", "ALL"]
    return [*argv, "--ro-bind", "/usr", "/usr", *wall.usr_links(), "--dev", "/dev", *more]


def _bound(folders: list[str]) -> list[str]:
    return [word for folder in folders for word in ("--ro-bind", folder, folder)]
