"""An environment that a thread keeps from episode to episode, and faults that become an episode's
error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from intercode.errors import IntercodeError, UsageError, room_left
from intercode.plugins import fault_of, is_user_code
from intercode.runner.env_forks import Playable
from intercode.types import Episode, Task, Turn

HOW_TO_RESUME = "finished episodes are kept; after the repair, continue with --resume DIR"
HOW_TO_RESUME_CHANGED = f"{HOW_TO_RESUME} --allow-code-change"
"""The advice for a mistake in the caller's code."""


class WarmEnv:
    """An environment that is created for the first episode, and again after a fault. One thread at
    a time may use it."""

    def __init__(self, make_env: Callable[[], Playable], env: Playable | None = None) -> None:
        """`env` is an existing environment."""
        self._make_env, self._env = make_env, env

    def start(self, task: Task) -> None:
        """Create the environment, and begin an episode, so that its sandbox runs. Raises what that
        raises."""
        with room_left():
            self._env = self._env or self._make_env()
            self._env.reset(seed=0, options={"task": task.id})

    def run(
        self,
        task: Task,
        play: Callable[[Playable], Episode],
        *,
        turns: Sequence[Turn],
        epoch: int = 0,
        seed: int = 0,
    ) -> tuple[Episode, IntercodeError | None]:
        """Return the episode that `play` plays, and None; or after a fault an episode with its
        `error`, and the fault.

        The episode of a fault has the `turns` until then. Raises `UsageError`, and any exception of
        the caller's own code.
        """
        try:
            with room_left():
                self._env = self._env or self._make_env()
                with naming_task(task):
                    return play(self._env), None
        except UsageError:
            raise
        except Exception as error:
            fault = fault_of(error)
            text = f"{fault.fault}: {fault}"
            self.close()
            return (
                Episode(
                    task.id,
                    task.query,
                    tuple(turns),
                    None,
                    False,
                    None,
                    {},
                    epoch,
                    seed,
                    text,
                    split=task.split,
                ),
                fault,
            )

    def close(self) -> None:
        """Close the environment, ignoring faults: a broken environment may fail to close."""
        env, self._env = self._env, None
        try:
            if env is not None:
                env.close()
        except Exception as error:
            # raises an exception of the caller's code; an episode has the error already
            fault_of(error)


@contextmanager
def naming_task(task: Task) -> Iterator[None]:
    """Add the task to a `UsageError` raised in the block, and as a note to an exception of the
    caller's own code."""
    note = f"task {task.id}"
    try:
        yield
    except UsageError as fault:
        raise UsageError(f"{fault} ({note})") from fault
    except (Exception, SystemExit) as error:
        if is_user_code(error):
            error.add_note(note)
        raise
