"""`connect`: a stream from the host to a program inside."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from intercode.errors import UsageError
from intercode.sandbox.local import LocalSandbox
from intercode.sandbox.template import Template

ECHO = """
while True:
    line, _ = server.accept()
    line.sendall(b"heard " + line.recv(100))
    line.close()
"""
GREET = """
line, _ = server.accept()
line.sendall(b"welcome")
time.sleep(60)
"""
SILENT = "time.sleep(60)"


def serve(sandbox: LocalSandbox, path: str, then: str, queue: int = 4) -> None:
    """A server stands at `path`; so many may wait to be accepted, and one more."""
    listen = f"server.bind({path!r}); server.listen({queue}); open('{path}.ready', 'w').close()"
    sandbox.write(f"{path}.py", f"import socket, time\nserver = socket.socket(socket.AF_UNIX)\n{listen}\n{then}".encode())
    assert sandbox.exec(f"python3 {path}.py & while [ ! -e {path}.ready ]; do sleep 0.01; done").exit_code == 0


@pytest.fixture(scope="module")
def sandbox(template: Template) -> Iterator[LocalSandbox]:
    with LocalSandbox(template) as made:
        serve(made, "/tmp/echo", ECHO)
        yield made


def ask(sandbox: LocalSandbox, path: str) -> bytes:
    with sandbox.connect(path) as line:
        line.settimeout(5)
        line.sendall(b"you")
        return line.recv(100)


def test_bytes_go_to_the_program_inside_and_back(sandbox: LocalSandbox) -> None:
    assert ask(sandbox, "/tmp/echo") == b"heard you"


def test_several_connections_stand_side_by_side(sandbox: LocalSandbox) -> None:
    assert [ask(sandbox, "/tmp/echo") for _ in range(20)] == [b"heard you"] * 20


def test_the_shell_goes_on_as_before(sandbox: LocalSandbox) -> None:
    sandbox.exec("cd /var")
    ask(sandbox, "/tmp/echo")
    assert sandbox.exec("pwd").output == "/var\n"


def test_a_link_is_followed_inside_only(sandbox: LocalSandbox) -> None:
    sandbox.exec("ln -sf ../../../../tmp/echo /tmp/link")
    assert ask(sandbox, "/tmp/link") == b"heard you"


@pytest.mark.parametrize("path", ["/etc/passwd", "/tmp", "/dev/null"])
def test_what_is_no_socket_is_refused(sandbox: LocalSandbox, path: str) -> None:
    with pytest.raises(OSError, match="non-socket"):
        sandbox.connect(path)


def test_a_missing_path_is_refused(sandbox: LocalSandbox) -> None:
    with pytest.raises(FileNotFoundError):
        sandbox.connect("/tmp/nobody")


def test_a_relative_path_is_the_callers_fault(sandbox: LocalSandbox) -> None:
    with pytest.raises(UsageError, match="absolute"):
        sandbox.connect("tmp/echo")


def test_a_socket_that_nobody_listens_on_is_refused(sandbox: LocalSandbox) -> None:
    sandbox.exec("python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"/tmp/deaf\")'")
    with pytest.raises(ConnectionRefusedError):
        sandbox.connect("/tmp/deaf")


def test_a_full_queue_is_refused_at_once(sandbox: LocalSandbox) -> None:
    serve(sandbox, "/tmp/full", SILENT, queue=0)
    began, lines = time.monotonic(), []
    try:
        while len(lines) < 10:
            lines.append(sandbox.connect("/tmp/full"))
    except BlockingIOError:
        pass
    assert time.monotonic() - began < 2
    assert 1 <= len(lines) < 10
    for line in lines:
        line.close()


def test_the_line_ends_with_the_episode(template: Template) -> None:
    with LocalSandbox(template) as sandbox:
        serve(sandbox, "/tmp/greeting", GREET)
        with sandbox.connect("/tmp/greeting") as line:
            line.settimeout(5)
            assert line.recv(100) == b"welcome"
            sandbox.reset()
            assert line.recv(1) == b""


def test_a_line_that_was_never_accepted_is_reset_with_the_episode(template: Template) -> None:
    with LocalSandbox(template) as sandbox:
        serve(sandbox, "/tmp/silent", SILENT)
        with sandbox.connect("/tmp/silent") as line:
            line.settimeout(5)
            sandbox.reset()
            with pytest.raises(ConnectionResetError):
                line.recv(1)
