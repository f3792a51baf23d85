"""The starter set for Bash keeps what its README promises. `make soak` plays it under every way of
scoring."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from kept import needs_bwrap

import intercode
from intercode.tasks import open_data
from intercode.types import View

pytestmark = pytest.mark.slow

TASKS = open_data(None, env="bash").tasks
GENERAL = [task for task in TASKS if task.general]


@pytest.fixture(scope="module")
def env() -> Iterator[Any]:
    needs_bwrap()
    made = intercode.make("bash", view=View(head=None), max_turns=None)
    yield made
    made.close()


def played(env: Any, task: str, action: str) -> Any:
    env.reset(options={"task": task})
    env.step(action)
    return env.step("submit")[4]["score"]


def constant(env: Any, task: str, gold: str) -> str:
    """An action that prints and leaves what the gold does on the first contents, whatever it
    finds."""
    env.reset(options={"task": task})
    env.step(gold)
    outcome = env.world.workspace.outcome()
    made = [path for path, change in outcome.changes.items() if change.kind != "removed"]
    gone = [path for path, change in outcome.changes.items() if change.kind == "removed"]
    archive = env.step(
        f"tar --no-recursion -cPf - {shlex.join(made)} | base64 -w 0" if made else "true"
    )[0]
    lines = [f"base64 -d <<< {archive} | tar --overwrite -xPf -"] if made else []
    lines += [f"rm -rf {shlex.join(gone)}"] if gone else []
    return "\n".join([*lines, f"printf %s {shlex.quote(outcome.output)}"])


@pytest.mark.slow
def test_a_constant_answer_to_a_general_task_is_right_here_and_not_elsewhere(env: Any) -> None:
    assert len(GENERAL) >= 20
    for task in GENERAL:
        assert "must also work on another copy" in task.query
        score = played(env, task.id, constant(env, task.id, task.gold))
        assert score.parts["files"] == score.parts["answer"] == 1.0, task.id
        assert (score.success, score.parts["robust"]) == (False, 0.0), task.id


RIGHT = {
    "blank-names": "find /depot -type f | grep ' [^/]*$'",
    "not-recounted": (
        "sort -u /depot/stock/counts/spring.txt | grep -vxFf /depot/stock/counts/autumn.txt"
    ),
    "still-inside": (
        "tac /depot/logs/gate.log | awk '!seen[$4]++ && $3 == \"in\" { print $4 }' | sort"
    ),
    "script-modes": (
        "cd /lab/analysis; for f in $(ls -Ap | grep -v /); do read -rn 2 b < $f; chmod 644 $f; "
        "[ x$b = 'x#!' ] && chmod 755 $f; done; true"
    ),
    "gzip-log": (
        "gzip -nc /depot/logs/access.log > /depot/logs/access.log.gz; rm /depot/logs/access.log"
    ),
    "same-file": (
        "find /depot -inum $(stat -c %i /depot/orders/ledger.txt) | grep -v /orders/ledger.txt"
    ),
    "old-logs": (
        "find /depot/logs/old | grep -E '(gate-202(2-12|3-05)|pump-2023-(04|10)).log' | xargs rm"
    ),
    "effective-port": "grep -w gate-quay /depot/config/sites/names.tsv | cut -f 2",
}
"""The work of someone who goes another way than the gold."""

WRONG = {
    "blank-names": "find /depot -type f -path '* *'",
    "not-recounted": "sort -u /depot/stock/counts/spring.txt",
    "missing-pages": (
        "awk '/404/ { print $7 }' /depot/logs/access.log | sort | uniq -c | sort -rn | "
        "head -n 3 | sed 's/^ *//'"
    ),
    "set-retries": (
        "sed -i -E 's/retries *= *[0-9]+/retries = 7/' $(find /depot/config -name '*.conf')"
    ),
    "lower-extension": 'for f in /depot/inbox/*.TXT; do mv "$f" "${f%.TXT}.txt"; done',
    "drop-doubles": "rm -r /depot/scans/*",
    "broken-links": "find /lab/links -type l -print -delete",
    "script-modes": "chmod 755 /lab/analysis/*",
    "unix-line-ends": "sed -i 's/\\r//g' $(find /depot/inbox -type f -name '*.txt' ! -name '* *')",
    "foreign-letters": "grep -n '[^a-z]' /lab/manuscript/diary.txt | cut -d : -f 1",
    "out-of-service": "awk -F '\\t' '$5 ~ /^[RX]$/ { print $1 }' /depot/fleet/bikes.tsv | sort",
    "field-temperature": (
        "awk -F, '/north/ { sum += $4; n++ } END { print sum / n }' /lab/readings/2024-05-03.csv"
    ),
    "old-logs": "rm /depot/logs/old/*2022*",
    "record-modes": "chmod 600 /lab/records/*",
    "price-in-force": "awk '/^saddle comfort/ { print $NF }' /depot/stock/prices/list-c.txt",
    "pump-errors": "awk '/^2024-03-07/ && $3 ~ /E/ { print $4 }' /depot/logs/pump.log | sort -u",
}
"""The first guess of someone who does not read on."""


def test_a_second_way_is_right_and_a_first_guess_is_wrong(env: Any) -> None:
    assert [task for task, action in RIGHT.items() if not played(env, task, action).success] == []
    assert [task for task, action in WRONG.items() if played(env, task, action).success] == []
