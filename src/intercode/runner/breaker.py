"""Tell a lasting outage from single faults, for runs and for pools of rollouts."""

from __future__ import annotations

import threading

from intercode.errors import DataError, IntercodeError

FAULTS_IN_A_ROW = 3


class Breaker:
    """Counts faults of one kind in a row, over all threads that note one for each episode."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._faults: list[IntercodeError] = []
        self._lock = threading.Lock()

    def note(self, fault: IntercodeError | None) -> IntercodeError | None:
        """Note an episode's fault, or None for an episode without one. Return the fault if it is at
        least number `most` of its kind in a row: a server or the machine is down.

        Faults of the data concern one task and change nothing.
        """
        if isinstance(fault, DataError):
            return None
        with self._lock:
            same = [earlier for earlier in self._faults if type(earlier) is type(fault)]
            self._faults = [*same, fault][-self.most :] if fault else []
            return fault if len(self._faults) >= self.most else None
