"""What the terminal shows of a report."""

from __future__ import annotations

import re
from typing import Any

import pytest
from played import CONFIG, error, fine, played, submit
from rich.console import Console

from intercode.cli.output import show_summaries
from intercode.report.analysis import side_by_side
from intercode.report.tables import comparison, details, overview, render
from intercode.types import Usage

EVIL = "\x1b[31mred\x1b]0;title\x07 \u202eeman [bold]\r"


def shown(whole: dict[str, Any]) -> str:
    console = Console(width=80)
    with console.capture() as capture:
        console.print(*render(overview(whole["runs"])), sep="\n")
        for run in whole["runs"]:
            console.print(*render(details(run["analysis"])), sep="\n")
        if "comparison" in whole:
            console.print(*render(comparison(whole)), sep="\n")
    return capture.get()


def test_texts_of_episodes_do_not_steer_the_terminal() -> None:
    task = f"t{EVIL}"
    config = {
        **CONFIG,
        "agent": EVIL,
        "hardness": {task: EVIL},
        "data_set": {task: EVIL, "u": "other"},
    }
    runs = [
        (
            config | {"run": f"a{at}"},
            [
                played(task, fine(EVIL, EVIL), submit(), query=EVIL, solved=bool(at)),
                played("u", error()),
            ],
        )
        for at in range(2)
    ]
    text = shown(side_by_side(runs))
    assert not re.search("[\x00-\x09\x0b-\x1f\u202a-\u202e]", text)
    assert r"\x1b[31mred" in text
    assert "[bold]" in text


def test_long_names_leave_the_numbers_whole_and_runs_in_their_order() -> None:
    episodes = [played(f"t{n}", fine(), error(), submit(), solved=n % 3 == 0) for n in range(1000)]
    names = {"agent": "an_agent_with_a_long_name", "model": "vendor/model-2026-01-01-preview"}
    runs = [
        (CONFIG | names | {"run": f"runs/a-run-with-a-long-name-{n}"}, episodes[n:])
        for n in range(2)
    ]
    text = shown(side_by_side(runs))
    assert "…" not in text
    assert 0 < text.index("33.4") < text.index("33.3")
    assert "30.5–36.4" in text
    turned = shown(side_by_side(runs[::-1]))
    assert 0 < turned.index("33.3") < turned.index("33.4")


def test_a_column_names_the_data_where_runs_differ_in_them() -> None:
    data = [{"data": "mine.jsonl", "data_digest": digest} for digest in ("1" * 64, "2" * 64)]
    runs = [(CONFIG | facts, [played("t", fine(), submit())]) for facts in data]
    assert "(22222" in shown(side_by_side(runs))
    assert "mine.jsonl" not in shown(side_by_side(runs[:1] * 2))


def test_tokens_of_lost_replies_count_in_every_figure() -> None:
    turn = fine(usage=Usage(10, 2, 0.5))
    episode = played("t", turn, submit(), solved=True, lost=Usage(1100, 8, 1.0))
    whole = side_by_side([(CONFIG | {"price": [1, 2]}, [episode])])
    run = whole["runs"][0]
    spent = run["analysis"]["per_solved"]
    assert (run["tokens"], spent["tokens"], run["cost"], spent["cost"]) == (1120, 1120, 1.5, 1.5)
    text = shown(whole)
    assert text.count("1,120") == 2
    assert "1120" not in text


def test_broken_tasks_are_named_if_there_are_any(capsys: pytest.CaptureFixture[str]) -> None:
    run = side_by_side([(CONFIG, [played("t", submit())])])["runs"][0]
    show_summaries([{**run, "excluded": ["bad"]}, {**run, "excluded": []}], as_json=False)
    assert capsys.readouterr().out.count("left out as broken") == 1
