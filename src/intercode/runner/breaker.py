"""Tell a lasting outage from single faults, for runs and for pools of rollouts."""

from __future__ import annotations

import threading

from intercode.errors import DataError, IntercodeError

FAULTS_IN_A_ROW = 3


class Breaker:
    """Counts faults of one kind in a row, over all threads that note one for each episode."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._kind: type[IntercodeError] | None = None
        self._count = 0
        self._lock = threading.Lock()

    def note(self, fault: IntercodeError | None) -> IntercodeError | None:
        """Note an episode's fault, or None for an episode without one. Return the fault if it is at
        least number `most` of its kind in a row: a server or the machine is down.

        Faults of the data concern one task and change nothing.
        """
        if isinstance(fault, DataError):
            return None
        with self._lock:
            if fault is None or type(fault) is not self._kind:
                self._count = 0
            if fault is None:
                return None
            self._kind = type(fault)
            self._count += 1
            if self._count < self.most:
                return None
            return fault
