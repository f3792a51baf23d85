"""Test what a sandbox needs on this machine, and name the command that repairs what does not work.

    kernel ─► user ─► bubblewrap ─► namespaces ─► /proc ─► nested namespaces ─► Python ─► overlay
           ─► attributes
    cache, leftovers, image tools, Docker
    a sandbox, timed ─► the providers that work here

`clean` removes what dead processes left behind.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from intercode_sandbox import cache
from intercode_sandbox.docker import daemon
from intercode_sandbox.errors import IntercodeError, SandboxUnavailable
from intercode_sandbox.host import guest_python
from intercode_sandbox.identity import identity, run_as_user
from intercode_sandbox.local import ALLOWING, shares_proc, usr_links
from intercode_sandbox.pod import usual_provider, usual_provider_name

_GIB = 1 << 30
# Seconds after which a build's work folder counts as left over.
_STALE_SECONDS = 3600
_APPARMOR = (
    "allow bwrap alone: "
    "printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap /usr/bin/bwrap "
    "flags=(unconfined) {\\n  userns,\\n}\\n' > /etc/apparmor.d/bwrap && apparmor_parser -r "
    "/etc/apparmor.d/bwrap (or everyone: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0)"
)
# a setting, the value that forbids namespaces, and the command that allows them; the first match
# counts
_KERNEL_SETTINGS = {
    "/proc/sys/kernel/unprivileged_userns_clone": (
        "0",
        "sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    "/proc/sys/user/max_user_namespaces": ("0", "sysctl -w user.max_user_namespaces=15000"),
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": ("1", _APPARMOR),
}
_WHOLE_PROC = (
    "--security-opt systempaths=unconfined, or in Kubernetes securityContext: {procMount: Unmasked}"
)
_COPIED = "none here, so an episode begins with a copy of its files (files: copied in the run)"
_MASKED = "masked here: agents see the container's processes (wall: shared-proc in the run)"
_MOUNT_OVERLAY = (
    "cd /t && mkdir l u w m && mount -t overlay -o "
    "lowerdir=l,upperdir=u,workdir=w,userxattr overlay m"
)
_SET_ATTRIBUTE = (
    "import os; open('/t/file', 'w').close(); os.setxattr('/t/file', 'user.intercode', b'y')"
)
_PYTHON_VERSION = (
    "import sys; print('Python', sys.version.split()[0]); sys.exit(sys.version_info < (3, 9))"
)


class Finding(NamedTuple):
    """The result of one test. `ok` is None for optional and untested parts; `repair` is "" where
    none is needed."""

    what: str
    ok: bool | None
    detail: str
    repair: str = ""

    def record(self) -> dict[str, object]:
        """Return the finding for JSON."""
        return {"what": self.what, "ok": self.ok, "detail": self.detail, "mend": self.repair}

    def __str__(self) -> str:
        mark = {True: "ok  ", False: "FAIL", None: "note"}[self.ok]
        text = f"{mark}  {self.what}: {self.detail}"
        if self.repair and not self.ok:
            text += f"\n      repair: {self.repair}"
        return text


def examine(command: str = "intercode-sandbox") -> list[Finding]:
    """Test every part, in the order of repair. Takes a second or two; writes only to the cache.

    Advice names `command`, the program that the user has called.
    """
    system = platform.system()
    if system != "Linux":
        repair = (
            f"run {command} in a Linux VM, in WSL 2, or in a container: "
            "docker run --security-opt seccomp=unconfined IMAGE"
        )
        return [Finding("kernel", False, f"{system} has no namespaces", repair), _docker(command)]
    usual = usual_provider_name()
    findings = list(_parts(command, usual))
    working = {finding.what for finding in findings if finding.ok}
    options = {"sandbox": usual, "docker": "docker"}
    names = [name for what, name in options.items() if what in working]
    if names:
        detail = f"--sandbox {' or '.join(names)} works here"
        return [*findings, Finding("backends", True, detail)]
    repair = "repair the problems above"
    return [*findings, Finding("backends", False, "no sandbox works here", repair)]


def _parts(command: str, usual: str) -> Iterator[Finding]:
    yield Finding("kernel", True, f"Linux {platform.release()}")
    if usual == "pod":
        why = (
            "refused here, so agents get a root folder and a user of their own (--sandbox pod; "
            "wall: pod in the run)"
        )
        yield Finding("namespaces", None, why, f"for the usual wall: {_allowing()}")
    else:
        yield from _local_layers(command)
    yield _cache()
    folders = _old_builds()
    if folders:
        detail = f"{len(folders)} builds were cut short"
        yield Finding("leftovers", None, detail, f"{command} doctor --clean")
    if shutil.which("mmdebstrap"):
        yield Finding("mmdebstrap", True, "images can be built")
    else:
        missing = "no images can be built (intercode image build)"
        yield Finding("mmdebstrap", None, missing, "apt-get install mmdebstrap")
    yield _docker(command)
    yield try_sandbox()


def clean() -> list[str]:
    """Remove the work folders of builds and the containers that dead processes left; return their
    names."""
    removed = []
    for folder in _old_builds():
        cache.remove(folder)
        removed.append(f"folder {folder}")
    if shutil.which("docker"):
        with suppress(SandboxUnavailable):  # a daemon that is down runs no containers
            removed += [f"container {name[:12]}" for name in daemon.remove_leftovers()]
    return removed


def _local_layers(command: str) -> Iterator[Finding]:
    """Test each layer of the local sandbox, as the sandboxes' user, if the layers below it work."""
    bwrap = ["bwrap", "--unshare-all", "--unshare-user", "--uid", "0", "--gid", "0"]
    bwrap += ["--cap-add", "ALL"]
    bwrap += ["--ro-bind", "/usr", "/usr", *usr_links(), "--dev", "/dev"]
    program = "python3"
    folders = list[str]()
    with suppress(IntercodeError):
        program, folders = guest_python()
    python = ["--", program, "-I", "-S", "-c"]
    for folder in folders:
        python = ["--ro-bind", folder, folder, *python]
    nested = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "true"]
    shared = shares_proc()
    proc = ["--proc", "/proc"]
    if shared:
        proc = ["--bind", "/proc", "/proc"]
    tests = [
        (
            "sandboxes' user",
            ["/bin/true"],
            f"run {command} as an ordinary user, or where uid {identity().uid} is mapped",
        ),
        ("bubblewrap", ["bwrap", "--version"], "apt-get install bubblewrap"),
        ("user namespaces", [*bwrap, "--", "true"], _allowing()),
        ("/proc", [*bwrap, *proc, "--", "true"], f"in a container, docker run {_WHOLE_PROC}"),
        ("nested namespaces", [*bwrap, *proc, "--", *nested], f"in a container, {ALLOWING}"),
        (
            "guest's Python",
            [*bwrap, *python, _PYTHON_VERSION],
            "apt-get install python3 (3.9 or newer)",
        ),
        (
            "overlay",
            [*bwrap, *proc, "--tmpfs", "/t", "--", "sh", "-c", _MOUNT_OVERLAY],
            "modprobe overlay; in a user namespace it needs Linux 5.11 or newer",
        ),
        (
            "tmpfs attributes",
            [*bwrap, "--tmpfs", "/t", *python, _SET_ATTRIBUTE],
            "with Linux 6.6 or newer, episodes start sooner",
        ),
    ]
    broken = ""
    for what, argv, repair in tests:
        if broken:
            detail = f"not tested, since it needs {broken}"
            yield Finding(what, None, detail, f"repair {broken} first")
            continue
        works, detail = _try(argv)
        if what == "tmpfs attributes" and not works:
            yield Finding(what, None, _COPIED, repair)
        elif what == "/proc" and works and shared:
            yield Finding(what, None, _MASKED, f"docker run {_WHOLE_PROC}")
        elif works:
            yield Finding(what, True, detail)
        else:
            broken = what
            yield Finding(what, False, detail, repair)


