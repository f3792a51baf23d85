"""Python is read in threads, where CPython before 3.11.5 counts the depth of all of them as one."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from intercode.envs.python.suite import SYNTAX_ERRORS, parse

LONG = "def f(a):\n    return [g(x) for x in a if (x + 1) * (2 - x)]\n" * 60


class Rubbish:
    """Collected in the middle of a parse, it lets another thread run there."""

    def __init__(self) -> None:
        self.itself = self
        weakref.finalize(self, lambda: [str(number) for number in range(200)])


@pytest.fixture
def hasty() -> Iterator[None]:
    before, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(50)
    yield
    sys.setswitchinterval(before)
    gc.set_threshold(*threshold)


@pytest.mark.usefixtures("hasty")
def test_threads_may_read_at_once() -> None:
    def read(_: int) -> int:
        for _ in range(20):
            Rubbish()
        return len(parse(LONG).body)

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(read, range(100))) == {60}


def test_what_is_no_python_says_so_and_line_ends_are_any() -> None:
    assert len(parse("x = 1\r\ny = 2\r\n").body) == 2
    for text in ("x = = 1", "x = '\0'", "(" * 1000, "-" * 100_000 + "1"):
        with pytest.raises(SYNTAX_ERRORS):
            parse(text)
