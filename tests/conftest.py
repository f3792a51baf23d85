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
from typing import Any

import pytest

ALONE = (
    *(
        "tests/docs/",
        "tests/examples/test_own_examples.py",
        "tests/sandbox/test_contract.py",
        "tests/sandbox/test_docker",
    ),
    *(
        "tests/sandbox/test_image_export.py",
        "tests/sandbox/test_in_container.py",
        "tests/test_doctor.py",
    ),
)
"""Tests that look at docker, where others put images and containers: one after another, in one
process."""

LONG = (
    "tests/cli/test_cli_attack.py",
    "tests/cluster/",
    "tests/sandbox/test_image.py",
    "tests/agents/test_starter_agents.py",
)
"""Files that take half a minute or more; they are begun first."""

APART = "tests/cli/test_cli_attack.py"
"""A file whose tests share nothing: each may go to another process."""

SLOW = (
    *(
        "tests/exploits/",
        "tests/fuzz/",
        "tests/test_starter_",
        "tests/test_doctor.py",
        "tests/testing/",
        "tests/models/",
    ),
    *("tests/cluster/", "tests/generate/"),
    *(
        "tests/sandbox/test_lifecycle.py",
        "tests/sandbox/test_timeouts.py",
        "tests/sandbox/test_between_actions.py",
    ),
    *(
        "tests/sandbox/test_template.py",
        "tests/sandbox/test_comparing.py",
        "tests/interpreters/test_grading",
    ),
    *(
        "tests/engines/test_faults.py",
        "tests/engines/test_killed_build.py",
        "tests/engines/test_variants.py",
    ),
    *(
        "tests/envs/test_gymnasium.py",
        "tests/envs/test_sql_env.py",
        "tests/examples/",
        "tests/rewards/test_archives.py",
    ),
)
"""Tests that wait, kill or build: `make check` leaves them, and tests that are marked slow, to
`make test`."""

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
    """Begin with what takes longest, or one process would end it while the other has nothing left;
    mark the slow ones."""
    items.sort(key=lambda item: not item.nodeid.startswith((*ALONE, *LONG)))
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker("slow")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file goes to one process, since its tests share what its fixtures make; the order is that
    of the collection."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(ALONE):
                return "alone"
            return nodeid if nodeid.startswith(APART) else nodeid.partition("::")[0]

    config.option.loadscopereorder = False
    return ByFile(config, log)


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
