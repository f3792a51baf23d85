"""Whatever comes from outside, be it a guest, a file, a model or a database: an answer, or an error
that names who is at fault.

Long runs (`make soak`) take $INTERCODE_FUZZ_SECONDS a target, ten minutes by default, and print how
many inputs they tried.
"""

from __future__ import annotations

import os
import random
import time

import fuzz_files
import fuzz_lines
import fuzz_replies
import fuzz_tables
import pytest
from fuzzing import Target, try_inputs

pytestmark = pytest.mark.slow

SECONDS = float(os.environ.get("INTERCODE_FUZZ_SECONDS", "600"))
TARGETS = [
    target
    for part in (fuzz_lines, fuzz_files, fuzz_tables, fuzz_replies)
    for target in part.TARGETS
]
each_target = pytest.mark.parametrize(
    "target", TARGETS, ids=lambda target: target.name.replace(" ", "-")
)


@each_target
def test_nothing_unforeseen_comes_out_of(target: Target) -> None:
    with target.trying() as attempt:
        assert try_inputs(target, attempt, target.quick, 0) >= 10


@pytest.mark.soak
@each_target
def test_nothing_unforeseen_comes_out_in_minutes_of(
    target: Target, capsys: pytest.CaptureFixture[str]
) -> None:
    until, tried = time.monotonic() + SECONDS, 0
    with target.trying() as attempt:
        while time.monotonic() < until:
            tried += try_inputs(target, attempt, 500, random.randrange(1 << 32))
    with capsys.disabled():
        print(f"\n{target.name}: {tried} inputs in {SECONDS:.0f} s", flush=True)
    assert tried > 0
