"""The charts as files, for papers and slides."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from played import CONFIG, error, fine, played, submit

from intercode.errors import UsageError
from intercode.report.compare import side_by_side
from intercode.report.plots import draw

pytest.importorskip("matplotlib", reason="needs intercode-gym[plots]")

NAMES = ["success-by-turn", "errors-by-turn", "pass-at-k", "hardness", "failures"]
EPISODES = [played(f"t{n}", error(), fine(), submit(), solved=n > 1, epoch=epoch) for n in range(4) for epoch in (0, 1)]
RUN = ({**CONFIG, "hardness": {"t0": "easy", "t1": "hard", "t2": "hard"}}, EPISODES)


@pytest.mark.slow
@pytest.mark.parametrize("runs", [1, 2])
def test_every_chart_is_drawn_as_png_and_svg(tmp_path: Path, runs: int) -> None:
    others = [({**RUN[0], "run": f"runs/_odd $name$ {n}"}, RUN[1]) for n in range(runs)]
    written = draw(side_by_side(others), tmp_path / "plots")
    assert [path.name for path in written] == [f"{name}.{form}" for name in NAMES for form in ("png", "svg")]
    for path in written:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")
        else:
            assert ElementTree.parse(path).getroot().tag.endswith("svg")


@pytest.mark.slow
def test_the_same_run_is_drawn_the_same(tmp_path: Path) -> None:
    first, second = ([path.read_bytes() for path in draw(side_by_side([RUN]), tmp_path / name)] for name in ("a", "b"))
    assert first == second


def test_what_was_not_measured_is_not_drawn(tmp_path: Path) -> None:
    assert draw(side_by_side([(CONFIG, [])]), tmp_path) == []


def test_without_matplotlib_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match=r"intercode-gym\[plots\]"):
        draw(side_by_side([RUN]), tmp_path)
