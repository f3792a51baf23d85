"""Each worker's keeper and cells stay on its own processors; the agent's processes see and get them all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from intercode.sandbox.base import Session
from intercode.sandbox.guest import birth
from intercode.sandbox.local import LocalSandbox
from intercode.sandbox.share import mine, near, share, sharing
from intercode.sandbox.template import Template

THERE = sorted(os.sched_getaffinity(0))

needs_two = pytest.mark.skipif(len(THERE) < 2, reason="there is one processor")


def below(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            yield child
            yield from below(child)


def serving(sandbox: LocalSandbox) -> list[set[int]]:
    """Where the keeper, then its cells may run."""
    wall = sandbox._wall.wall._process.pid
    names = {pid: Path(f"/proc/{pid}/comm").read_text().strip() for pid in (wall, *below(wall))}
    return [os.sched_getaffinity(pid) for pid, name in names.items() if name.startswith("python")]


def elsewhere(work: Callable[[], None]) -> None:
    """In a thread, as workers are."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


@needs_two
@pytest.mark.parametrize("session", ["persistent", "stateless"])
def test_a_workers_cells_stay_and_the_agents_processes_do_not(template: Template, session: Session) -> None:
    everywhere = str([set(THERE)] * 2)
    look = "python3 -c 'import os; print([os.sched_getaffinity(pid) for pid in (0, 1)])'"

    def play() -> None:
        with sharing(1, 2), LocalSandbox(template, session=session) as sandbox:
            own = set(share(1, 2))
            for act in (sandbox.reset, lambda: sandbox.exec("exec true"), sandbox.reset):
                assert sandbox.exec(look).output.strip() == everywhere
                assert sandbox.exec("", argv=["bash", "-c", look]).output.strip() == everywhere
                found = serving(sandbox)
                assert len(found) >= 2
                assert all(each == own for each in found)
                assert os.sched_getaffinity(0) == set(THERE)
                act()
            with sandbox.fork() as twin:
                assert twin.exec(look).output.strip() == everywhere

    elsewhere(play)


def test_processors_that_are_taken_away_are_no_fault_of_a_sandbox() -> None:
    def move() -> None:
        birth.move(0, {4000}, set(THERE[:1]))
        assert os.sched_getaffinity(0) == set(THERE[:1])
        birth.move(0, {4000})
        with near([4000]):
            assert os.sched_getaffinity(0) == set(THERE[:1])

    elsewhere(move)


@needs_two
def test_one_alone_shares_with_nobody(template: Template) -> None:
    assert (share(0, 1), mine()) == ([], [])
    with sharing(0, 1), LocalSandbox(template) as sandbox:
        assert all(each == set(THERE) for each in serving(sandbox))


def test_workers_divide_the_processors_among_them() -> None:
    for workers in range(2, len(THERE) + 1):
        shares = [share(worker, workers) for worker in range(workers)]
        assert sorted(processor for own in shares for processor in own) == THERE
        assert all(shares)
    assert share(0, len(THERE) + 1) == []
