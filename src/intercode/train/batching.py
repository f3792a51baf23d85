"""Answer the questions of many episodes with a trainer's function that generates in batches.

    questions ──► wait? ──► generate(prompts) ──► replies ──► the episodes act, and ask again
                    └─ Pace: what a call costs, whatever its size

A call costs `fixed + prompts · each` seconds. Where the second part is all (a server that is full),
nobody should wait: while it generates for some episodes, the others act. Where the first part is
all (a GPU with room), a call for half of the episodes costs as much as one for all, so a call waits
for the episodes that still act, up to `fixed` seconds.
"""

from __future__ import annotations

import queue
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from intercode.errors import ModelError
from intercode.train.sampling import Question, Sampled, require_sampled

Generate = Callable[[list[list[int]]], Sequence[Sampled]]
"""A function of the prompts' ids that returns one reply for each prompt, in the same order."""

LINGER = 0.01
"""Seconds to wait for more questions before generating a small batch, while other episodes act."""
SMALL = 4
"""A batch is small if it has less than one question for every four episodes that are playing."""


class Pace:
    """The durations of the last calls of `generate`."""

    def __init__(self) -> None:
        self._calls = deque[tuple[int, float]](maxlen=32)
        self._all = False

    def note(self, size: int, playing: int, seconds: float) -> None:
        """Note a call for `size` of the `playing` episodes."""
        self._calls.append((size, seconds))
        self._all = size >= playing

    def fixed(self) -> float:
        """Return the seconds of a call that do not depend on its size, by the slopes between calls
        of different sizes (Theil 1950, Sen 1968).

        While all calls had about one size, the next one tries another: it waits for all, or not at
        all if the last one did.
        """
        if not self._calls:
            return 0.0
        slopes = [
            (seconds - other_seconds) / (size - other)
            for (size, seconds), (other, other_seconds) in combinations(self._calls, 2)
            if abs(size - other) * SMALL >= max(size, other)
        ]
        if not slopes:
            return 0.0 if self._all else self._calls[-1][1]
        slope = max(0.0, statistics.median(slopes))
        return max(0.0, statistics.median(seconds - size * slope for size, seconds in self._calls))


@dataclass
class Batches:
    """Calls `generate` in one thread with the questions of all episodes that wait."""

    generate: Generate
    pace: Pace
    inbox: queue.SimpleQueue[Question | None] = field(default_factory=queue.SimpleQueue)
    """Questions; None says that an episode has ended."""

    def serve(self, playing: Callable[[], int], stop: Callable[[str], None]) -> None:
        """Generate until no episode is playing. After an error, call `stop`, let the episodes end,
        and raise the error.

        Raises what `generate` raises, and `UsageError` if `generate` returns anything but a reply
        for each prompt.
        """
        failure: BaseException | None = None
        while playing():
            batch: list[Question] = []
            replies: list[Sampled] = []
            try:
                self._collect(batch, playing)
            except BaseException as error:  # Ctrl-C
                failure = failure or error
            try:
                if batch and failure is None:
                    started, episodes = time.perf_counter(), playing()
                    answer_of_all = self.generate([prompt for prompt, _ in batch])
                    self.pace.note(len(batch), episodes, time.perf_counter() - started)
                    replies = require_sampled(answer_of_all, len(batch))
            except BaseException as error:
                failure = error
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
        """Add the questions that wait to `batch`, and wait for more as long as that pays.

        A call waits at most `fixed` seconds in all, and at most that since the last question: less
        when few are missing, so that one slow episode does not stop the others. A small batch
        waits `LINGER` in any case.
        """
        fixed, begun, timeout = self.pace.fixed(), 0.0, None
        while (episodes := playing()) > len(batch):
            if batch:
                now = time.monotonic()
                begun = begun or now
                missing = 1 - len(batch) / episodes
                deadline = min(begun + fixed, now + fixed * min(1.0, SMALL * missing))
                if len(batch) * SMALL < episodes:
                    deadline = max(deadline, begun + LINGER)
                timeout = max(0.0, deadline - now)
            try:
                items = [self.inbox.get(timeout=timeout)]
            except queue.Empty:
                return
            while not self.inbox.empty():
                items.append(self.inbox.get())
            batch += filter(None, items)
