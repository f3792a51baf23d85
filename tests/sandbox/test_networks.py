"""A network namespace is lent again only if nothing has happened in it."""

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
REFUSED = """
import socket
with socket.socket() as client:
    assert client.connect_ex(("127.0.0.1", 9)) != 0
"""
UNREACHABLE = """
import socket
with socket.socket(type=socket.SOCK_DGRAM) as sock:
    try:
        sock.sendto(b"hello", ("192.0.2.1", 9))
    except OSError:
        pass
"""
LABEL = """
import socket, struct
sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
address = b"\\x20\\x01" + b"a message".ljust(14)
IPV6_FLOWLABEL_MGR, GET, CREATE, ANY = 32, 0, 1, 255
request = address + struct.pack("!I", 0x101) + struct.pack("BBHHHI", GET, ANY, CREATE, 60, 60, 0)
sock.setsockopt(socket.IPPROTO_IPV6, IPV6_FLOWLABEL_MGR, request)
"""
ROUTE = """
import socket
socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).connect(("::1", 9))
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


def over_resets(sandbox: LocalSandbox, script: str) -> list[str]:
    """The namespaces of some episodes; the script is executed in the first."""
    names = [network(sandbox)]
    assert sandbox.exec(f"python3 - <<'PYTHON'{script}PYTHON").exit_code == 0
    for _ in range(6):
        sandbox.reset()
        names.append(network(sandbox))
    return names


@pytest.mark.parametrize("script", ["\n", "\nimport socket; socket.socket(socket.AF_UNIX).close()\n"])
def test_one_in_which_nothing_happened_is_lent_again(sandbox: LocalSandbox, script: str) -> None:
    names = over_resets(sandbox, script)
    assert names[0] in names[2:]
    assert names[0] != names[1], "the old episode dies while the new one begins"


@pytest.mark.parametrize(
    "script", [TALK, REFUSED, UNREACHABLE, LABEL, ROUTE], ids=["talk", "refused", "unreachable", "label", "route"]
)
def test_one_that_was_used_is_not(sandbox: LocalSandbox, script: str) -> None:
    names = over_resets(sandbox, script)
    assert names[0] not in names[1:]
    assert len(set(names[1:])) == 2, "the others were not used"


def test_a_socket_that_nobody_can_receive_does_not_reach_the_next_episode(sandbox: LocalSandbox) -> None:
    over_resets(sandbox, IN_FLIGHT)
    bind = "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"\\0still-here\")'"
    for _ in range(3):
        assert sandbox.exec(bind).exit_code == 0
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
