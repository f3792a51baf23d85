"""The limits of a sandbox, each declared once.

    memory: int = limit(1024 * MIB, MEBIBYTES, "Allow …", hit="memory limit of {} MiB")

A field of `Limits` that is declared so defines the option `--memory` and its help, the key `memory`
of a task's record and of run.json, how a value is read and shown, and what the output says when the
limit is hit; a turn's `limits` then contain the field's name. What enforces a limit is written
where the kernel counts it: by the episode server for all processes together (`guest/episode.py`),
by an rlimit for each of them (`host.shared_limits`). Imports stay small, since every command
imports this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any

from intercode_sandbox.results import is_number

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit of a limit: its name in messages, and its size in the field's own unit."""

    words: str
    size: int = 1
    whole: bool = True


SECONDS = Unit("number of seconds", whole=False)
MEBIBYTES = Unit("whole number of MiB", MIB)
COUNT = Unit("whole number")


@dataclass(frozen=True, slots=True)
class Setting:
    """How a limit can be set, and what the sandbox says when it is hit.

    Args:
        help: the option's help, without the default.
        key: the name of the option and in records, if it is not the field's.
        hit: what the output says, with {} for the value; "" if hits are not reported by name.
        least: the lowest value with which an episode can be played.
    """

    unit: Unit
    help: str
    key: str = ""
    hit: str = ""
    least: int = 0

    def read(self, key: str, value: Any) -> float:
        """Return the field's value. Raises ValueError if `value` is not what the unit says."""
        fits = isinstance(value, int) or not self.unit.whole
        if not is_number(value) or isinstance(value, bool) or value <= 0 or not fits:
            raise ValueError(f"{key} is {value!r:.60}; write a positive {self.unit.words}")
        if value < self.least:
            least = f"write at least {self.least}, which an episode needs for itself"
            raise ValueError(f"{key} is {value}; {least}")
        if self.unit.whole:
            return int(value * self.unit.size)
        return float(value)

    def show(self, value: float) -> float:
        """Return a field's value in the unit."""
        if self.unit.whole:
            return value // self.unit.size
        return float(value)


def limit(default: Any, unit: Unit, help: str, **how: Any) -> Any:
    """Return a dataclass field with this default, declared as a `Setting`."""
    return field(default=default, metadata={"setting": Setting(unit, help, **how)})


@dataclass(frozen=True, slots=True)
class Limits:
    """The resources that one sandbox may use. Times in seconds, sizes in bytes."""

    seconds: float = limit(10.0, SECONDS, "Stop an action after S seconds.", key="action_seconds")
    memory: int = limit(
        1024 * MIB, MEBIBYTES, "Allow a sandbox N MiB of memory.", hit="memory limit of {} MiB"
    )
    # with 9, `fingerprint` can run: an episode server holds four in reserve
    processes: int = limit(
        128, COUNT, "Allow a sandbox N processes.", hit="limit of {} processes", least=9
    )
    file_size: int = 256 * MIB
    disk: int = limit(
        512 * MIB, MEBIBYTES, "Allow a sandbox N MiB of changes to its files.",
        hit="disk limit of {} MiB",
    )  # fmt: skip
    output: int = 8 * MIB
    open_files: int = 512

    @classmethod
    @cache
    def settings(cls) -> dict[str, tuple[str, Setting]]:
        """Return the name and the setting of each limit that can be set, by its key."""
        settings = {}
        for entry in fields(cls):
            setting = entry.metadata.get("setting")
            if setting:
                settings[setting.key or entry.name] = entry.name, setting
        return settings

    def changed_by(self, settings: Mapping[str, Any]) -> Limits:
        """Return these limits with those that options or a task's record set. Raises ValueError for
        a value that is not a positive number, or fewer processes than an episode needs."""
        changes: dict[str, Any] = {}
        for key, (name, setting) in self.settings().items():
            if settings.get(key) is not None:
                changes[name] = setting.read(key, settings[key])
        if "disk" in changes:
            changes["file_size"] = max(self.file_size, changes["disk"] // 2)
        return replace(self, **changes)

    def facts(self) -> dict[str, float]:
        """Return the limits in the units of `changed_by`."""
        return {
            key: setting.show(getattr(self, name))
            for key, (name, setting) in self.settings().items()
        }

    def hits(self) -> dict[str, str]:
        """Return what the output says when a limit is hit, by the limits that are named."""
        hits = {}
        for name, setting in self.settings().values():
            if setting.hit:
                hits[name] = setting.hit.format(setting.show(getattr(self, name)))
        return hits
