"""Checks that `scripts/old_kernel` runs on the older kernel: what must hold on any machine where
`intercode` plays.

python3 old_kernel_checks.py [LIMIT]       tasks of each starter set; 0 for all
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import intercode
from intercode.agents import gold, noop
from intercode.cli import doctor
from intercode.runner.budget import BudgetTracker
from intercode.runner.episode import play
from intercode.testing import check_sandbox
from intercode_sandbox.base import Session
from intercode_sandbox.local import LocalProvider

SETS: tuple[tuple[str, dict[str, str]], ...] = (
    ("bash", {}),
    ("sql", {}),
    ("sql", {"engine": "mariadb"}),
    ("python", {}),
    ("ctf", {}),
)
SESSIONS: tuple[Session, ...] = ("persistent", "stateless")
FILLER = (
    "for file in 1 2 3; do head -c 250M /dev/zero > /tmp/$file; done; df --block-size=1"
    " --output=used / | tail -n 1"
)


def checks(limit: int) -> Iterator[tuple[str, bool]]:
    """Yield each check's sentence, with its figures, and whether it holds."""
    findings = {finding.what: finding for finding in doctor.examine()}
    for finding in findings.values():
        print(f"   {finding.what}: {finding.ok}: {finding.detail}", flush=True)
    yield (
        "doctor: a sandbox works, with copied files",
        findings["sandbox"].ok is True and "copied" in findings["sandbox"].detail,
    )
    provider = LocalProvider()
    start = provider.prepare()
    for session in SESSIONS:
        try:
            check_sandbox(lambda: provider.sandbox(start, session=session))  # noqa: B023
        except AssertionError as error:
            yield f"{session}: {error}", False
        else:
            yield f"sandboxes keep their contract, {session}", True
    with provider.sandbox(start) as sandbox:
        output = sandbox.exec(FILLER, timeout=120).output
        used, most = int(output.split()[-1]), sandbox.limits.disk + (2 << 20)
        yield (
            f"a program that fills the disk gets {used >> 20} MiB",
            "No space left" in output and used <= most,
        )
    for name, options in SETS:
        yield from golds(name, options, limit)


def golds(name: str, options: dict[str, Any], limit: int) -> Iterator[tuple[str, bool]]:
    factory = intercode.prepare(name, **options)
    facts = factory.facts()
    name = " ".join([name, *options.values()])
    yield f"{name}: the run says that files are copied", facts.get("files") == "copied"
    tasks = factory.tasks[: limit or None]
    wrong = []
    with closing(factory()) as env:
        for task in tasks:
            rewards = [
                play(env, task, agent, None, BudgetTracker()).reward for agent in (gold, noop)
            ]
            if rewards != [1, 0]:
                wrong.append(f"{task.id} {rewards}")
    yield (
        (
            f"{name}: {len(tasks) - len(wrong)} of {len(tasks)} golds earn 1, and doing nothing 0"
            f" {wrong}"
        ),
        not wrong,
    )


def main() -> int:
    user = f"user {os.getuid()}"
    print(f"== Linux {platform.release()}, {user}", flush=True)
    failed, start = 0, time.monotonic()
    for sentence, holds in checks(int(sys.argv[1])):
        print(
            f"{'ok' if holds else 'FAILED'} {user}: {sentence} ({time.monotonic() - start:.0f} s)",
            flush=True,
        )
        failed += not holds
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
