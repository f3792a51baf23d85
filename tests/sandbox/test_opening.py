"""`intercode.sandbox(…)`: one sandbox without an environment, its network, and its root."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath
from typing import Any

import pytest

import intercode
from intercode.errors import SandboxDied, UsageError
from intercode_sandbox.client import GuestSandbox
from intercode_sandbox.guest import kernel

PROVIDERS = [
    "local",
    pytest.param("pod", marks=pytest.mark.skipif(os.getuid() != 0, reason="pods need root")),
]
CONNECT = "import socket, sys; socket.create_connection(('localhost', int(sys.argv[1])), 5)"
MANY_USERS = """
import os, time
for user in range(1, 9999):
    if os.fork() == 0:
        os.setuid(user)
        time.sleep(30)
        os._exit(0)
"""
ABSTRACT = "import socket, sys; socket.socket(socket.AF_UNIX).connect('\\0' + sys.argv[1])"


@pytest.fixture
def listeners() -> Iterator[tuple[str, str]]:
    """The port of a TCP socket and the name of an abstract one, on which this process listens."""
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as abstract:
        port = str(tcp.getsockname()[1])
        abstract.bind(f"\0intercode-test-{port}")
        abstract.listen()
        yield port, f"intercode-test-{port}"


def test_one_line_opens_a_sandbox(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/greeting").write_text("hello")
    with intercode.sandbox(tree=tmp_path, environment={"X": "1"}, cwd="/etc") as box:
        done = box.exec(["sh", "-c", "cat greeting - ; echo $X >&2"], stdin=b" you")
        assert (done.exit_code, done.stdout, done.stderr) == (0, b"hello you", b"1\n")
        assert box.read("greeting") == b"hello"
        box.exec("cd /tmp; y=2")
        assert box.exec("pwd; echo $X $y").output == "/tmp\n1 2\n"


@pytest.mark.parametrize("name", PROVIDERS)
def test_only_the_host_s_network_reaches_its_services(
    name: Any, listeners: tuple[str, str]
) -> None:
    port, abstract = listeners
    with intercode.sandbox(provider=name) as box:
        assert box.exec(["python3", "-c", CONNECT, port]).exit_code == 1
        assert box.exec(["python3", "-c", ABSTRACT, abstract]).exit_code == 1
    with intercode.sandbox(provider=name, network="host") as box:
        assert box.exec(["python3", "-c", CONNECT, port]).exit_code == 0
        confined = kernel.landlock_version() >= 6
        assert box.exec(["python3", "-c", ABSTRACT, abstract]).exit_code == int(confined)
        assert box.read("/etc/hosts") == Path("/etc/hosts").read_bytes()
        assert box.diff() == {}


@pytest.fixture(scope="module")
def rooted() -> Iterator[GuestSandbox]:
    if os.getuid() != 0:
        pytest.skip("only real root maps more users")
    with intercode.sandbox(provider="local", root=True) as box:
        yield box


@pytest.fixture
def box(rooted: GuestSandbox) -> GuestSandbox:
    rooted.reset()
    return rooted


class TestRoot:
    @pytest.mark.parametrize(
        ("action", "output"),
        [
            ("touch /tmp/f; chown 1000:1001 /tmp/f; stat -c %u:%g /tmp/f", "1000:1001\n"),
            ("install -m 0 /etc/passwd /tmp/zero; wc -l < /tmp/zero", "2\n"),
            ("setpriv --reuid 7 --regid 8 --clear-groups sh -c 'id -u; id -g; id -G'", "7\n8\n8\n"),
            ("mount -t tmpfs none /mnt 2> /dev/null || echo no", "no\n"),
            ("unshare --user true 2> /dev/null || echo no", "no\n"),
            ("mknod /tmp/sda b 8 0 2> /dev/null || echo no", "no\n"),
            ("(echo 9 > /proc/sys/vm/swappiness) 2> /dev/null || echo no", "no\n"),
            ("touch /usr/x 2> /dev/null || echo no", "no\n"),
        ],
    )
    def test_has_rights_over_files_and_users_inside_alone(
        self, box: GuestSandbox, action: str, output: str
    ) -> None:
        assert box.exec(action).output == output

    def test_runs_programs_as_other_users(self, box: GuestSandbox) -> None:
        box.exec(
            "echo 'eve:x:5:6::/home/eve:/bin/sh' >> /etc/passwd; echo 'more:x:9:eve' >> /etc/group"
        )
        script = ["sh", "-c", "id -u; id -g; id -G; echo $HOME; cat /tmp/zero"]
        box.exec("install -m 0 /dev/null /tmp/zero")
        for user, expected in (
            ("root", b"0\n0\n0\n/root\n"),
            ("eve", b"5\n6\n6 9\n/home/eve\n"),
            ("7", b"7\n7\n7\n/\n"),
        ):
            done = box.exec(script, user=user)
            assert (done.stdout, bool(done.stderr)) == (expected, user != "root")
        with pytest.raises(UsageError, match="no user 'nobody-here'"):
            box.exec(script, user="nobody-here")

    def test_keeps_the_owners_of_a_fork_s_files(self, box: GuestSandbox) -> None:
        box.exec("touch /tmp/f; chown 1000:1001 /tmp/f")
        with box.fork() as copy:
            assert copy.exec("stat -c %u:%g /tmp/f").output == "1000:1001\n"

    def test_cannot_fork_without_bound_as_many_users(self, box: GuestSandbox) -> None:
        done = box.exec(["python3", "-c", MANY_USERS], timeout=60)
        assert done.exit_code in (1, 137)  # it cannot fork, or a limit has ended all
        assert box.exec(["true"]).exit_code == 0

    def test_is_not_there_unless_asked_for(self) -> None:
        with intercode.sandbox() as box:
            assert box.exec("touch /tmp/f; chown 1000 /tmp/f").exit_code == 1
            assert box.exec(["id", "-un"], user="root").stdout == b"root\n"
            with pytest.raises(UsageError, match="open it with root=True"):
                box.exec(["true"], user="nobody")

    def test_is_refused_in_a_pod_with_advice(self) -> None:
        advice = "open the sandbox with root=False, use docker, or allow namespaces"
        with pytest.raises(UsageError, match=advice):
            intercode.sandbox(provider="pod", root=True)


def test_commands_run_beside_an_action_of_the_session() -> None:
    """A session's timeout ends what its action started, not the programs beside it."""
    with intercode.sandbox() as box:
        done: list[Any] = []
        script = "echo > /tmp/begun; for i in 1 2 3 4 5 6 7 8; do sleep .2; done; echo whole"
        command = ["sh", "-c", script]
        beside = threading.Thread(target=lambda: done.append(box.exec(command, timeout=60)))
        beside.start()
        while box.exec(["test", "-e", "/tmp/begun"]).exit_code != 0:
            time.sleep(0.05)
        assert box.exec("sleep 60", timeout=0.8).timed_out
        beside.join()
        assert done[0].stdout == b"whole\n"


