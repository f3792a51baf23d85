"""What works on this machine, found by trying it, and the line that mends what does not.

    user ─► bubblewrap ─► namespaces ─► /proc ─► nested namespaces ─► Python ─► overlay ─► attributes   each needs the last
    cache, leftovers, memory, image tools, docker                                                       each on its own
    sandbox, owners                                                                                     the real thing, timed

Kernel settings are read only to explain a trial that failed. `clean` removes what processes that are gone have left.
"""

from __future__ import annotations

import os
import platform
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from intercode.errors import IntercodeError, SandboxUnavailable
from intercode.sandbox import cache, template, wall
from intercode.sandbox.docker import leftovers
from intercode.sandbox.docker.daemon import docker
from intercode.sandbox.identity import identity
from intercode.sandbox.local import LocalSandbox

GIB = 1 << 30
_SPACE, _MEMORY = 2 * GIB, GIB
_STALE = 3600
"""Seconds after which a build's work folder counts as left over."""

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
_CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv", "/run/systemd/container")
_OPTIONS = "--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined"
_MOUNT_OVERLAY = "cd /t && mkdir l u w m && mount -t overlay -o lowerdir=l,upperdir=u,workdir=w,userxattr overlay m"
_SET_ATTRIBUTE = "import os; open('/t/file', 'w').close(); os.setxattr('/t/file', 'user.intercode', b'y')"
_PYTHON_VERSION = "import sys; print('Python', sys.version.split()[0]); sys.exit(sys.version_info < (3, 9))"


class Finding(NamedTuple):
    """`ok` is None for what sandboxes can do without, and for what could not be tried. `mend` is "" where all is well."""

    what: str
    ok: bool | None
    detail: str
    mend: str


class _Trial(NamedTuple):
    worked: bool
    said: str


def examine() -> list[Finding]:
    """Try everything, in the order in which it should be mended. Takes a second or two; writes to nothing but the cache."""
    if platform.system() != "Linux":
        return [Finding("system", False, f"{platform.system()} has no namespaces", "use a Linux machine, or a Linux VM")]
    return [_kernel(), *_wall(), _cache(), *_leftovers(), _memory(), _mmdebstrap(), _docker(), *_sandbox()]


def clean() -> list[str]:
    """Remove what processes that are gone have left: work folders of builds, containers. Says what it removed."""
    folders = _cut_short()
    for folder in folders:
        cache.remove(folder)
    try:
        containers = leftovers.clear() if shutil.which("docker") else []
    except SandboxUnavailable:  # a daemon that is down runs no containers
        containers = []
    return [*(f"folder {folder}" for folder in folders), *(f"container {name[:12]}" for name in containers)]


# -- the wall, layer by layer ------------------------------------------------------------------------------------------


def _wall() -> Iterator[Finding]:
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
    trial = _try("/bin/true")
    if trial.worked:
        return Finding(what, True, f"uid {identity().uid}" + (", since the caller is root" if identity().other else ""), "")
    mend = f"run intercode as an ordinary user, or in a container that maps uid {identity().uid}"
    return Finding(what, False, f"root cannot become uid {identity().uid} here: {trial.said}", mend)


def _bubblewrap(what: str) -> Finding:
    program = shutil.which("bwrap")
    if program is None:
        return Finding(what, False, "bwrap is not on PATH", "apt-get install bubblewrap")
    trial = _try(program, "--version")
    return Finding(what, trial.worked, trial.said, "" if trial.worked else "apt-get install --reinstall bubblewrap")


def _namespaces(what: str) -> Finding:
    trial = _try(*_walled(), "--", "true")
    if trial.worked:
        return Finding(what, True, "can be made without privileges", "")
    why, mend = _refusal(trial.said)
    return Finding(what, False, f"{trial.said or 'refused'} ({why})", mend)


