"""`listen`: a port of the sandbox's loopback, on which the host accepts."""

from __future__ import annotations

import os
import resource
import socket
import threading
from contextlib import ExitStack

import pytest
from families import wait_until

from intercode_sandbox.errors import UsageError
from intercode_sandbox.local import LocalSandbox
from intercode_sandbox.pod import PodSandbox
from intercode_sandbox.template import Template

CALL = "exec 3<>/dev/tcp/127.0.0.1/{0} && echo ping >&3 && cat <&3; exec 3>&-"
REACHES = "(echo > /dev/tcp/127.0.0.1/{0}) 2> /dev/null && echo reached || echo refused"


def answer(listener: socket.socket) -> threading.Thread:
    def serve() -> None:
        line, _ = listener.accept()
        with line:
            line.sendall(b"heard " + line.recv(100))

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def test_what_programs_connect_to_the_port_the_host_accepts(template: Template) -> None:
    with LocalSandbox(template) as sandbox:
        with sandbox.listen(8080) as listener:
            thread = answer(listener)
            assert sandbox.exec(CALL.format(8080)).output == "heard ping\n"
            thread.join()
            with pytest.raises(OSError, match="in use"):
                sandbox.listen(8080)
            fork = sandbox.fork()
            assert fork.exec(REACHES.format(8080)).output == "refused\n"
            fork.close()
            sandbox.reset()
            assert sandbox.exec(REACHES.format(8080)).output == "refused\n"
        with sandbox.listen(0) as other:
            assert sandbox.exec(REACHES.format(other.getsockname()[1])).output == "reached\n"


def test_no_other_port_of_the_machine_is_reachable(template: Template) -> None:
    with socket.create_server(("127.0.0.1", 0)) as outside, LocalSandbox(template) as sandbox:
        port = outside.getsockname()[1]
        socket.create_connection(("127.0.0.1", port)).close()  # the control
        assert sandbox.exec(REACHES.format(port)).output == "refused\n"


def test_a_port_inside_is_reached_also_with_many_open_descriptors(template: Template) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= hard < 2048:
        pytest.skip("this user may not open 2048 descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    with ExitStack() as opened, LocalSandbox(template) as sandbox:
        opened.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        sandbox.exec("", argv=["bash", "-c", "python3 -m http.server 8000 > /dev/null 2>&1 &"])
        assert wait_until(lambda: answers(sandbox, 8000), 60)
        for _ in range(1100):
            opened.callback(os.close, os.open("/dev/null", os.O_RDONLY))
        with sandbox.connect(8000) as stream:
            assert stream.fileno() > 1023
            stream.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert stream.recv(8) == b"HTTP/1.0"


def answers(sandbox: LocalSandbox, port: int) -> bool:
    try:
        sandbox.connect(port).close()
    except OSError:
        return False
    return True


def test_a_pod_has_no_ports_and_a_port_is_a_number(template: Template) -> None:
    with pytest.raises(UsageError, match="shares its container's network"):
        PodSandbox.listen(None, 80)  # type: ignore[arg-type]
    with LocalSandbox(template) as sandbox, pytest.raises(UsageError, match="0 to 65535"):
        sandbox.listen(70000)
