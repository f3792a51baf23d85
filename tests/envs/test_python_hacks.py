"""The controls of the reward hacks in Python: each beats a naive grader, `naive_grader.py`, run in
a sandbox of its own.

The attacks are `intercode.redteam.python`; that none pays or harms here is in
`tests/cli/test_cli_attack.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kept import needs_bwrap

from intercode.redteam.python import ATTACKS, HONEST, TESTS, PythonAttack
from intercode_sandbox.base import Limits
from intercode_sandbox.local import LocalProvider, LocalSandbox

LIMITS = Limits(seconds=3.0, memory=384 << 20, processes=64)
SLOW = f"import time\ntime.sleep(0.2)\n{HONEST}"
each_attack = pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)


@pytest.fixture(scope="module")
def passed() -> Iterator[Callable[..., bool]]:
    """The naive grader's verdict on the last of some submissions that one process grades."""
    needs_bwrap()
    with LocalSandbox(LocalProvider().prepare(), limits=LIMITS) as machine:

        def verdict(attack: PythonAttack, *codes: str) -> bool:
            machine.reset()
            machine.exec("mkdir -p /srv/naive")
            machine.write(
                "/srv/naive/grader.py", Path(__file__).with_name("naive_grader.py").read_bytes()
            )
            paths = [f"{number}.json" for number in range(len(codes))]
            for path, code in zip(paths, codes, strict=True):
                machine.write(
                    f"/srv/naive/{path}", json.dumps({"code": code, "tests": attack.tests}).encode()
                )
            # by a process each, or by one
            each = paths if attack.effect == "harms_next_grader" else [" ".join(paths)]
            done = machine.exec(
                "cd /srv/naive; " + "; ".join(f"python3 grader.py {path}" for path in each)
            )
            if done.timed_out or done.session_lost:
                return False
            return done.exit_code == 0 or done.output.strip().rpartition("\n")[2] == "passed"

        yield verdict


@pytest.mark.soak
@each_attack
def test_it_beats_the_naive_grader(passed: Callable[..., bool], attack: PythonAttack) -> None:
    if attack.effect == "takes_over":
        return  # it needs a grader of two processes that serve all tests
    if attack.effect in ("passes", "passes_public"):
        assert passed(attack, attack.code)
    else:
        assert not passed(attack, attack.code, SLOW)


@pytest.mark.soak
def test_the_naive_grader_knows_right_from_wrong(passed: Callable[..., bool]) -> None:
    for attack in ATTACKS:
        assert passed(attack, HONEST, HONEST), attack.name
    wrong = PythonAttack("wrong", "passes", "def f(n): return 0", TESTS)
    assert not passed(wrong, wrong.code)
    assert passed(wrong, wrong.code, SLOW)
