"""The text of the viewer's pages, without a browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from viewing import episode, make_run

from intercode.runs.folders import RunFolder, others
from intercode.types import Episode, Turn
from intercode.view.pages import Pages


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., RunFolder]:
    def make(name: str, *episodes: Episode) -> RunFolder:
        run = RunFolder(make_run(tmp_path / name, episodes), name)
        run.index.update()
        return run

    return make


def test_runs_share_the_tasks_with_one_id_and_one_query(folder: Callable[..., RunFolder]) -> None:
    here = episode("2")
    first = folder("first", episode("1", query="count the files"), here)
    second = folder("second", episode("1", query="delete \ud800"), episode("2", solved=True))
    third = folder("third", episode("1", query="In /srv, count the files"), episode("2"))
    text = Pages("").compare([first, second, third], {})
    assert re.findall(r'<th scope="row">([12])</th>', text) == ["1", "1", "2"]
    changes = r'<td class="n">(\d)</td><td class="n">\d</td><td class="n">\d</td></tr>'
    assert re.findall(changes, text) == ["1", "2"]
    runs = {run.name: run for run in (first, second, third)}
    assert [run.name for run, _ in others(runs, first, here)] == ["second", "third"]
    begun = episode("1", query="count the files")
    assert [run.name for run, _ in others(runs, first, begun)] == ["third"]


@pytest.mark.parametrize(
    ("turn", "to", "left", "right"),
    [
        ("1", "2", ["1", "2"], ["1", "2"]),
        ("2", "3", ["2", "3"], ["2", "3"]),
        ("2", "", ["1", "2", "3"], ["1", "2", "3", "4", "5"]),
        ("3", "1", ["3"], ["3"]),
        ("9", "", ["1", "2", "3"], ["1", "2", "3", "4", "5"]),
        ("9", "10", ["3"], ["3", "4", "5"]),
    ],
)
def test_a_range_of_turns_holds_on_both_sides_and_is_never_empty(
    folder: Callable[..., RunFolder], turn: str, to: str, left: list[str], right: list[str]
) -> None:
    turns = [Turn(action=f"echo {n}", observation=f"{n}\n", exit_code=0) for n in range(1, 6)]
    played, other = episode("1", *turns[:3]), episode("1", *turns)
    first, second = folder("first", played), folder("second", other)
    params = {"turn": turn, "to": to, "beside": "0~second"}
    runs = {"first": first, "second": second}
    text = Pages("").episode(runs, first, played, 0, params, (second, other))
    assert re.findall(r'id="t(\d+)"', text) == left
    assert re.findall(r'id="b(\d+)"', text) == right