def test_what_a_text_does_not_take_is_named() -> None:
    with intercode.sandbox() as box:
        for option in ({"user": "root"}, {"stdin": b""}, {"evn": {}}, {"cwd": "/tmp"}):
            with pytest.raises(UsageError, match=f"without {next(iter(option))}; give a list"):
                box.exec("true", **option)
        assert box.exec("pwd", timeout=9).output == "/\n"
    with pytest.raises(UsageError, match="network='internet': it is one of none, host"):
        intercode.sandbox(network="internet")  # type: ignore[arg-type]


HALF = "/tmp/\ud83d"
WRONG: dict[str, Callable[[Any], object]] = {
    "the command must be a list of words, not b'ls'": lambda box: box.exec(b"ls"),
    "the command must be a list": lambda box: box.exec(PurePath("/bin/ls")),
    "a word of the command must be": lambda box: box.exec(["ls", 1]),
    "an action contains half of": lambda box: box.exec(HALF),
    "a word of argv contains half": lambda box: box.exec("", argv=["ls", HALF]),
    "cwd contains half": lambda box: box.exec("", argv=["ls"], cwd=HALF),
    r"\$A must be": lambda box: box.exec(["ls"], env={"A": 1}),
    "variables must map": lambda box: box.exec(["ls"], env=["A=1"]),
    "stdin must be bytes or a text": lambda box: box.exec(["ls"], stdin=[1]),
    "timeout must be a number, not '5'": lambda box: box.exec("ls", timeout="5"),
    "timeout must be a number, not nan": lambda box: box.exec(["ls"], timeout=float("nan")),
    "output must be a number": lambda box: box.exec(["ls"], output="5"),
    "user must be": lambda box: box.exec(["ls"], user=0),
    "path must be a text or path without NUL, not b": lambda box: box.read(b"/etc/passwd"),
    "path contains half": lambda box: box.connect(HALF),
    "path must be a text or path without NUL, not '": lambda box: box.write("/tmp/\0", b""),
    "data must be bytes or a text": lambda box: box.write("/tmp/a", [1, 2]),
    "data contains half": lambda box: box.write("/tmp/a", "\ud83d"),
    "mode must be": lambda box: box.write("/tmp/a", b"", mode="644"),
    "limit must be": lambda box: box.read("/etc/passwd", limit="5"),
    "the paths must be": lambda box: list(box.read_many("/etc/passwd")),
    "a word of the paths contains half": lambda box: box.seal(HALF),
    "source must be": lambda box: box.copy_in(3, "/tmp/a"),
}


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_wrong_argument_is_named_and_the_sandbox_lives_on(name: Any) -> None:
    with intercode.sandbox(provider=name) as box:
        box.exec("x=1")
        descriptors = len(os.listdir("/proc/self/fd"))
        for message, call in WRONG.items():
            with pytest.raises(UsageError, match=message):
                call(box)
        with pytest.raises(OSError, match="too long"):
            box.exec(["echo", "x" * (65 << 20)])
        assert box.exec("echo $x").output == "1\n"
        assert len(os.listdir("/proc/self/fd")) == descriptors
    with pytest.raises(UsageError, match=r"\$A must be"):
        intercode.sandbox(provider=name, environment={"A": 1})  # type: ignore[dict-item]


