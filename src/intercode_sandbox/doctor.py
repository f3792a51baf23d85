"""Test what a sandbox needs on this machine, and name the command that repairs what does not work.

    kernel ─► user ─► bubblewrap ─► namespaces ─► /proc ─► nested namespaces ─► Python ─► overlay
           ─► attributes
    cache, leftovers, image tools, Docker
    a sandbox, timed ─► the providers that work here

`clean` removes what dead processes left behind.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from intercode_sandbox import cache
from intercode_sandbox.docker import daemon
from intercode_sandbox.errors import IntercodeError, SandboxUnavailable
from intercode_sandbox.host import guest_python
from intercode_sandbox.identity import identity
from intercode_sandbox.local import ALLOWING, shares_proc, usr_links
from intercode_sandbox.pod import usual_provider, usual_provider_name

_GIB = 1 << 30
_STALE_SECONDS = 3600
"""Seconds after which a build's work folder counts as left over."""
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
        advice = f"\n      repair: {self.repair}" if self.repair and not self.ok else ""
        return f"{mark}  {self.what}: {self.detail}{advice}"


def examine(command: str = "intercode-sandbox") -> list[Finding]:
    """Test every part, in the order of repair. Takes a second or two; writes only to the cache.

    Advice names `command`, the program that the user has called.
    """
    if (system := platform.system()) != "Linux":
        repair = (
            f"run {command} in a Linux VM, in WSL 2, or in a container: "
            "docker run --security-opt seccomp=unconfined IMAGE"
        )
        return [
            Finding("kernel", False, f"{system} has no namespaces", repair),
            _docker(command),
        ]
    findings = [Finding("kernel", True, f"Linux {platform.release()}")]
    usual = usual_provider_name()
    if usual == "pod":
        why = (
            "refused here, so agents get a root folder and a user of their own (--sandbox pod; "
            "wall: pod in the run)"
        )
        findings.append(Finding("namespaces", None, why, f"for the usual wall: {_allowing()}"))
    else:
        findings += _local_layers(command)
    findings.append(_cache())
    if old := _old_builds():
        cut = f"{len(old)} builds were cut short"
        findings.append(Finding("leftovers", None, cut, f"{command} doctor --clean"))
    if shutil.which("mmdebstrap"):
        findings.append(Finding("mmdebstrap", True, "images can be built"))
    else:
        missing = "no images can be built (intercode image build)"
        findings.append(Finding("mmdebstrap", None, missing, "apt-get install mmdebstrap"))
    findings += [_docker(command), try_sandbox()]
    working = {finding.what for finding in findings if finding.ok}
    if names := [
        name for name, what in ((usual, "sandbox"), ("docker", "docker")) if what in working
    ]:
        return [*findings, Finding("backends", True, f"--sandbox {' or '.join(names)} works here")]
    return [
        *findings,
        Finding("backends", False, "no sandbox works here", "repair the problems above"),
    ]


def clean() -> list[str]:
    """Remove the work folders of builds and the containers that dead processes left; return their
    names."""
    folders = _old_builds()
    for folder in folders:
        cache.remove(folder)
    try:
        containers = daemon.remove_leftovers() if shutil.which("docker") else []
    except SandboxUnavailable:  # a daemon that is down runs no containers
        containers = []
    return [
        *(f"folder {folder}" for folder in folders),
        *(f"container {name[:12]}" for name in containers),
    ]


def _local_layers(command: str) -> Iterator[Finding]:
    """Test each layer of the local sandbox, as the sandboxes' user, if the layers below it work."""
    bwrap = ["bwrap", "--unshare-all", "--unshare-user", "--uid", "0", "--gid", "0"]
    bwrap += ["--cap-add", "ALL"]
    bwrap += ["--ro-bind", "/usr", "/usr", *usr_links(), "--dev", "/dev"]
    program, folders = "python3", list[str]()
    with contextlib.suppress(IntercodeError):
        program, folders = guest_python()
    python = [word for folder in folders for word in ("--ro-bind", folder, folder)]
    python += ["--", program, "-I", "-S", "-c"]
    nested = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "true"]
    shared = shares_proc()
    proc = ["--bind" if shared else "--proc", *["/proc"] * (2 if shared else 1)]
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
            yield Finding(
                what, None, f"not tested, since it needs {broken}", f"repair {broken} first"
            )
            continue
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=20,
                cwd="/",
                **identity().popen(),
            )
            works = done.returncode == 0
            lines = (done.stdout + done.stderr).decode(errors="replace").split("\n")
        except (OSError, subprocess.SubprocessError) as error:
            works, lines = False, [str(error)]
        if what == "tmpfs attributes" and not works:
            copied = (
                "none here, so an episode begins with a copy of its files (files: "
                "copied in the run)"
            )
            yield Finding(what, None, copied, repair)
            continue
        last = next(
            (line.strip() for line in reversed(lines) if line.strip()),
            "works" if works else "refused",
        )
        broken = "" if works else what
        if what == "/proc" and works and shared:
            masked = (
                "masked here: agents see the container's processes (wall: shared-proc in the run)"
            )
            yield Finding(what, None, masked, f"docker run {_WHOLE_PROC}")
            continue
        yield Finding(what, works, last, "" if works else repair)


def _allowing() -> str:
    """Return the command that allows namespaces on this machine."""
    for path, (refusing, line) in _KERNEL_SETTINGS.items():
        with contextlib.suppress(OSError):
            if Path(path).read_text(encoding="utf-8").strip() == refusing:
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
    return Finding(
        "cache",
        True if free >= 2 else None,
        f"{root}, {free:.1f} GiB free",
        "" if free >= 2 else repair,
    )


def _old_builds() -> list[Path]:
    """Return the work folders of interrupted builds; recent ones may still be in use."""
    folders = []
    for path in cache.root_path().glob("*/.*"):
        with contextlib.suppress(FileNotFoundError):  # its build has just ended
            if path.is_dir() and time.time() - path.lstat().st_mtime > _STALE_SECONDS:
                folders.append(path)
    return folders


def _docker(command: str) -> Finding:
    try:
        version = daemon.docker("version", "--format", "{{.Server.Version}}", seconds=10)
        old = daemon.find_leftovers()
    except IntercodeError as error:
        return optional("docker", str(error), "(--sandbox docker)")
    if old:
        left = f"{len(old)} containers left by dead processes"
        return Finding("docker", None, left, f"{command} doctor --clean")
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
        prepared, start = usual.prepare(), time.perf_counter()
        with usual.sandbox(prepared) as sandbox:
            started = time.perf_counter() - start
            output = sandbox.exec(
                "rm -r /etc && mkdir /etc && echo works > /etc/file && cat /etc/file"
            ).output
            start = time.perf_counter()
            sandbox.reset()
            left = sandbox.exec("ls /etc/file 2>/dev/null").output
            reset, facts = time.perf_counter() - start, sandbox.machine_facts()
    except (IntercodeError, OSError) as error:
        return Finding("sandbox", False, str(error), "repair the problems above")
    if (output, left) != ("works\n", ""):
        return Finding(
            "sandbox", False, f"printed {output!r}, and after a reset {left!r}", "report this"
        )
    detail = (
        f"started in {started * 1e3:.0f} ms, reset with a first command in {reset * 1e3:.0f} ms"
    )
    detail += "".join(f", {name}: {value}" for name, value in facts.items())
    return Finding("sandbox", True, detail)
