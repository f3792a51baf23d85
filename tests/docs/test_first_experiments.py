"""docs/first-experiments.md, followed literally in an empty folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from following import follow, steps
from kept import needs_bwrap

pytestmark = [pytest.mark.alone, pytest.mark.rest]

DOCUMENT = Path(__file__).parents[2] / "docs" / "first-experiments.md"


@pytest.mark.slow
def test_a_new_user_sees_what_the_page_prints(tmp_path: Path, module_cache: Path) -> None:
    needs_bwrap()
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    found = steps(DOCUMENT.read_text())
    assert sum(step.file is None for step in found) >= 12
    for step in found:
        follow(step, tmp_path, environment)
