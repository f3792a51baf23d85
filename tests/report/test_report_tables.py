"""What the terminal shows of a report."""

from __future__ import annotations

import re
from typing import Any

from played import CONFIG, error, fine, played, submit
from rich.console import Console

from intercode.report.analysis import side_by_side
from intercode.report.tables import comparison, details, overview, render

EVIL = "\x1b[31mred\x1b]0;title\x07 \u202eeman [bold]\r"


def shown(whole: dict[str, Any]) -> str:
    console = Console(width=80)
    with console.capture() as capture:
        console.print(*render(overview(whole["runs"])), sep="\n")
        for run in whole["runs"]:
            console.print(*render(details(run["analysis"])), sep="\n")
        if "comparison" in whole:
            console.print(*render(comparison(whole["comparison"])), sep="\n")
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


def test_long_names_leave_the_numbers_whole_and_the_best_run_is_first() -> None:
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
