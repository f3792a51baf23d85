"""A cache of its own for tests that fill or break one; how tests are shared out among processes;
and the promise of CI, where every part is there, that nothing skips."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

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


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, or one process would end it while the other has nothing left.

    A file goes to one process, since its tests share what its fixtures make. Tests marked `alone`
    all go to one, and of a file marked `apart` each test may go to another.
    """
    items.sort(key=lambda item: not (marked(item, "alone") or marked(item, "long")))
    for item in items:
        group = item.nodeid if marked(item, "apart") else item.nodeid.partition("::")[0]
        item.add_marker(pytest.mark.xdist_group("alone" if marked(item, "alone") else group))


def marked(item: pytest.Item, name: str) -> bool:
    return item.get_closest_marker(name) is not None


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