def _try(argv: list[str]) -> tuple[bool, str]:
    """Return whether a program works for the sandboxes' user, and the last line that it prints."""
    try:
        result = run_as_user(argv)
    except (OSError, subprocess.SubprocessError) as error:
        return False, str(error)
    works = result.returncode == 0
    output = (result.stdout + result.stderr).decode(errors="replace").strip()
    default = {True: "works", False: "refused"}[works]
    return works, output.rpartition("\n")[2].strip() or default


def _allowing() -> str:
    """Return the command that allows namespaces on this machine."""
    for path, (refusing, line) in _KERNEL_SETTINGS.items():
        with suppress(OSError):
            if Path(path).read_text("utf-8").strip() == refusing:
                return line
    return f"in a container, {ALLOWING}; else see what refuses them: dmesg | tail"


def _cache() -> Finding:
    repair = (
        "set INTERCODE_CACHE to a folder on a disk with space, "
        "which you may write and everyone may enter"
    )
    try:
        root = cache.root()
    except (IntercodeError, OSError) as error:
        return Finding("cache", False, str(error), repair)
    if not os.access(root, os.W_OK | os.X_OK):
        return Finding("cache", False, f"{root} cannot be written", repair)
    free = shutil.disk_usage(root).free / _GIB
    detail = f"{root}, {free:.1f} GiB free"
    if free < 2:
        return Finding("cache", None, detail, repair)
    return Finding("cache", True, detail)


