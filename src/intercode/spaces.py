"""The spaces of actions and observations, and `info`, as Gymnasium sees them."""

from __future__ import annotations

from typing import Any

from gymnasium.spaces import Text
from gymnasium.vector.utils import create_shared_memory

from intercode.errors import UsageError
from intercode.submission import LONGEST
from intercode.types import ExecResult


class Utf8(Text):
    """Any text that can be encoded in UTF-8, the empty text included. Samples are short words."""

    def __init__(self, max_length: int = LONGEST, seed: int | None = None) -> None:
        super().__init__(max_length=max_length, min_length=0, seed=seed)

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        letters = self.np_random.choice(
            list("abcdefghijklmnopqrstuvwxyz"), size=self.np_random.integers(1, 9)
        )
        return "".join(letters)

    def contains(self, x: Any) -> bool:
        try:
            return isinstance(x, str) and len(x) <= self.max_length and x.encode() is not None
        except UnicodeEncodeError:
            return False

    def __repr__(self) -> str:
        return f"Utf8({self.max_length})"


@create_shared_memory.register(Utf8)
def _refuse_shared_memory(space: Utf8, n: int = 1, ctx: Any = None) -> Any:
    raise UsageError(
        "texts of any length do not fit into the shared memory of Gymnasium; "
        "use AsyncVectorEnv(…, shared_memory=False), or "
        'make_vec(…, vector_kwargs={"shared_memory": False})'
    )


class ExitCode(int):
    """An int that Gymnasium's vector environments store as an object, since other environments may
    report None."""


def make_info(result: ExecResult | None, cut: bool = False) -> dict[str, Any]:
    """Return the `info` of a step with this result; None: nothing was executed. `cut`: the agent
    sees a part of the output."""
    if result is None:
        return {
            "exit_code": None,
            "timed_out": False,
            "truncated_output": cut,
            "session_lost": False,
            "limits": (),
        }
    limits = set(result.limits)
    if result.timed_out:
        limits.add("time")
    if result.overflow is not None:
        limits.add("output")
    return {
        "exit_code": None if result.exit_code is None else ExitCode(result.exit_code),
        "timed_out": result.timed_out,
        "truncated_output": cut,
        "session_lost": result.session_lost,
        "limits": tuple(sorted(limits)),
    }


def fingerprint(result: ExecResult) -> str:
    """Return a text that is equal for equal results."""
    return (
        f"{result.exit_code} {result.timed_out} {result.session_lost} {result.overflow} "
        f"{result.output}"
    )
