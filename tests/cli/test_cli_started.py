"""Who starts `intercode`, and how, decides no reward: golds succeed, or one sentence names the
limit that is too low."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path

import pytest
from lines import episodes

COMMAND = str(Path(sys.executable).parent / "intercode")
pytestmark = pytest.mark.slow


def ignoring(*signals: signal.Signals) -> None:
    for number in signals:
        signal.signal(number, signal.SIG_IGN)


def as_daemons_do() -> None:
    """All at once, and no standard streams."""
    ignoring(signal.SIGCHLD, signal.SIGPIPE, signal.SIGHUP, signal.SIGUSR1)
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    os.umask(0o077)
    os.closerange(0, 3)


def limiting(name: str, value: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))


def start(
    env: str, folder: Path, before: Callable[[], object], **options: str
) -> subprocess.CompletedProcess[str]:
    words = ("eval", env, "--limit", "2", "--agent", "gold", "--workers", "1")
    return subprocess.run(
        [COMMAND, *words, "--out", str(folder / "run")],
        preexec_fn=before,
        env={**os.environ, **options},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def with_umask_and_usual_limits() -> None:
    os.umask(0o777)
    for name, value in (("NOFILE", 1024), ("NPROC", 1000), ("STACK", 8 << 20)):
        limiting(name, value)()


def rewards(run: Path) -> list[float | None]:
    return [episode["reward"] for episode in episodes(run)]


STARTS: dict[str, Callable[[], object]] = {
    "no-stdin": lambda: os.close(0),
    "no-stdout": lambda: os.close(1),
    "umask-ulimits": with_umask_and_usual_limits,
}


@pytest.mark.parametrize("before", STARTS.values(), ids=STARTS)
def test_golds_succeed_however_the_command_is_started(
    tmp_path: Path, before: Callable[[], object]
) -> None:
    done = start("bash", tmp_path, before)
    assert done.returncode == 0, done.stderr
    assert rewards(tmp_path / "run") == [1.0, 1.0]


@pytest.mark.parametrize("env", ["bash", "sql", "python"])
def test_golds_succeed_below_a_daemon_also_while_the_cache_is_filled(
    tmp_path: Path, env: str
) -> None:
    # not in tmp_path, which is closed to the sandboxes' user
    with tempfile.TemporaryDirectory() as cache:
        Path(cache).chmod(0o755)
        locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        start(env, tmp_path, as_daemons_do, INTERCODE_CACHE=cache, **locale)
    assert rewards(tmp_path / "run") == [1.0, 1.0]


def test_the_module_is_the_command() -> None:
    command = [sys.executable, "-m", "intercode"]
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: intercode [OPTIONS] COMMAND")
    wrong = subprocess.run([*command, "eval", "nope"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stderr.split(";")[0]) == (
        2,
        "intercode: no environment named 'nope'",
    )


def test_packages_outside_site_packages_are_no_code_of_the_user(tmp_path: Path) -> None:
    """As `pip install --target FOLDER` installs them."""
    for file in distribution("click").files or ():
        if ".." not in file.parts and file.suffix != ".pyc":
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file.locate(), tmp_path / file)
    (tmp_path / "own.py").write_text("")
    ask = (
        "import click, own; from intercode.plugins import is_user_file; "
        "print([is_user_file(module.__file__) for module in (click, own)])"
    )

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))
        return subprocess.run(
            [sys.executable, *words],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )

    doctor = run("-m", "intercode", "doctor")
    assert (doctor.returncode in (0, 1), doctor.stderr) == (True, "")
    assert run("-c", ask).stdout == "[False, True]\n"
    (record,) = tmp_path.glob("click-*.dist-info/RECORD")
    record.unlink()  # as in a folder in which click is developed
    assert run("-c", ask).stdout == "[True, True]\n"


@pytest.mark.parametrize(
    ("name", "value", "flag"),
    [
        ("NOFILE", 64, "-n"),
        ("NPROC", 50, "-u"),
        ("STACK", 1 << 18, "-s"),
        ("FSIZE", 1 << 20, "-f"),
        ("AS", 1 << 29, "-v"),
    ],
)
def test_a_limit_that_is_too_low_is_named(tmp_path: Path, name: str, value: int, flag: str) -> None:
    done = start("bash", tmp_path, limiting(name, value))
    assert (done.returncode, done.stdout) == (3, "")
    assert f"`ulimit {flag}`" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_interrupt_while_the_command_is_imported_prints_no_traceback(tmp_path: Path) -> None:
    """A module that sends SIGINT stands in the place of the first that the command imports."""
    stop = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"
    (tmp_path / "click.py").write_text(stop)
    folders = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "intercode", "--help"],
        env={**os.environ, "PYTHONPATH": folders},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "intercode: interrupted\n")
