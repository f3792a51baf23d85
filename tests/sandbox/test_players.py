"""One episode server plays many episodes: nothing of an episode reaches the next one, and the
server holds nothing of it."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import families
import pytest
from families import wait_until

from intercode_sandbox.base import MIB, Limits
from intercode_sandbox.errors import SandboxDied
from intercode_sandbox.host import Host
from intercode_sandbox.local import LocalSandbox
from intercode_sandbox.template import Template

SMALL = Limits(disk=24 * MIB, memory=96 * MIB, processes=40, seconds=2.0, output=20_000)
RIGHTS = "CapEff:\t00000000002c002e"
"""Those of an episode server (2, 3, 5, 19 and 1), SYS_CHROOT (18) and SYS_ADMIN (21)."""
EPISODES = 50
"""After so many a player ends."""
PYTHON = "python3 -I - <<'PYTHON'\n{}\nPYTHON"
DAEMON = """setsid python3 -I - <<'PYTHON' &
{}
import time
print("up", flush=True)
time.sleep(99)
PYTHON
sleep 0.3"""
SEND_TO_EACH_OTHER = """
import array, ctypes, socket
libc = ctypes.CDLL(None)
held = [libc.inotify_init() for _ in range(16)]
one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
for end in (one, other):
    fds = array.array("i", [*held, one.fileno(), other.fileno()])
    end.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
"""
COUNT_INOTIFY = PYTHON.format(
    "import ctypes; print([ctypes.CDLL(None).inotify_init() > 0 for _ in range(17)].count(True))"
)
COUNT_TERMINALS = PYTHON.format(
    """
import os
count = 0
try:
    while count < 40:
        os.openpty()
        count += 1
except OSError:
    pass
print(count)
"""
)
QUEUE = "import ctypes; print(ctypes.CDLL('librt.so.1').mq_open(b'/left', {}, 0o600, None) >= 0)"
CONNECT = "import socket; s = socket.socket(socket.AF_UNIX); print(s.connect_ex('\\0left'))"
TIME_WAIT = """
import socket
server = socket.create_server(("127.0.0.1", 8000))
client = socket.create_connection(("127.0.0.1", 8000))
server.accept()[0].close()
client.close()
"""
BIND = """
import socket
try:
    socket.socket().bind(("127.0.0.1", 8000))
    print("free")
except OSError as error:
    print(error)
