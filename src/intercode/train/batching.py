"""Answer the questions of many episodes with a trainer's function that generates in batches.

    questions ──► enough? ──► generate(prompts) ──► replies ──► the episodes act, and ask again
                     └─ Pace: the seconds of a call that its size does not change, and of acting

A call for some episodes waits until *half* of those that play have asked, so that the others act
while it generates; or until *all* have asked. With halves, a step takes the larger of two calls and
all acting; with all, it takes one call and all acting. So all are better if the part of a call that
does not depend on its size (`fixed`) is longer than acting. Episodes that act for much longer than
the others are not waited for.
"""

from __future__ import annotations

import queue
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Literal

from intercode.errors import ModelError, UsageError
from intercode.train.sampling import Question, Sampled, require_sampled

Generate = Callable[[list[list[int]]], Sequence[Sampled]]
"""A function of the prompts' ids that returns one reply for each prompt, in the same order."""

Wait = Literal["auto", "half", "all"]
"""Questions for which a call waits: those of half of the episodes or of all, or what is faster."""

SHORTEST = 0.05
"""Seconds without a new question, at least, after which a call waits no longer."""
AT_FIRST = 1.0
"""The same, before it is known how long episodes act: their sandboxes start."""
ALIKE = 4
"""Sizes of calls tell `fixed` only if they differ by more than a quarter."""
AGAIN = 32
"""Calls for halves after which one for all measures again how long all episodes act."""


class Pace:
    """The durations of the last calls of `generate`, and of acting."""

    def __init__(self) -> None:
        self._calls, self._number = deque[tuple[int, float]](maxlen=32), 0
        self._acting, self._waits = deque[float](maxlen=8), deque[float](maxlen=16)

    def note_call(self, size: int, seconds: float) -> None:
        """Note a call of `generate` with `size` prompts."""
        self._calls.append((size, seconds))
        self._number += 1

    def note_wait(self, seconds: float, *, all_asked: bool) -> None:
        """Note the seconds from the end of a call until enough episodes had asked; `all_asked`: all
        that play acted until then, and all have asked."""
        self._waits.append(seconds)
        if all_asked:
            self._acting.append(seconds)

    def fixed(self) -> float | None:
        """Return the seconds of a call that do not depend on its size, by the slopes between calls
        of different sizes (Theil 1950, Sen 1968); None while all calls had about one size."""
        slopes = [
            (seconds - other_seconds) / (size - other)
            for (size, seconds), (other, other_seconds) in combinations(self._calls, 2)
            if abs(size - other) * ALIKE > max(size, other)
        ]
        if not slopes:
            return None
        slope = max(0.0, statistics.median(slopes))
        return max(0.0, statistics.median(seconds - size * slope for size, seconds in self._calls))

    def prefers_all(self) -> bool:
        """Return whether the next call had better wait for all episodes. Measures first: two calls
        for all, then two for halves."""
        fixed = self.fixed()
        if not self._acting or self._number < 2 or self._number % AGAIN == 0:
            return True
        return fixed is not None and fixed > statistics.median(self._acting)

    def patience(self) -> float:
        """Return the seconds without a new question after which a call waits no longer: twice the
        usual wait, or as long as a call for the missing questions alone takes."""
        if not self._waits:
            return AT_FIRST
        return max(SHORTEST, 2 * statistics.median(self._waits), self.fixed() or 0.0)


class Batches:
    """Calls `generate` in one thread with the questions of all episodes that wait."""

    def __init__(self, generate: Generate, pace: Pace, wait: Wait = "auto") -> None:
        if wait not in ("auto", "half", "all"):
            raise UsageError(f"wait is {wait!r}; it must be auto, half or all")
        self.generate, self.pace, self.wait = generate, pace, wait
        self.inbox = queue.SimpleQueue[Question | None]()
        """Questions; None says that an episode has ended."""
        self._late = self._answered = 0
        """Episodes that the last call did not wait for, though it should have; and its size, 0
        before the first, while all episodes begin."""

    def serve(self, playing: Callable[[], int], stop: Callable[[str], None]) -> None:
        """Generate until no episode is playing. After an error, call `stop`, let the episodes end,
        and raise the error.

        Raises what `generate` raises, and `UsageError` if `generate` returns anything but a reply
        for each prompt.
        """
        failure: BaseException | None = None
        while playing():
            batch, replies = list[Question](), list[Sampled]()
            try:
                self._collect(batch, playing)
                if batch and failure is None:
                    started = time.perf_counter()
                    answer_of_all = self.generate([prompt for prompt, _ in batch])
                    self.pace.note_call(len(batch), time.perf_counter() - started)
                    replies = require_sampled(answer_of_all, len(batch))
            except BaseException as error:  # of `generate`, or Ctrl-C
                failure = failure or error
            for number, (_, answer) in enumerate(batch):
                if failure is None:
                    answer.set_result(replies[number])
                else:
                    answer.set_exception(ModelError(f"generate raised {failure!r}"))
            if failure is not None:
                stop(f"generate raised {failure!r}")
        if failure is not None:
            raise failure

    def _collect(self, batch: list[Question], playing: Callable[[], int]) -> None:
        """Add the questions that wait to `batch`, and wait for more until they are enough, or no
        new one comes."""
        begun = latest = time.monotonic()
        patience = self.pace.patience()
        to_all = self.wait == "all" or (self.wait == "auto" and self.pace.prefers_all())
        while (missing := (episodes := playing()) - len(batch)) > 0:
            self._late = min(self._late, missing)
            expected = episodes - self._late
            if batch and len(batch) >= (expected if to_all else (expected + 1) // 2):
                break
            timeout: float | None = None
            if batch:
                timeout = max(0.0, latest + patience - time.monotonic())
            try:
                items = [self.inbox.get(timeout=timeout)]
            except queue.Empty:
                self._late = missing
                break
            while not self.inbox.empty():
                items.append(self.inbox.get())
            latest = time.monotonic()
            batch += filter(None, items)
        if batch:
            all_asked = missing <= 0 and self._answered in (0, len(batch))
            self.pace.note_wait(latest - begun, all_asked=all_asked)
            self._answered = len(batch)
