"""Blame: whether the agent or the machine is at fault when a sandbox dies.

    SandboxDied ── replay the episode, at the pace of its first play
        dies again, though a fresh sandbox can execute and score an action
               → the agent's fault; while sandboxes of other episodes die as well, only if three
                 more replays die too
        else   → `SandboxDied` is raised: the machine's fault

The death of a process that the agent's user owns (shell, interpreter, a test's process) is an
outcome, not `SandboxDied`, and never gets here. Deaths in other processes, such as those of other
shards, are not seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from math import inf
from threading import Lock

from intercode.errors import SandboxDied, SandboxError

_MORE_REPLAYS = 3
_RECENT, _QUIET, _LONGEST_WAIT = 60.0, 2.0, 10.0
"""Seconds: how recent another sandbox's death makes a second death doubtful; how long no other may
have died before the next replay begins; how long to wait for that at most."""


class Deaths:
    """The last sandbox death of each episode in this process, unless its agent caused it."""

    def __init__(self) -> None:
        self._lock, self._times = Lock(), dict[Hashable, float]()

    def note(self, episode: Hashable, *, by_agent: bool = False) -> None:
        with self._lock:
            self._times[episode] = -inf if by_agent else time.monotonic()
            oldest = time.monotonic() - _RECENT
            self._times = {key: died for key, died in self._times.items() if died > oldest}

    def since_others(self, episode: Hashable) -> float:
        """Return the seconds since the sandbox of another episode died."""
        with self._lock:
            times = [died for key, died in self._times.items() if key != episode]
        return time.monotonic() - max(times, default=-inf)

    def wait_for_quiet(self, episode: Hashable) -> None:
        until = time.monotonic() + _LONGEST_WAIT
        while self.since_others(episode) < _QUIET and time.monotonic() < until:
            time.sleep(0.1)


_deaths = Deaths()


def require_agents_fault(
    death: SandboxDied,
    episode: Hashable,
    *,
    prove: Callable[[], None],
    replay: Callable[[], None],
) -> None:
    """Return if the agent is to blame for the death of its sandbox; raise `SandboxDied` if the
    machine is.

    `prove` starts an episode in a fresh sandbox, and executes and scores an action; `replay`
    executes the episode again and scores it. `death.by_agent` counts as the second death. Whoever
    kills sandboxes of other episodes meanwhile may have hit the replay too, so the episode is then
    replayed up to three times more.
    """

    def require_sandbox() -> None:
        try:
            prove()
        except SandboxError as error:
            raise SandboxDied(
                f"{death}; nor can a fresh sandbox execute and score an action: {error}"
            ) from error

    latest = death
    for replays in range(1 + _MORE_REPLAYS):
        if latest.by_agent:
            break
        _deaths.note(episode)
        if replays:
            if _deaths.since_others(episode) > _RECENT:
                break
            _deaths.wait_for_quiet(episode)
        require_sandbox()
        try:
            replay()
        except SandboxDied as again:
            latest = again
        else:
            raise SandboxDied(
                f"{death}; it did not happen again when the episode was re-executed"
            ) from death
    require_sandbox()
    _deaths.note(episode, by_agent=True)
