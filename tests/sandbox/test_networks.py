"""Each episode has a network namespace of its own, with a loopback device."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from intercode.sandbox.local import LocalSandbox
from intercode.sandbox.template import Template

TALK = """
import socket
server = socket.create_server(("127.0.0.1", 8080))
client = socket.create_connection(server.getsockname())
"""
IN_FLIGHT = """
import array, os, socket
left, right = socket.socketpair()
kept = socket.socket(socket.AF_UNIX)
kept.bind("\\0still-here"); kept.listen()
rights = array.array("i", [left.fileno(), right.fileno(), kept.fileno()])
for each in (left, right):
    each.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
"""


@pytest.fixture
def sandbox(template: Template) -> Iterator[LocalSandbox]:
    with LocalSandbox(template) as made:
        yield made


def network(sandbox: LocalSandbox) -> str:
    return sandbox.exec("readlink /proc/self/ns/net").output


def test_nothing_of_it_reaches_the_next_episode(sandbox: LocalSandbox) -> None:
    """Not even a socket that nobody can receive any more, on its way in another."""
    bind = "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"\\0still-here\")'"
    for _ in range(3):
        assert sandbox.exec(bind).exit_code == 0
        for script in (TALK, IN_FLIGHT):
            assert sandbox.exec(f"python3 - <<'PYTHON'{script}PYTHON").exit_code == 0
        sandbox.reset()


def test_a_copy_has_one_of_its_own(sandbox: LocalSandbox) -> None:
    with sandbox.fork() as twin:
        assert network(twin) != network(sandbox)
        assert sandbox.exec("sleep 0").exit_code == twin.exec("sleep 0").exit_code == 0


def test_nobody_inside_may_configure_one(sandbox: LocalSandbox) -> None:
    down = "import fcntl, socket, struct\nfcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh14x', b'lo', 0))\n"
    done = sandbox.exec(f"python3 - <<'PYTHON'\n{down}PYTHON")
    assert done.exit_code == 1
    assert "PermissionError" in done.output
