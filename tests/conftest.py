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
import subprocess
import tempfile
from collections import Counter
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
TESTS = Path(__file__).parent
LATELY = 10
"""The tests of what so many commits changed are run first."""
ONLY_CHANGED = bool(os.environ.get("INTERCODE_ONLY_CHANGED"))
"""Whether only the tests of what differs from the last commit are collected: `make check`."""
PARTS = ("fidelity", "programs", "world", "rest")
"""The marks of what `make test` leaves out and CI runs."""
pytest.register_assert_rewrite("command_line_agents")
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
    "INTERCODE_ONLY_CHANGED",
    "INTERCODE_PROGRAMS",
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
    """Begin with quick tests of what changed lately, which fail soonest if anything does, and go on
    with what takes longest: at the end it would keep one process busy alone."""
    lately = set[Path]().union(*filter(None, map(tests_of, changed(f"HEAD~{LATELY}"))))

    def place(item: pytest.Item) -> int:
        if item.path in lately and not marked(item, "slow"):
            return 0
        return 1 if marked(item, "alone") or marked(item, "long") else 2

    items.sort(key=place)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out files that test nothing that changed. A change that no file tests by its name or
    imports leaves out none."""
    if not ONLY_CHANGED or collection_path not in test_files():
        return None
    of_changes = [tests_of(path) for path in changed("HEAD")]
    of_the_whole = collection_path.parent == TESTS
    chosen = of_the_whole or not all(of_changes) or any(collection_path in of for of in of_changes)
    return None if chosen else True


@functools.cache
def changed(since: str) -> list[Path]:
    """The files of src and tests that differ from a commit; none where git cannot tell."""
    paths = list[Path]()
    for command in (["diff", "--name-only", since], ["ls-files", "--others", "--exclude-standard"]):
        listed = subprocess.run(
            ["git", *command, "--", "src", "tests"],
            cwd=TESTS.parent,
            capture_output=True,
            text=True,
            check=False,
        )
        paths += map(Path, listed.stdout.splitlines())
    return paths


@functools.cache
def tests_of(path: Path) -> set[Path]:
    """The files of tests that are named after a file, or after a room that it is in, or that import
    it; of a file among the tests, what is beside or below it."""
    if path.parts[0] == "tests":
        place = TESTS.parent / path
        if place in test_files():
            return {place}
        users = files_with(rf"\b{path.stem}\b") if path.parts[1] == "helpers" else set[Path]()
        return users or {file for file in test_files() if file.is_relative_to(place.parent)}
    rooms = {room.removeprefix("intercode_") for room in path.parts[1:-1]} - {"intercode"}
    names = {*rooms, path.stem} - {"__init__"}
    module = ".".join(path.with_suffix("").parts[1:])
    named = {file for file in test_files() if names & names_in(file)}
    return named | files_with(rf"\b{re.escape(module)}\b")


@functools.cache
def test_files() -> frozenset[Path]:
    return frozenset(TESTS.rglob("test_*.py"))


def files_with(pattern: str) -> set[Path]:
    return {file for file in test_files() if re.search(pattern, text_of(file))}


def names_in(path: Path) -> set[str]:
    """The names of a file of tests and its folder, and the words of its own: `envs`, `test_verify`,
    `verify`."""
    words = re.split(r"[_.]", path.name)
    return {path.parent.name, path.stem, *words} - {"", "test", "py", "tests"}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two processes a core: many tests wait for a program, a clock or a disk."""
    return 2 * len(os.sched_getaffinity(0))


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
    """The cases of each part and their seconds in all processes. $INTERCODE_NOTHING_SKIPS makes a
    skipped test a failure of the whole."""
    cases, seconds = Counter[str](), Counter[str]()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if not isinstance(report, pytest.TestReport):
                continue
            part = next((mark for mark in PARTS if mark in report.keywords), "test")
            cases[part] += report.when == "call"
            seconds[part] += report.duration
    for part in seconds:
        terminalreporter.line(
            f"{part}: {cases[part]} cases, {seconds[part]:.0f} s in all processes"
        )
    if skipped := forbidden_skips(terminalreporter):
        terminalreporter.section("skipped, where nothing may")
        for report in skipped:
            terminalreporter.line(f"{report.nodeid}: {report.longrepr[2]}")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    # None in a process that another one shares out to
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter and exitstatus == 0 and forbidden_skips(reporter):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def forbidden_skips(reporter: pytest.TerminalReporter) -> list[Any]:
    """Tests and files that skipped under $INTERCODE_NOTHING_SKIPS, but for tests marked
    `may_skip`."""
    if not os.environ.get("INTERCODE_NOTHING_SKIPS"):
        return []
    skipped = reporter.stats.get("skipped", ())
    return [report for report in skipped if "may_skip" not in getattr(report, "keywords", ())]


@contextlib.contextmanager
def _other_cache() -> Iterator[Path]:
    """A folder that the sandboxes' user may enter (pytest's own are private to the caller)."""
    folder = Path(tempfile.mkdtemp(prefix="intercode-test-"))
    folder.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INTERCODE_CACHE", str(folder))
        yield folder
    shutil.rmtree(folder)
