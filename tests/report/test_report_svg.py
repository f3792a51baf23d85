"""The charts as files, for papers and slides."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from played import CONFIG, error, fine, played, submit

from intercode.report.analysis import side_by_side
from intercode.report.charts import draw
from intercode.types import Usage

NAMES = {"success-by-turn", "errors-by-turn", "pass-at-k"}
EPISODES = [
    played(f"t{n}", error(), fine(usage=Usage(9, 1)), submit(), solved=n > 1, epoch=epoch)
    for n in range(4)
    for epoch in (0, 1)
]
RUN = ({**CONFIG, "hardness": {"t0": "easy", "t1": "hard", "t2": "hard"}}, EPISODES)


@pytest.mark.parametrize("runs", [1, 2])
def test_every_chart_is_a_file_that_names_its_runs_where_there_are_several(
    tmp_path: Path, runs: int
) -> None:
    others = [({**RUN[0], "run": f"runs/<odd> \x1b {n}"}, RUN[1]) for n in range(runs)]
    draw(side_by_side(others), tmp_path / "plots")
    assert {path.stem for path in (tmp_path / "plots").glob("*.svg")} == NAMES
    for path in (tmp_path / "plots").iterdir():
        texts = [
            text.text for text in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")
        ]
        if path.stem == "success-by-turn":
            ends = ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}circle")
            assert len(list(ends)) == runs, "a dot where each run ends"
        named = [text for text in texts if "odd" in str(text)]
        assert len(named) == (runs if runs > 1 else 0)
        assert any("%" in str(text) for text in texts)
