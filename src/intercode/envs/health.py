"""Health checks of a task: commands that must succeed before the agent starts, by Harbor's rule.

A failure in the first `start_period` seconds does not count. After that, `retries` failures in a
row are a fault of the task.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from intercode.envs.separate import has_fields, is_text
from intercode.errors import DataError
from intercode.types import is_number
from intercode_sandbox.base import Sandbox

_USUAL = {
    "interval": 5.0,
    "timeout": 30.0,
    "start_period": 0.0,
    "start_interval": 5.0,
    "retries": 3,
}


def are_healthchecks(value: object) -> bool:
    """Return whether this is a list of checks: `command`, and numbers of `_USUAL`."""
    kinds = {"command": is_text, **dict.fromkeys(_USUAL, _is_amount)}
    return isinstance(value, list) and all(has_fields(entry, kinds, "command") for entry in value)


def _is_amount(value: object) -> bool:
    return is_number(value) and value >= 0


def require_health(box: Sandbox, check: Mapping[str, Any]) -> None:
    """Repeat a check until it succeeds. Raises `DataError` if it does not."""
    how = {**_USUAL, **check}
    began, failures = time.monotonic(), 0
    while True:
        argv = ["bash", "-c", how["command"]]
        result = box.exec("", argv=argv, timeout=how["timeout"] or None)
        if result.exit_code == 0:
            return
        pause = how["start_interval"]
        if time.monotonic() - began >= how["start_period"]:
            pause = how["interval"]
            failures += 1
        if failures >= how["retries"]:
            raise DataError(
                f"the health check {how['command']!r:.80} failed {failures} times; "
                f"it printed:\n{result.output[-1000:] or '(nothing)'}"
            )
        time.sleep(pause)
