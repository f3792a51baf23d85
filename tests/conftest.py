"""A cache of its own for tests that fill or break one; how tests are shared out among processes;
and the promise of CI, where every part is there, that nothing skips."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("INTERCODE_TRUST_KEY", "the key of the tests")
"""Runs are signed with it, and not with the user's own key."""

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
