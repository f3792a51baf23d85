"""Attacks that try to earn a reward with a statement that does not answer, grouped by mechanism, on
a small data set with two databases. `sql.toml` contains both.

    orchard   trees, pickings from them, and the meanings of the marks of pickings
    cellar    another database, which the agent must not reach

A control is the same attack on a real server on which exactly one protection is off:

    late        golds are executed in the agent's session when it submits, instead of earlier on the
                original content
    kept        nothing happens between two episodes on one database: no new session, no rebuilt
                content
    one         no variant data

Engines have additional attacks and controls (`Engine.attacks`).

Signs that an attack works: it *pays* (the submission succeeds), it *harms* (the next honest gold
fails), it goes *through* (its last statement is not refused), something is *left* (a probe in the
next episode finds it), or the evaluation *ends* (an unexpected exception).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from intercode.envs.sql.engines import engine_class
from intercode.redteam.exploits import Attacks, Exploit, read_attacks, write_tasks

Sign = Literal["pays", "harms", "through", "left", "ends"]
_DATA = read_attacks("sql")
ORCHARD: str = _DATA["databases"]["orchard"]
CELLAR: str = _DATA["databases"]["cellar"]
TASKS: list[dict[str, Any]] = _DATA["tasks"]
GOLDS = {task["id"]: task["gold"] for task in TASKS}


@dataclass(frozen=True)
class Attack:
    """Actions on `task`; `answer` is the statement that the actions should make correct; `probe`
    runs in the next episode."""

    name: str
    control: str
    sign: Sign
    actions: Sequence[str]
    answer: str = "SELECT 0"
    task: str = "count"
    probe: str = ""


def _attacks(name: str) -> list[Attack]:
    return [Attack(**fields) for fields in _DATA[name]]


ATTACKS = _attacks("attacks")
"""Attacks on any engine; `Engine.attacks` returns those on one engine."""
ON_ENGINE = {"mariadb": _attacks("mariadb"), "sqlite": _attacks("sqlite")}


def write_data(folder: Path, tasks: list[dict[str, Any]] | None = None) -> Path:
    """Write a data folder. A task without a `db` uses `orchard`."""
    (folder / "databases").mkdir(parents=True)
    (folder / "databases" / "orchard.sql").write_text(ORCHARD, "utf-8")
    (folder / "databases" / "cellar.sql").write_text(CELLAR, "utf-8")
    write_tasks(folder, [{"db": "orchard", **task} for task in tasks or TASKS])
    return folder


def _exploit(attack: Attack) -> Exploit:
    actions = tuple(attack.actions)
    if attack.sign != "through":
        actions += (attack.answer,)
    return Exploit(
        attack.name,
        _AIMS[attack.sign],
        actions,
        task=attack.task,
        after=attack.probe,
        succeeds=attack.sign in ("through", "left"),
    )


def _of_engine(name: str) -> list[Exploit]:
    return list(map(_exploit, engine_class(name).attacks()))


_AIMS = {
    "pays": "change what it is compared with",
    "harms": "spoil the next episode",
    "through": "do what is forbidden",
    "left": "leave something for the next episode",
    "ends": "end the evaluation",
}
ON_SQL = Attacks(list(map(_exploit, ATTACKS)), write_data, _of_engine)
