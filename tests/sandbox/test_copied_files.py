"""Episodes that begin with a copy of the files, as before Linux 6.6, on this kernel.
`scripts/old_kernel` has an older one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from intercode_sandbox.base import MIB, Limits
from intercode_sandbox.host import Host
from intercode_sandbox.local import LocalProvider, LocalSandbox
from intercode_sandbox.template import Template

SETUP = """
mkdir -p /depot/a/b /depot/empty; cd /depot; echo 1 > a/b/one; ln a/b/one two; ln -s a/b link
mkfifo fifo; truncate -s 100M sparse; echo end >> sparse; chmod 2750 a; chmod 4711 two
touch -d 2001-02-03 a/b/one a link -h; rm -r /media /var/log; mkdir /var/log; rm -r /home
echo file > /home; head -c 200000 /dev/urandom > large
"""
LOOK = (
    "find / -xdev -path /proc -o -path /dev -o -type d -printf '%p %m %T@\\n' -o -printf '%p %y %m "
    "%n %s %b %l %T@\\n' | sort"
)
TAMPER = (
    "rm -r /etc; mkdir /etc; echo 1 > /etc/new; rm -r /depot/a/b; mv /depot/link /depot/l; "
    "rm -r /var; echo x > /var"
)


@pytest.fixture
def copying(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Host, "force_copy", True)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Template]:
    """What a setup script has changed in a copy."""
    script = tmp_path_factory.mktemp("setup") / "setup.sh"
    script.write_text(f"# {os.urandom(8).hex()}\n{SETUP}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Host, "force_copy", True)
        yield LocalProvider().prepare(setup=script)


def look(sandbox: LocalSandbox) -> list[str]:
    """All files with their attributes; what links and folders take differs from disk to disk."""
    return [
        re.sub(r"^(\S+ l .*) \d+ ", r"\1 ", line) for line in sandbox.exec(LOOK).output.splitlines()
    ]


def test_a_copy_is_as_the_overlay(start: Template, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, changes = [], []
    for force in (False, True):
        monkeypatch.setattr(Host, "force_copy", force)
        with LocalSandbox(start) as sandbox:
            assert sandbox.machine_facts() == ({"files": "copied"} if force else {})
            looks.append(look(sandbox))
            assert sandbox.diff() == {}
            sandbox.exec(TAMPER)
            changes.append(sandbox.diff())
            fork = sandbox.fork()
            assert fork.diff() == changes[-1]
            fork.close()
            sandbox.reset()
            assert look(sandbox) == looks[-1]
    assert looks[0] == looks[1]
    assert changes[0] == changes[1]
    assert {"/etc/new", "/etc/passwd", "/depot/a/b/one", "/depot/l", "/var", "/var/tmp"} <= changes[
        0
    ].keys()


@pytest.mark.usefixtures("copying")
def test_no_two_files_have_the_same_number(start: Template) -> None:
    with LocalSandbox(start) as sandbox:
        numbers = sandbox.exec(
            "find / -xdev ! -type d -links +1 -prune -o -printf '%D %i\\n' | sort"
        ).output.splitlines()
        assert len(set(numbers)) == len(numbers) > 100
        twins = sandbox.exec(
            "find /depot -samefile /depot/two | sort; "
            "find /depot -inum $(stat -c %i /depot/two) | sort"
        )
        assert twins.output == "/depot/a/b/one\n/depot/two\n" * 2


@pytest.mark.usefixtures("copying")
def test_the_copy_counts_neither_as_disk_nor_as_memory(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o755)
    (tmp_path / "data" / "file").write_bytes(os.urandom(48 * MIB))
    provider = LocalProvider()
    limits = Limits(disk=64 * MIB, memory=90 * MIB)
    with provider.sandbox(provider.prepare(tree=tmp_path), limits=limits) as sandbox:
        written = sandbox.exec(
            "head -c 60M /dev/zero > /tmp/much && echo room; head -c 9M /dev/zero > /tmp/more"
        )
        assert re.fullmatch("room\nhead: .*No space left on device\n", written.output)
        assert sandbox.exec("stat -c %s /data/file /tmp/much").output.split() == [
            str(48 * MIB),
            str(60 * MIB),
        ]


@pytest.mark.usefixtures("copying")
def test_what_does_not_fit_stays_below_the_overlay(tmp_path: Path) -> None:
    (tmp_path / "large").mkdir(mode=0o755)
    (tmp_path / "large" / "file").write_bytes(bytes(40 * MIB))
    (tmp_path / "small").write_text("small\n")
    provider = LocalProvider()
    with provider.sandbox(provider.prepare(tree=tmp_path), limits=Limits(disk=32 * MIB)) as sandbox:
        sandbox.exec("echo 1 > /large/new; rm /large/file; echo 2 > /small")
        assert {path: change.kind for path, change in sandbox.diff().items()} == {
            "/large/file": "removed",
            "/large/new": "added",
            "/small": "changed",
        }


@pytest.mark.usefixtures("copying")
def test_a_change_that_leaves_no_time_is_found(start: Template) -> None:
    """A tmpfs does not notice that a program writes to a file by way of memory."""
    script = (
        "import mmap, os; at = os.stat('/etc/passwd'); "
        "m = mmap.mmap(os.open('/etc/passwd', os.O_RDWR), 0); m[0]; m[:4] = b'toor'; "
        "now = os.stat('/etc/passwd'); print(at.st_ctime_ns == now.st_ctime_ns)"
    )
    with LocalSandbox(start) as sandbox:
        assert sandbox.exec("", argv=["python3", "-c", script]).output == "True\n"
        assert list(sandbox.diff()) == ["/etc/passwd"]