"""
FILL = "head -c 20M /dev/zero >/tmp/big"
"""The question meets a limit then, after which a player is not used again."""
ATTACKS = [
    (
        "files",
        "echo x >/tmp/f; echo y >/etc/new; rm /etc/hostname",
        "ls -A /tmp /etc /root | cksum",
    ),
    ("changed-times", "touch -d @1 /etc/passwd /root", "stat -c %Y /etc/passwd /root"),
    ("shared-memory-files", "mkdir /dev/shm/d; ln -s / /dev/shm/d/l", "find /dev/shm | wc -l"),
    (
        "deleted-files",
        "exec 9>/tmp/gone; rm /tmp/gone; setsid sleep 99 &",
        "ls -l /proc/[0-9]*/fd 2>&1 | grep -c /tmp/gone",
    ),
    (
        "daemons",
        "(setsid sh -c 'trap \"\" TERM HUP INT; sleep 99; :' &) ; sleep 0.1",
        "ps -e -o comm= | grep -c sleep",
    ),
    ("stopped-processes", "sleep 99 & kill -STOP $!", "ps -e -o stat= | grep -c ^T"),
    ("thirty-processes", "for i in $(seq 30); do sleep 99 & done", "ps -e | wc -l"),
    ("system-v-objects", "ipcmk -M 4096; ipcmk -Q; ipcmk -S 3", "ipcs | grep -c 0x"),
    ("message-queues", PYTHON.format(QUEUE.format("0o102")), PYTHON.format(QUEUE.format("2"))),
    (
        "abstract-sockets",
        DAEMON.format(
            "import socket; s = socket.socket(socket.AF_UNIX); s.bind('\\0left'); s.listen()"
        ),
        PYTHON.format(CONNECT),
    ),
    ("closed-connections", PYTHON.format(TIME_WAIT), PYTHON.format(BIND)),
    ("network-counters", PYTHON.format(TIME_WAIT), "grep Tcp: /proc/net/snmp"),
    (
        "the-shell",
        "export A=1; alias ls=false; umask 077; ulimit -t 77; cd /tmp; set -f; f() { :; }",
        "echo $A; alias; umask; ulimit -t; pwd; echo $-; declare -F",
    ),
    ("a-trap", "trap 'echo trapped' EXIT USR1", "trap | cksum; false; echo $?"),
    ("priorities", "renice -n 10 $$ >/dev/null", "nice"),
    ("a-processor", "taskset -p 1 $$", "taskset -p $$ | sed 's/.*: //'"),
    ("dumps", "echo 0 >/proc/$$/coredump_filter", "cat /proc/$$/coredump_filter"),
    ("inotify", DAEMON.format(SEND_TO_EACH_OTHER), COUNT_INOTIFY),
    ("inotify-in-flight", PYTHON.format(SEND_TO_EACH_OTHER), COUNT_INOTIFY),
    (
        "terminals",
        DAEMON.format("import os; held = [os.openpty() for _ in range(32)]"),
        COUNT_TERMINALS,
    ),
    (
        "locks-on-shared-files",
        "flock -x /usr/lib/os-release sleep 99 & sleep 0.1",
        "flock -n -x /usr/lib/os-release echo free || echo taken",
    ),
    ("a-full-disk", FILL, "head -c 8M /dev/zero >/tmp/x && echo fits"),
    ("late-output", "(while :; do echo noise; done) & sleep 0.05", "sleep 0.05; echo quiet"),
    ("background-jobs", "sleep 99 & sleep 98 &", "jobs | wc -l"),
]
UNSEEN = {"inotify-in-flight"}
"""What the kernel may have taken back before the question in the same episode."""


@pytest.fixture
def alone(template: Template, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalSandbox]:
    """A sandbox whose next episode is played by the same player."""
    monkeypatch.setattr(Host, "spares", False)
    with LocalSandbox(template, limits=SMALL) as sandbox:
        yield sandbox


def player_of(sandbox: LocalSandbox) -> int:
    """The only player, which its rights tell from other children of pid 1."""
    for pid, _ in families.family(sandbox.host._process.pid):
        with contextlib.suppress(OSError):
            if RIGHTS in status_of(pid):
                return pid
    raise AssertionError("no player")


def status_of(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text()


@pytest.mark.parametrize(
    ("attack", "question"), [pytest.param(*row[1:], id=row[0]) for row in ATTACKS]
)
def test_nothing_of_an_episode_reaches_the_next(
    alone: LocalSandbox, attack: str, question: str, request: pytest.FixtureRequest
) -> None:
    alone.reset()
    clean = alone.exec(question).output
    alone.reset()
    player = player_of(alone)
    alone.exec(attack)
    if not any(name in request.node.name for name in UNSEEN):
        assert alone.exec(question).output != clean  # so the question sees it
    alone.reset()
    if attack != FILL:
        assert player_of(alone) == player
    assert alone.exec(question).output == clean


HITS = {
    "memory": PYTHON.format("held = []\nwhile True: held.append(bytearray(1 << 22))"),
    "processes": "for i in $(seq 99); do sleep 30 & done; sleep 1",
    "disk": "head -c 99M /dev/zero >/tmp/full",
    "output": "yes | head -c 99999",
    "descriptors": PYTHON.format("held = []\nwhile True: held.append(open('/dev/null'))"),
    "time": "sleep 30",
    "stubborn": "trap '' INT; sleep 30; sleep 30",
}


@pytest.mark.slow
@pytest.mark.parametrize("hit", HITS)
def test_a_limit_is_the_same_in_the_first_the_second_and_the_fiftieth_episode(
    template: Template, monkeypatch: pytest.MonkeyPatch, hit: str
) -> None:
    monkeypatch.setattr(Host, "spares", False)
    results = []
    for episode in (1, 2, EPISODES):
        with LocalSandbox(template, limits=SMALL) as sandbox:
            player = player_of(sandbox)
            for _ in range(episode - 1):
                sandbox.reset()
            assert player_of(sandbox) == player
            result = sandbox.exec(HITS[hit])
            results.append((result.limits, result.timed_out, result.exit_code, result.killed))
            sandbox.reset()
            assert sandbox.exec("echo on; ls /tmp | wc -l; jobs").output == "on\n0\n"
            assert sandbox.diff() == {}
            # one that met a limit is not used again, nor one after its last episode
            used_again = not (result.limits or result.timed_out or episode == EPISODES)
            assert (player_of(sandbox) == player) == used_again
    assert results[0] == results[1] == results[2]


def held_by(player: int) -> dict[str, Any]:
    """What a player holds, apart from memory: the same in each episode."""
    status = status_of(player)
    kept = ("Umask", "Threads", "Sig", "Cap", "Seccomp", "NoNewPrivs", "Uid", "Groups")
    targets = [
        re.sub(r"\d+", "", os.readlink(f"/proc/{player}/fd/{fd}"))
        for fd in os.listdir(f"/proc/{player}/fd")
    ]
    return {
        "status": [line for line in status.splitlines() if line.startswith(kept)],
        "descriptors": sorted(targets),
        "limits": Path(f"/proc/{player}/limits").read_text(),
        "timers": Path(f"/proc/{player}/timers").read_text(),
        "variables": Path(f"/proc/{player}/environ").read_bytes(),
    }


def markers_in(player: int) -> list[bytes]:
    markers = []
    with open(f"/proc/{player}/mem", "rb", 0) as memory:
        for line in Path(f"/proc/{player}/maps").read_text().splitlines():
            begin, end = (int(word, 16) for word in line.split()[0].split("-"))
            if line.split()[1].startswith("rw"):
                with contextlib.suppress(OSError):
                    memory.seek(begin)
                    markers += re.findall(rb"marker-\d+", memory.read(end - begin))
    return markers


def resident(player: int) -> int:
    status = status_of(player)
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1])  # type: ignore[index]


@pytest.mark.slow
def test_after_a_thousand_episodes_a_player_holds_what_it_held(alone: LocalSandbox) -> None:
    attacks = [attack for _, attack, _ in ATTACKS if "sleep 0.3" not in attack]
    draw = random.Random(94)
    at_first = dict[int, tuple[dict[str, Any], int]]()
    for number in range(1000):
        assert alone.exec(f"echo marker-{number}").output == f"marker-{number}\n"
        alone.write("/tmp/written", f"marker-{number} ".encode() * 500)
        alone.run(["true", f"marker-{number}"], env={"SECRET": f"marker-{number}"})
        if draw.random() < 0.1:
            alone.exec(draw.choice(attacks))
        assert "/tmp/written" in alone.diff()
        alone.reset()
        assert alone.exec("x=1").exit_code == 0
        if number % 8 == 0:
            player = player_of(alone)
            held, size = held_by(player), resident(player)
            first, first_size = at_first.setdefault(player, (held, size))
            assert held == first
            assert size < first_size + 2048
            assert markers_in(player) == []
    assert len(at_first) >= 1000 // EPISODES


def test_a_player_has_few_rights(template: Template) -> None:
    with LocalSandbox(template) as one, LocalSandbox(template) as other:
        players = player_of(one), player_of(other)
        for player in players:
            status = status_of(player)
            assert RIGHTS in status
            assert "CapBnd:\t0000000000000000" in status
            assert "Seccomp:\t2" in status
            assert "NoNewPrivs:\t1" in status
        spaces = {os.readlink(f"/proc/{player}/ns/user") for player in players}
        supervisor = min(pid for pid, _ in families.family(one.host._process.pid))
        spaces.add(os.readlink(f"/proc/{supervisor}/ns/user"))
        assert len(spaces) == 3


@pytest.mark.slow
@pytest.mark.parametrize("spares", [False, True])
def test_a_kill_at_any_time_costs_a_sandbox_and_nothing_more(
    template: Template, monkeypatch: pytest.MonkeyPatch, spares: bool
) -> None:
    monkeypatch.setattr(Host, "spares", spares)
    draw, deaths, sandboxes = random.Random(spares), 0, [LocalSandbox(template)]
    ended = threading.Event()

    def kill() -> None:
        while not ended.wait(draw.random() * 0.03):
            bwrap = sandboxes[-1].host._process.pid
            victims = sorted(pid for pid, _ in families.family(bwrap))[1:]
            with contextlib.suppress(OSError, IndexError):
                os.kill(draw.choice(victims), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        for number in range(300):
            began = time.monotonic()
            try:
                result = sandboxes[-1].exec(f"echo {number} >/tmp/f; cat /tmp/f; ls /tmp")
                if "Killed" not in result.output and not result.session_lost:
                    assert result.output == f"{number}\nf\n"
                sandboxes[-1].reset()
            except SandboxDied:
                deaths += 1
                sandboxes.append(LocalSandbox(template))
            assert time.monotonic() - began < 10
    finally:
        ended.set()
        killer.join()
    assert deaths
    for sandbox in sandboxes:
        bwrap = sandbox.host._process.pid
        sandbox.close()
        assert families.family(bwrap) == set()


@pytest.mark.slow
def test_sandboxes_of_one_host_that_reset_at_random_see_their_own(template: Template) -> None:
    failures: list[BaseException] = []

    def play(sandbox: LocalSandbox, number: int) -> None:
        draw = random.Random(number)
        try:
            for turn in range(120):
                if draw.random() < 0.1:
                    sandbox.seal(*["/srv/tests/"][: draw.randrange(2)])
                sandbox.reset()
                text = f"{number}-{turn}"
                result = sandbox.exec(f"ls /tmp; echo {text} >/tmp/{text}; cat /tmp/*")
                assert result.output == f"{text}\n"
                if draw.random() < 0.2:
                    time.sleep(0.03)  # for a spare
                if draw.random() < 0.1:
                    with sandbox.fork() as twin:
                        assert twin.exec("cat /tmp/*").output == f"{text}\n"
                changed = [path for path in sandbox.diff() if not path.startswith("/srv")]
                assert changed == [f"/tmp/{text}"]
        except BaseException as error:
            failures.append(error)

    with LocalSandbox(template) as first, first.sibling() as second, first.sibling() as third:
        threads = []
        for number, sandbox in enumerate((first, second, third)):
            threads.append(threading.Thread(target=play, args=(sandbox, number)))
            threads[-1].start()
        for thread in threads:
            thread.join()
    assert failures == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # unclosed sockets
def test_interrupted_resets_leave_no_player(template: Template) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    draw, before = random.Random(0), signal.getsignal(signal.SIGALRM)
    with LocalSandbox(template) as sandbox:
        bwrap = sandbox.host._process.pid
        signal.signal(signal.SIGALRM, interrupt)
        try:
            for _ in range(60):
                sandbox.exec("echo x >/tmp/x")
                with contextlib.suppress(KeyboardInterrupt):
                    signal.setitimer(signal.ITIMER_REAL, draw.uniform(0.0002, 0.004))
                    sandbox.reset()
                signal.setitimer(signal.ITIMER_REAL, 0)
                sandbox.reset()
                assert sandbox.exec("ls /tmp").output == ""
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        time.sleep(1.2)
        sandbox.reset()
        # the supervisor, and a player, an init and a shell for the episode and for the next one
        assert wait_until(lambda: len(families.family(bwrap)) <= 7)
