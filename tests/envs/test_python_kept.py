"""What a hidden test is called with is not there any more for the next submission, wherever it was written down."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import intercode

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
        assert env.step("submit f")[0] == "Wrong. 1 more may be submitted."
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

    monkeypatch.setattr(PythonEnv, "_goes_on", False)
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
        env.step(
            "import subprocess\ng, job = (n for n in range(3)), subprocess.Popen(['sleep', '60'])\nsquare = lambda n: n * n"
        )
        env.step("from functools import lru_cache\n@lru_cache\ndef f(n): return square(n)")
        assert env.step("submit f")[1:3] == (1.0, True)
