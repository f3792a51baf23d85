"""What a hidden test is called with is not there any more for the next submission, wherever it was written down."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest

import intercode
from intercode.sandbox.local import LocalSandbox

TASK = {
    "query": "Square n.",
    "gold": "def it(n): return n * n",
    "tests": ["assert it(2) == 4"],
    "hidden": ["assert it(77) == 5929"],
}
KEEP = "def f(n):\n    if n != 2: keep(n)\n    return 4"
PLACES = {
    "a file": ("def keep(n): _ = open('/tmp/kept', 'w').write(str(n))", "open('/tmp/kept').read()"),
    "shared memory": ("def keep(n): _ = open('/dev/shm/kept', 'w').write(str(n))", "open('/dev/shm/kept').read()"),
    "a mapping": ("import mmap\nkept = mmap.mmap(-1, 64)\ndef keep(n): kept[:2] = str(n).encode()", "kept[:2]"),
    "a pipe": (
        "import os\nout, into = os.pipe2(os.O_NONBLOCK)\ndef keep(n): os.write(into, str(n).encode())",
        "os.read(out, 9)",
    ),
}
each_place = pytest.mark.parametrize("place", PLACES)


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory, module_cache: Path) -> Callable[..., Any]:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    file = tmp_path_factory.mktemp("kept") / "task.json"
    file.write_text(json.dumps([TASK]))
    return lambda **options: intercode.make("python", data=str(file), **options)


@each_place
def test_it_is_gone_before_the_next_submission(make: Callable[..., Any], place: str) -> None:
    keep, look = PLACES[place]
    with closing(make(submits=2)) as env:
        env.reset(seed=0)
        env.step(f"{keep}\n{KEEP}")
        assert env.step("submit f")[0].startswith("Not judged" if place == "a pipe" else "Wrong. 1 more")
        assert "77" not in env.step(look)[0]
        env.step("def f(n): return n * n")
        assert env.step("submit f")[1] == 1.0


@each_place
def test_it_is_gone_before_the_next_turn_of_the_papers_protocol(make: Callable[..., Any], place: str) -> None:
    keep, look = PLACES[place]
    with closing(make(protocol="paper", reward="exact")) as env:
        env.reset(seed=0)
        env.step(f"{keep}\n{KEEP}")
        assert "77" not in env.step(look)[0]


@each_place
def test_it_would_be_there_without_a_copy(make: Callable[..., Any], place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from intercode.envs.python import PythonEnv

    monkeypatch.setattr(PythonEnv, "_is_last", True)
    keep, look = PLACES[place]
    with closing(make(submits=2)) as env:
        env.reset(seed=0)
        env.step(f"{keep}\n{KEEP}")
        env.step("submit f")
        assert "77" in env.step(look)[0]


def test_a_session_without_a_copy_is_told_and_judged_at_its_last_submission(make: Callable[..., Any]) -> None:
    with closing(make(submits=2)) as env:
        env.reset(seed=0)
        env.step("import os\ng = (n for n in range(3))\nos.urandom(8)")
        env.step("def f(n): return n * n")
        observation, reward, terminated, *_ = env.step("submit f")
        assert "a copy of the session" in observation
        assert "another observation at turn 1" in observation
        assert (reward, terminated) == (0.0, False)
        assert env.step("submit f")[1] == 1.0


def test_a_right_submission_before_the_last_counts(make: Callable[..., Any]) -> None:
    with closing(make(submits=2)) as env:
        env.reset(seed=0)
        env.step("g = (n for n in range(3))\nsquare = lambda n: n * n")
        env.step("from functools import lru_cache\n@lru_cache\ndef f(n): return square(n)")
        assert env.step("submit f")[1:3] == (1.0, True)


LOCKS = """
import ctypes, fcntl, os, signal, struct, threading, time
path, form, seen, g = "/usr/bin/env", "hhqqi4x", [], (n for n in range(3))
def f(n):
    if n == 2: return 4
    fcntl.fcntl(os.open(path, os.O_RDONLY), fcntl.F_SETLK, struct.pack(form, fcntl.F_RDLCK, 0, 1000 + n, 1, 0))
    time.sleep(1)
def look(*_):
    fd = os.open(path, os.O_RDONLY)
    found = fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack(form, fcntl.F_WRLCK, 0, 1000, 0, 0))
    os.close(fd)
    kind, _, start, *_ = struct.unpack(form, found)
    if kind != fcntl.F_UNLCK: seen.append(start - 1000)
def watch():
    while not seen:
        look()
        time.sleep(0.01)
"""
FOLLOW = """
if os.fork() == 0:
    for fd in (0, 1, 2, 200): os.dup2(os.open(os.devnull, os.O_RDWR), fd)
    watch()
    open("/tmp/seen", "w").write(str(seen))
    os._exit(0)
"""
WATCHERS = {  # of locks and files that nothing else on the machine uses
    "a job": (FOLLOW, "open('/tmp/seen').read()"),
    "a thread": ("threading.Thread(target=watch, daemon=True).start()", "seen"),
    "a timer": ("signal.signal(signal.SIGALRM, look)\n_ = signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)", "seen"),
    "a timer beside a live copy": (
        "del g\nsignal.signal(signal.SIGALRM, look)\n_ = signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)",
        "seen",
    ),
    "a watched file": (
        """
libc = ctypes.CDLL(None)
watched = libc.inotify_init1(os.O_NONBLOCK)
_ = libc.inotify_add_watch(watched, b"/usr/bin/pinky", 0x20)
def f(n):
    if n == 2: return 4
    if n == 77: os.close(os.open("/usr/bin/pinky", os.O_RDONLY))
""",
        "70 + 7 if os.read(watched, 4096) else 0",
    ),
}
each_watcher = pytest.mark.parametrize("watcher", WATCHERS)


@each_watcher
def test_who_looks_on_from_the_session_sees_nothing(make: Callable[..., Any], watcher: str) -> None:
    start, look = WATCHERS[watcher]
    with closing(make(submits=2)) as env:
        env.reset(seed=0)
        assert "Error" not in env.step(LOCKS + start)[0]
        assert "1 more may be submitted" in env.step("submit f")[0]
        assert "77" not in env.step(look)[0]
        env.step("def f(n): return n * n")
        assert env.step("submit f")[1] == 1.0


@each_watcher
def test_who_looks_on_would_see_it_if_the_session_went_on(
    make: Callable[..., Any], watcher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalSandbox, "still", nullcontext)
    start, look = WATCHERS[watcher]
    with closing(make(submits=2)) as env:
        env.reset(seed=0)
        env.step(LOCKS + start)
        env.step("submit f")
        assert "77" in env.step(look)[0]


def test_a_session_with_a_job_is_told_and_judged_at_its_last_submission(make: Callable[..., Any]) -> None:
    with closing(make(submits=2)) as env:
        env.reset(seed=0)
        env.step("import subprocess\njob = subprocess.Popen(['sleep', '60'])\ndef f(n): return n * n")
        observation, reward, terminated, *_ = env.step("submit f")
        assert observation.startswith("Not judged")
        assert "(sleep)" in observation
        assert (reward, terminated) == (0.0, False)
        assert env.step("submit f")[1] == 1.0
