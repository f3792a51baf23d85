"""Methods of an object that only one thread at a time may be in: a second one is told, not made to wait.

What two callers do to one world at once looks like the death of its sandbox, and would be taken for the agent's doing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from threading import RLock
from typing import Any, Concatenate, ParamSpec, TypeVar

from intercode.errors import UsageError

Words = ParamSpec("Words")
Owner = TypeVar("Owner", bound=Any)
Made = TypeVar("Made")
Lock = RLock


def single_thread(method: Callable[Concatenate[Owner, Words], Made]) -> Callable[Concatenate[Owner, Words], Made]:
    """Raises `UsageError` while another thread is in a method that is marked so; the owner has its `Lock` as `_lock`."""

    @functools.wraps(method)
    def alone(owner: Owner, /, *words: Words.args, **named: Words.kwargs) -> Made:
        if not owner._lock.acquire(blocking=False):
            raise UsageError("another thread is using this environment; give each thread one of its own")
        try:
            return method(owner, *words, **named)
        finally:
            owner._lock.release()

    return alone
