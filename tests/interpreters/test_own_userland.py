"""An image with a Python of its own: the same interpreter, started as that image's program."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from graded import passed

from intercode.interpreters import Grader, suite_of
from intercode.sandbox.build import make_template
from intercode.sandbox.local import LocalSandbox
from intercode.types import Task

pytestmark = pytest.mark.slow
_LEFT_OUT = ("test", "idlelib", "tkinter", "ensurepip", "config-*", "__pycache__")


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    """A folder that the sandboxes' user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="intercode-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def own(module_cache: Path, root: Path) -> Iterator[LocalSandbox]:
    """A root file system with nothing but this machine's bash and Python in it."""
    python = Path("/usr/bin/python3")
    if shutil.which("bwrap") is None or not python.exists():
        pytest.skip("bubblewrap or /usr/bin/python3 is not installed")
    library = Path(subprocess.check_output([python, "-c", "import os; print(os.path.dirname(os.__file__))"], text=True).strip())
    for name in ("dev", "proc", "tmp", "etc", "root"):
        (root / name).mkdir()
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    shutil.copytree(library, root / str(library)[1:], ignore=shutil.ignore_patterns(*_LEFT_OUT), ignore_dangling_symlinks=True)
    for program in (python, Path("/bin/bash")):
        _copy(program, root / "usr" / "bin" / program.name)
        for shared in _libraries(program):
            _copy(shared, root / str(shared)[1:] if str(shared).startswith("/usr") else root / "usr" / str(shared)[1:])
    with LocalSandbox(make_template(image=str(root)), program="python") as sandbox:
        yield sandbox


def _libraries(program: Path) -> list[Path]:
    listed = subprocess.check_output(["ldd", program], text=True).split()
    return [Path(word) for word in listed if word.startswith("/")]


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source.resolve(), target)


def test_state_errors_and_interrupts_are_the_same_there(own: LocalSandbox) -> None:
    own.exec("x = 5")
    assert own.exec("x").output == "5\n"
    assert "guest" not in own.exec("1/0").output
    result = own.exec("while True: pass", timeout=0.3)
    assert (result.timed_out, result.session_lost) == (True, False)
    assert own.exec("exit()").session_lost
    assert own.exec("'again'").output == "'again'\n"


def test_tests_work_there(own: LocalSandbox) -> None:
    own.exec("def add(a, b): return a + b")
    suite = suite_of(Task("t", "q", "def plus(a, b): pass", {"tests": ["assert plus(1, 2) == 3", "assert plus(1, 2) == 4"]}))
    with own.beside() as referee:
        assert passed(Grader(referee).grade(own, suite, name="add")) == [True, False]