def _old_builds() -> list[Path]:
    """Return the work folders of interrupted builds; recent ones may still be in use."""
    folders = []
    for path in cache.root_path().glob("*/.*"):
        with suppress(FileNotFoundError):  # its build has just ended
            if path.is_dir() and time.time() - path.lstat().st_mtime > _STALE_SECONDS:
                folders.append(path)
    return folders


def _docker(command: str) -> Finding:
    try:
        version = daemon.docker("version", "--format", "{{.Server.Version}}", seconds=10)
        containers = daemon.find_leftovers()
    except IntercodeError as error:
        return optional("docker", str(error), "(--sandbox docker)")
    if containers:
        detail = f"{len(containers)} containers left by dead processes"
        return Finding("docker", None, detail, f"{command} doctor --clean")
    return Finding("docker", True, f"the daemon answers, version {version}")


def optional(part: str, message: str, option: str) -> Finding:
    """Return the finding for an optional part; `message` is the fault, a semicolon, and the
    repair."""
    fault, _, repair = message.partition("\n")[0].partition("; ")
    return Finding(part, None, f"{fault} {option}", repair.removeprefix("run: "))


def try_sandbox() -> Finding:
    """Open a sandbox, and measure the time."""
    try:
        usual = usual_provider()
        prepared = usual.prepare()
        start = time.perf_counter()
        with usual.sandbox(prepared) as sandbox:
            started = time.perf_counter() - start
            output = sandbox.exec(
                "rm -r /etc && mkdir /etc && echo works > /etc/file && cat /etc/file"
            ).output
            start = time.perf_counter()
            sandbox.reset()
            rest = sandbox.exec("ls /etc/file 2>/dev/null").output
            reset = time.perf_counter() - start
            facts = sandbox.machine_facts()
    except (IntercodeError, OSError) as error:
        return Finding("sandbox", False, str(error), "repair the problems above")
    if output != "works\n" or rest:
        detail = f"printed {output!r}, and after a reset {rest!r}"
        return Finding("sandbox", False, detail, "report this")
    times = f"started in {started * 1e3:.0f} ms, reset with a first command in {reset * 1e3:.0f} ms"
    details = [times, *(f"{name}: {value}" for name, value in facts.items())]
    return Finding("sandbox", True, ", ".join(details))
