"""What the terminal shows of a report."""

from __future__ import annotations

import re
from typing import Any

import pytest
from played import CONFIG, error, fine, played, submit
from rich.console import Console

from intercode.report.compare import side_by_side
from intercode.report.page import page
from intercode.report.rows import turns
from intercode.report.tables import closely, comparison, overview

EVIL = "\x1b[31mred\x1b]0;title\x07 \u202eeman [bold]\r"


def shown(whole: dict[str, Any], width: int = 80) -> str:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(*overview(whole["runs"]), sep="\n")
        for run in whole["runs"]:
            console.print(*closely(run["analysis"]), sep="\n")
        if "comparison" in whole:
            console.print(*comparison(whole["comparison"]), sep="\n")
    return capture.get()


def test_texts_of_episodes_do_not_steer_the_terminal() -> None:
    task = f"t{EVIL}"
    config = {**CONFIG, "agent": EVIL, "hardness": {task: EVIL}, "data_set": {task: EVIL, "u": "other"}}
    runs = [
        (
            config | {"run": f"a{at}"},
            [played(task, fine(EVIL, EVIL), submit(), query=EVIL, solved=bool(at)), played("u", error())],
        )
        for at in range(2)
    ]
    text = shown(side_by_side(runs))
    assert not re.search("[\x00-\x09\x0b-\x1f\u202a-\u202e]", text)
    assert r"\x1b[31mred" in text
    assert "[bold]" in text


@pytest.mark.parametrize("width", [80, 120])
def test_long_names_leave_the_numbers_whole(width: int) -> None:
    episodes = [played(f"t{n}", fine(), error(), submit(), solved=n % 3 == 0) for n in range(1000)]
    names = {"agent": "an_agent_with_a_long_name", "model": "vendor/model-2026-01-01-preview"}
    runs = [(CONFIG | names | {"run": f"runs/a-run-with-a-long-name-{n}"}, episodes) for n in range(2)]
    text = shown(side_by_side(runs), width)
    assert "…" not in text
    assert text.count("33.4") >= 6
    assert text.count("30.5–36.4") == 2


@pytest.mark.parametrize("folder", ["0", "–", "."])
def test_a_run_in_a_folder_with_an_odd_name_is_shown(folder: str) -> None:
    one = ({**CONFIG, "run": folder}, [played("t", fine(), solved=True)])
    assert "100.0" in shown(side_by_side([one]))
    both = side_by_side([one, ({**CONFIG, "run": "runs/b"}, one[1])])
    assert all(f"<h2>{name}: turn by turn</h2>" in page(both) for name in (folder, "b"))
    assert page(both).count(">success %<") == 1


def test_of_many_turns_the_first_are_shown_each_then_ever_fewer() -> None:
    runs = [({**CONFIG, "run": "a"}, [played("t", *[fine(str(n)) for n in range(300)])])]
    whole = side_by_side(runs)
    assert [int(row["turn"]) for row in turns(whole["runs"][0]["analysis"])] == [*range(1, 51), 64, 128, 256, 300]
    assert "<circle" not in page(whole)


def test_tasks_that_changed_sides_are_listed_up_to_ten() -> None:
    runs = [({**CONFIG, "run": name}, [played(str(n), solved=name == "b") for n in range(12)]) for name in "ab"]
    text = shown(side_by_side(runs))
    assert "gained (12)" in text
    assert [line.split(":")[0].strip() for line in text.splitlines() if "the query of" in line] == [str(n) for n in range(10)]
    assert "and 2 more" in text
    assert "lost (0)" in text
