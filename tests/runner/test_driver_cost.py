"""The loop's own cost, by the script that publishes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DRIVER = Path(__file__).parents[2] / "benchmarks" / "driver.py"


@pytest.mark.slow
def test_a_turn_costs_the_driver_less_than_its_bound() -> None:
    done = subprocess.run([sys.executable, str(DRIVER)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "the driver's own share of a turn" in done.stdout