@pytest.mark.parametrize("name", PROVIDERS)
def test_texts_and_paths_are_taken_where_bytes_and_words_are(name: Any, tmp_path: Path) -> None:
    folder = PurePath("/tmp/é")
    (tmp_path / "f").write_text("here")
    with intercode.sandbox(provider=name, cwd=PurePath("/tmp")) as box:
        box.write(folder / "a", "ü")
        box.write(folder / "b", memoryview(b"b"))
        assert box.read(folder / "a") == "ü".encode()
        assert list(box.read_many([folder / "a", "é/b"])) == ["ü".encode(), b"b"]
        words = ["sh", "-c", 'ls "$1" "$V"; pwd; cat', PurePath("sh"), folder / "a"]
        done = box.exec(words, stdin="ß", cwd=folder, env={"V": PurePath("b")})
        assert done.stdout.decode() == "/tmp/é/a\nb\n/tmp/é\nß"
        assert box.exec("", argv=["ls", folder], cwd=folder).output == "a\nb\n"
        box.copy_in(tmp_path, folder / "c")
        box.copy_out(folder / "c", tmp_path / "out")
        assert (tmp_path / "out/f").read_text() == "here"
        for seconds in (float("inf"), 10**400):
            assert box.exec("echo ok", timeout=seconds).output == "ok\n"
            assert box.exec(["echo", "ok"], timeout=seconds).stdout == b"ok\n"


def test_an_interrupted_action_answers_no_later_one() -> None:
    class Interrupt(Exception):
        pass

    def interrupt(number: int, frame: object) -> None:
        raise Interrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with intercode.sandbox() as box:
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with pytest.raises(Interrupt):
                box.exec("sleep 0.6; echo earlier")
            time.sleep(1)
            with pytest.raises(SandboxDied):
                box.exec("echo later")
            box.reset()
            assert box.exec("echo later").output == "later\n"
    finally:
        signal.signal(signal.SIGALRM, before)
