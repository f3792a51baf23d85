"""`connect`: a stream from the host to a program inside."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from intercode_sandbox.local import LocalSandbox
from intercode_sandbox.template import Template

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


def serve(sandbox: LocalSandbox, path: str, then: str) -> None:
    """A server stands at `path`."""
    listen = f"server.bind({path!r}); server.listen(); open('{path}.ready', 'w').close()"
    sandbox.write(
        f"{path}.py",
        f"import socket, time\nserver = socket.socket(socket.AF_UNIX)\n{listen}\n{then}".encode(),
    )
    assert (
        sandbox.exec(
            f"python3 {path}.py & while [ ! -e {path}.ready ]; do sleep 0.01; done"
        ).exit_code
        == 0
    )


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


def test_bytes_go_to_the_program_inside_and_back_and_the_shell_goes_on(
    sandbox: LocalSandbox,
) -> None:
    sandbox.exec("cd /var; ln -sf ../../../../tmp/echo /tmp/link")
    assert [ask(sandbox, "/tmp/echo") for _ in range(20)] == [b"heard you"] * 20
    assert ask(sandbox, "/tmp/link") == b"heard you", "a link is followed inside"
    assert sandbox.exec("pwd").output == "/var\n"


def test_the_line_ends_with_the_episode(template: Template) -> None:
    with LocalSandbox(template) as sandbox:
        serve(sandbox, "/tmp/greeting", GREET)
        with sandbox.connect("/tmp/greeting") as line:
            line.settimeout(5)
            assert line.recv(100) == b"welcome"
            sandbox.reset()
            assert line.recv(1) == b""
