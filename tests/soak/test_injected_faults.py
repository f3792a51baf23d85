"""What an evaluation depends on breaks, part by part and in pairs: no finished episode is lost,
doubled or wrong.

Each fault strikes a real `intercode eval` of two workers in its midst. It ends by itself, saying
who is at fault where a fault cost something; with the fault mended, `--resume` comes to what an
undisturbed run comes to.
"""

from __future__ import annotations

import itertools
import os
import re
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from families import Traces, family, wait_until
from orchard import servers_below, skip_unless_there
from scene import Results, Scene, staged

_NAMED = re.compile(r"(model|sandbox|store): ")
_BLOCK = b"\0" * 4096


@dataclass(frozen=True)
class TaskIssue:
    """`said`: what the run must say of it; None where it may go on as if nothing had happened."""

    name: str
    strike: Callable[[Scene], object]
    mend: Callable[[Scene], object] = lambda scene: None
    said: str | None = None


def _drop(scene: Scene) -> None:
    scene.server.dropping = True


def _answer(scene: Scene) -> None:
    scene.server.dropping = False


def _fill(scene: Scene) -> None:
    """To the last byte, while the run writes as well."""
    with (scene.seen / "filler").open("ab", buffering=0) as filler:
        try:
            while filler.write(_BLOCK):
                pass
        except OSError:
            pass


def _kill(pids: list[int]) -> None:
    assert pids
    os.kill(Random(len(pids)).choice(sorted(pids)), signal.SIGKILL)


def _stop(scene: Scene) -> None:
    """Return the living processes of one sandbox: supervisor, episode server, and the processes
    inside."""
    stopped = 0
    for pid, _ in next(found for wall in sorted(scene.walls()) if (found := family(wall))):
        with suppress(ProcessLookupError):  # what an action started may have ended
            os.kill(pid, signal.SIGSTOP)
            stopped += 1
    assert stopped


def _exhaust(scene: Scene) -> None:
    """From now on it can open nothing more."""
    pid = scene.process.pid
    _, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")), most))


FAULTS = [
    TaskIssue("the model's server drops", _drop, _answer, "model"),
    TaskIssue(
        "the disk is full",
        _fill,
        lambda scene: (scene.seen / "filler").unlink(missing_ok=True),
        "No space left|disk is full",
    ),
    TaskIssue("a sandbox is killed", lambda scene: _kill(scene.walls())),
    TaskIssue("a MariaDB is killed", lambda scene: _kill(servers_below(scene.process.pid))),
    TaskIssue("no descriptors are left", _exhaust, said="Too many open files"),
    TaskIssue("a sandbox is stopped", _stop),
]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, object], Results]:
    skip_unless_there("mariadb")
    if os.getuid() != 0:
        pytest.skip("a disk of its own needs root")
    with staged(tmp_path_factory.mktemp("calm")) as calm:
        figures = calm.finish()
        return figures, calm.results()[0]


@pytest.mark.soak
@pytest.mark.parametrize(
    "faults",
    [*itertools.combinations(FAULTS, 1), *itertools.combinations(FAULTS, 2)],
    ids=lambda faults: "-and-".join(fault.name.replace(" ", "-") for fault in faults),
)
def test_faults_cost_no_finished_episode(
    tmp_path: Path, faults: tuple[TaskIssue, ...], undisturbed: tuple[dict[str, object], Results]
) -> None:
    figures, expected = undisturbed
    with staged(tmp_path) as scene:
        scene.start()
        assert wait_until(lambda: scene.finished >= 6, 60)
        for fault in faults:
            fault.strike(scene)
        traces = Traces.of(scene.process.pid)
        status, _, err = scene.end()
        assert wait_until(lambda: not traces.left(), 20), "processes outlive the evaluation"
        kept, errors = scene.results()
        assert status in (0, 3), err
        assert "Traceback" not in err, err
        assert status == 0 or "intercode: " in err or errors, err
        assert [key for key in kept if kept[key] != expected[key]] == []
        assert [error for error in errors if not _NAMED.match(error)] == []
        if len(faults) == 1 and faults[0].said is not None:
            assert re.search(faults[0].said, "\n".join([err, *errors])), err
        for fault in faults:
            fault.mend(scene)
        assert scene.finish() == figures
        assert scene.results()[0] == expected
