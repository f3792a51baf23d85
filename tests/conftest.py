"""A home, configuration and cache of the tests' own; which tests `make test` leaves to `make
test-rest`; how tests are shared out among processes; and the promise of CI, where every part is
there, that nothing skips."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

WINGS = {
    "rollouts",
    "cluster",
    "view",
    "generate",
    "attack",
    "exploits",
    "hacks",
    "export",
    "atif",
    "interop",
    "harbor",
    "container",
    "dockerfile",
    "examples",
}
"""A test whose folder or file is named after one of these is left to `make test-rest`, unless it is
marked `journey`: test_cli_generate.py, but not test_cli_eval.py."""
COLLECTED = pytest.StashKey[list[pytest.Item]]()
"""All tests that were collected, also those that a mark then leaves out."""
SETTINGS = {
    "INTERCODE_BENCH",
    "INTERCODE_BENCH_PYTHON",
    "INTERCODE_CASES",
    "INTERCODE_DATA",
    "INTERCODE_FIDELITY_ALL",
    "INTERCODE_FUZZ_SECONDS",
    "INTERCODE_NOTHING_SKIPS",
    "INTERCODE_SOAK_EPISODES",
    "INTERCODE_WORLD",
    "INTERCODE_WRITE_GOLDEN",
}
"""What a caller of the tests may set."""


def leave_the_users_home() -> Path:
    """Let the tests, and the programs that they start, see no file and no setting of the user.
    Return their own home, which is empty. Their own cache stays for the next run, since it takes
    minutes to fill."""
    home = Path(tempfile.mkdtemp(prefix="intercode-home-"))
    shared = "/var/cache" if os.getuid() == 0 else os.environ.get("XDG_CACHE_HOME")
    place = os.environ.get("INTERCODE_CACHE") or f"{shared or Path.home() / '.cache'}/intercode"
    pip = Path.home() / ".config/pip/pip.conf"
    if pip.is_file():  # where packages are found is a matter of the machine
        os.environ.setdefault("PIP_CONFIG_FILE", str(pip))
    for name in list(os.environ):
        if name.startswith(("INTERCODE_", "OPENAI_")) and name not in SETTINGS:
            del os.environ[name]
    for name in ("CACHE", "CONFIG", "DATA", "STATE"):
        os.environ.pop(f"XDG_{name}_HOME", None)
    os.environ["HOME"] = str(home)
    os.environ["INTERCODE_CACHE"] = f"{place.rstrip('/')}-tests"
    os.environ["INTERCODE_TRUST_KEY"] = "the key of the tests"
    return home


HOME = None if "PYTEST_XDIST_WORKER" in os.environ else leave_the_users_home()
"""A worker inherits the variables of the process that started it."""

signal.signal(signal.SIGINT, signal.default_int_handler)
"""SIGINT is ignored where a script starts the tests in the background, and the programs that tests
start would inherit that."""


@pytest.fixture
def empty_cache() -> Iterator[Path]:
    with _other_cache() as folder:
        yield folder


@pytest.fixture(scope="module")
def module_cache() -> Iterator[Path]:
    with _other_cache() as folder:
        yield folder


def pytest_unconfigure() -> None:
    if HOME:
        shutil.rmtree(HOME, ignore_errors=True)


def pytest_itemcollected(item: pytest.Item) -> None:
    item.config.stash.setdefault(COLLECTED, []).append(item)
    words = re.split(r"[/_.]", str(item.path.relative_to(Path(__file__).parent)))
    if not WINGS.isdisjoint(words) and not marked(item, "journey"):
        item.add_marker("rest")


@pytest.fixture(scope="session")
def collected(request: pytest.FixtureRequest) -> list[pytest.Item]:
    return request.config.stash[COLLECTED]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, or one process would end it while the other has nothing
    left."""
    items.sort(key=lambda item: not (marked(item, "alone") or marked(item, "long")))


def marked(item: pytest.Item, name: str) -> bool:
    return item.get_closest_marker(name) is not None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file goes to one process, since its tests share what its fixtures make; the order is that
    of the collection. Tests marked `alone` all go to one process, and of a file marked `apart` each
    test may go to another.

    The process that shares out the tests collects none, so it reads the marks in the files.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            if "pytest.mark.alone" in text_of(config.rootpath / file):
                return "alone"
            return nodeid if "pytest.mark.apart" in text_of(config.rootpath / file) else file

    config.option.loadscopereorder = False
    return ByFile(config, log)


@functools.cache
def text_of(file: Path) -> str:
    return file.read_text("utf-8")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """$INTERCODE_NOTHING_SKIPS makes a skipped test a failure of the whole."""
    skipped = terminalreporter.stats.get("skipped", [])
    if os.environ.get("INTERCODE_NOTHING_SKIPS") and skipped:
        terminalreporter.section("skipped, where nothing may")
        for report in skipped:
            terminalreporter.line(f"{report.nodeid}: {report.longrepr[2]}")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    # None in a process that another one shares out to
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if (
        reporter
        and os.environ.get("INTERCODE_NOTHING_SKIPS")
        and reporter.stats.get("skipped")
        and exitstatus == 0
    ):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@contextlib.contextmanager
def _other_cache() -> Iterator[Path]:
    """A folder that the sandboxes' user may enter (pytest's own are private to the caller)."""
    folder = Path(tempfile.mkdtemp(prefix="intercode-test-"))
    folder.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INTERCODE_CACHE", str(folder))
        yield folder
    shutil.rmtree(folder)