def _nested(what: str) -> Finding:
    """Each episode lives in namespaces of its own inside the wall."""
    trial = _try(
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
        if _read(path).strip() == refusing:
            return f"{path} is {refusing}", mend
    if _container():
        return "inside a container that refuses them", f"start the container with {_OPTIONS}"
    if "\nSeccomp:\t2\n" in _read("/proc/self/status"):
        return "a seccomp filter around this process", "start it outside of that filter (a service manager, another sandbox)"
    return "no setting explains it", "look for a security module's refusal: dmesg | tail; cat /sys/kernel/security/lsm"


def _proc(what: str) -> Finding:
    trial = _try(*_walled("--proc", "/proc"), "--", "true")
    mend = f"parts of /proc are hidden by mounts, as containers do; start the container with {_OPTIONS}"
    return Finding(what, trial.worked, "can be mounted" if trial.worked else trial.said, "" if trial.worked else mend)


def _python(what: str) -> Finding:
    mend = "apt-get install python3 (3.9 or newer)"
    try:
        program, folders = wall.guest_python()
    except IntercodeError as error:
        return Finding(what, False, str(error), mend)
    trial = _try(*_walled(*_bound(folders)), "--", program, "-I", "-S", "-c", _PYTHON_VERSION)
    return Finding(what, trial.worked, f"{program}: {trial.said}", "" if trial.worked else mend)


def _overlay(what: str) -> Finding:
    trial = _try(*_walled("--proc", "/proc", "--tmpfs", "/t"), "--", "sh", "-c", _MOUNT_OVERLAY)
    mend = "modprobe overlay; in a user namespace it needs Linux 5.11 or newer"
    return Finding(what, trial.worked, "can be mounted" if trial.worked else trial.said, "" if trial.worked else mend)


def _attributes(what: str) -> Finding:
    program, folders = wall.guest_python()
    trial = _try(*_walled("--tmpfs", "/t", *_bound(folders)), "--", program, "-I", "-S", "-c", _SET_ATTRIBUTE)
    if trial.worked:
        return Finding(what, True, "folders can be marked as replaced", "")
    broken = "a folder of the template that is removed and made again fails or shows its old files"
    return Finding(what, False, f"{broken} ({trial.said})", "use Linux 6.6 or newer")


# -- around it ---------------------------------------------------------------------------------------------------------


def _kernel() -> Finding:
    inside = ", in a container" if _container() else ""
    return Finding("kernel", True, f"{platform.system()} {platform.release()}{inside}", "")


def _cache() -> Finding:
    mend = "set INTERCODE_CACHE to a folder on a disk with space, which you may write and everyone may enter"
    try:
        root = cache.root()
    except (IntercodeError, OSError) as error:
        return Finding("cache", False, str(error), mend)
    free = shutil.disk_usage(root).free
    detail = f"{root}, {free / GIB:.1f} GiB free"
    if not os.access(root, os.W_OK | os.X_OK):
        return Finding("cache", False, f"{root} cannot be written", mend)
    return Finding("cache", True if free >= _SPACE else None, detail, "" if free >= _SPACE else mend)


def _leftovers() -> Iterator[Finding]:
    if old := _cut_short():
        yield Finding("leftovers", None, f"{len(old)} builds were cut short", "intercode doctor --clean")


def _cut_short() -> list[Path]:
    """Work folders of builds that did not end; young ones may be at work."""
    return [path for path in cache.place().glob("*/.*") if _stale(path)]


def _stale(path: Path) -> bool:
    info = path.lstat()
    return stat.S_ISDIR(info.st_mode) and time.time() - info.st_mtime > _STALE


def _memory() -> Finding:
    words = _read("/proc/meminfo").split()
    free = int(words[words.index("MemAvailable:") + 1]) * 1024
    detail = f"{free / GIB:.1f} GiB available, {len(os.sched_getaffinity(0))} cores"
    return Finding("memory", True if free >= _MEMORY else None, detail, "" if free >= _MEMORY else "use --workers 1")


def _mmdebstrap() -> Finding:
    if shutil.which("mmdebstrap"):
        return Finding("mmdebstrap", True, "images can be built", "")
    return Finding("mmdebstrap", None, "no images can be built (intercode image build)", "apt-get install mmdebstrap")


def _docker() -> Finding:
    if shutil.which("docker") is None:
        return Finding("docker", None, "no docker command (--sandbox docker)", "apt-get install docker.io")
    try:
        version = docker("version", "--format", "{{.Server.Version}}", seconds=10)
        old = leftovers.find()
    except IntercodeError as error:
        what, _, mend = str(error).partition("; ")
        return Finding("docker", None, f"{what} (--sandbox docker)", mend.partition("\n")[0])
    if old:
        return Finding("docker", None, f"{len(old)} containers of processes that are gone", "intercode doctor --clean")
    return Finding("docker", True, f"the daemon answers, version {version}", "")


def _container() -> bool:
    return any(os.path.exists(mark) for mark in _CONTAINER_MARKS)


# -- the real thing ----------------------------------------------------------------------------------------------------


def _sandbox() -> Iterator[Finding]:
    start = time.perf_counter()
    try:
        with LocalSandbox(template.base(None)) as sandbox:
            started = time.perf_counter() - start
            yield _first_steps(sandbox, started)
            yield _owners(sandbox)
    except (IntercodeError, OSError) as error:
        yield Finding("sandbox", False, str(error), "mend what is found above")


def _first_steps(sandbox: LocalSandbox, started: float) -> Finding:
    said = sandbox.exec("echo works > /file; cat /file").output
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


# -- trying ------------------------------------------------------------------------------------------------------------


def _walled(*more: str) -> list[str]:
    """bwrap as the wall starts it, without its layers."""
    argv = ["bwrap", "--unshare-all", "--unshare-user", "--uid", "0", "--gid", "0", "--cap-add", "ALL"]
    return [*argv, "--ro-bind", "/usr", "/usr", *wall.usr_links(), "--dev", "/dev", *more]


def _bound(folders: list[str]) -> list[str]:
    return [word for folder in folders for word in ("--ro-bind", folder, folder)]


def _try(*argv: str) -> _Trial:
    """Run a program as the sandboxes' user; what it said is its last line."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, cwd="/", **identity().popen())
    except (OSError, subprocess.SubprocessError) as error:
        return _Trial(False, str(error))
    lines = (done.stdout + done.stderr).decode(errors="replace").split("\n")
    return _Trial(done.returncode == 0, next((line.strip() for line in reversed(lines) if line.strip()), ""))


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
