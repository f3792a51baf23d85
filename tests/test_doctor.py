"""The doctor is right about this machine, and about machines that are broken on purpose, one thing at a time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from intercode.doctor import Finding, clean, examine
from intercode.sandbox import seccomp

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can break this on purpose")

EXAMINE = "import json; from intercode.doctor import examine; print(json.dumps([f._asdict() for f in examine()]))"
WAITING = 'read start; exec "$@"'


def named(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.what: finding for finding in findings}


def failed(findings: list[Finding]) -> list[str]:
    return [finding.what for finding in findings if finding.ok is False]


def examined(*outer: str, **options: Any) -> dict[str, Finding]:
    """What the doctor finds in a process started by `outer`."""
    command = [*outer, sys.executable, "-c", EXAMINE]
    return _read(subprocess.run(command, capture_output=True, text=True, check=True, **options).stdout)


def inside(first: str = "true") -> dict[str, Finding]:
    """As root of an outer user namespace in which every user of the machine is mapped; `first` breaks something there."""
    outer = ["unshare", "--user", "--mount", "sh", "-c", WAITING, "sh", "sh", "-c", f'{first}; exec "$@"', "sh"]
    with subprocess.Popen([*outer, sys.executable, "-c", EXAMINE], stdin=PIPE, stdout=PIPE, text=True) as process:
        _map_users(process.pid)
        printed, _ = process.communicate("start\n")
    return _read(printed)


def _map_users(pid: int) -> None:
    while os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt"):
        time.sleep(0.001)
    for kind in ("uid", "gid"):
        Path(f"/proc/{pid}/{kind}_map").write_text("0 0 65536\n")


def _read(printed: str) -> dict[str, Finding]:
    return named([Finding(**each) for each in json.loads(printed)])


def test_this_machine_is_well() -> None:
    findings = examine()
    assert failed(findings) == []
    assert [finding.what for finding in findings if finding.what != "leftovers"] == [
        *("kernel", "sandboxes' user", "bubblewrap", "user namespaces", "/proc", "nested namespaces", "guest's Python"),
        *("overlay", "tmpfs attributes", "cache", "memory", "mmdebstrap", "docker", "sandbox", "owners"),
    ]
    assert named(findings)["sandbox"].detail.startswith("started in ")


@needs_root
def test_an_outer_namespace_alone_breaks_nothing(empty_cache: Path) -> None:
    assert failed(list(inside().values())) == []


@needs_root
def test_what_is_not_well_has_a_line_that_mends_it(empty_cache: Path) -> None:
    for finding in inside(first="echo 0 > /proc/sys/user/max_user_namespaces").values():
        assert bool(finding.mend) == (finding.ok is not True), finding


@needs_root
def test_user_namespaces_turned_off_are_found(empty_cache: Path) -> None:
    found = inside(first="echo 0 > /proc/sys/user/max_user_namespaces")
    assert failed(list(found.values())) == ["user namespaces", "sandbox"]
    assert "max_user_namespaces is 0" in found["user namespaces"].detail
    assert found["user namespaces"].mend == "sysctl -w user.max_user_namespaces=15000"
    assert found["overlay"] == Finding(
        "overlay", None, "not tried, since it needs user namespaces", "mend user namespaces first"
    )


@needs_root
def test_a_filter_around_the_process_is_found(empty_cache: Path) -> None:
    with tempfile.TemporaryFile() as program:
        program.write(seccomp.program())
        program.seek(0)
        found = examined("bwrap", "--dev-bind", "/", "/", "--seccomp", str(program.fileno()), pass_fds=(program.fileno(),))
    assert failed(list(found.values())) == ["user namespaces", "sandbox"]
    assert "seccomp" in found["user namespaces"].mend or "filter" in found["user namespaces"].mend


@needs_root
def test_parts_of_proc_hidden_as_containers_do_are_found(empty_cache: Path) -> None:
    found = inside(first="mount -t tmpfs hidden /proc/fs")
    assert failed(list(found.values())) == ["/proc", "sandbox"]
    assert "systempaths=unconfined" in found["/proc"].mend


def test_capabilities_of_an_ordinary_user_are_found(empty_cache: Path) -> None:
    found = examined("bwrap", "--dev-bind", "/", "/", "--unshare-user", "--uid", "1000", "--cap-add", "ALL")
    assert failed(list(found.values())) == ["user namespaces", "sandbox"]
    assert "setpriv" in found["user namespaces"].mend


@needs_root
def test_a_root_that_cannot_become_another_user_is_found(empty_cache: Path) -> None:
    found = examined("unshare", "--user", "--map-root-user")
    assert failed(list(found.values())) == ["sandboxes' user", "sandbox"]
    assert "ordinary user" in found["sandboxes' user"].mend


def test_a_path_without_bwrap_is_found(empty_cache: Path) -> None:
    found = examined(env={**os.environ, "PATH": str(empty_cache)})
    assert failed(list(found.values())) == ["bubblewrap", "sandbox"]
    assert found["bubblewrap"].mend == "apt-get install bubblewrap"
    assert found["mmdebstrap"] == Finding(
        "mmdebstrap", None, "no images can be built (intercode image build)", "apt-get install mmdebstrap"
    )


@needs_root
def test_a_cache_that_the_sandboxes_user_cannot_enter_is_found(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (empty_cache / "private").mkdir(mode=0o700)
    monkeypatch.setenv("INTERCODE_CACHE", str(empty_cache / "private" / "cache"))
    found = examine()
    assert failed(found) == ["cache", "sandbox"]
    assert "INTERCODE_CACHE" in named(found)["cache"].mend


def test_old_work_folders_are_reported_and_young_ones_are_not(empty_cache: Path) -> None:
    old, young = empty_cache / "layers" / ".old-x", empty_cache / "images" / ".young-x"
    for folder in (old, young):
        folder.mkdir(parents=True)
    os.utime(old, (0, 0))
    found = named(examine())["leftovers"]
    assert found == Finding("leftovers", None, "1 builds were cut short", "intercode doctor --clean")
    assert clean() == [f"folder {old}"]
    assert (old.exists(), young.exists()) == (False, True)
