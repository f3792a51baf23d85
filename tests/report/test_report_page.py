"""The page of a report: no markup but its own, deaf to hostile texts."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from chromium import browser, needs_chromium
from played import CONFIG, error, fine, no_code, played, submit

from intercode.report import markup
from intercode.report.analysis import ConfigAndEpisodes, side_by_side
from intercode.types import Episode, Usage
from intercode.view.page import POLICY
from intercode.view.page import page as write_page

HOSTILE = (
    "</script></title></style><script>document.title='owned'</script><img src='/x' "
    "onerror=\"document.title='owned'\">'\"><svg onload=\"document.title='owned'\">&lt;b&gt; "
    "\x1b[31mred\x1b]0;title\x07 \u202eeman.txt\u2066 \x00 \ud800 " + "wide" * 200
)
USAGE = Usage(1200, 80, 0.002)


def page(*runs: ConfigAndEpisodes) -> str:
    return write_page(side_by_side(runs), runs)


def run(name: str, *, shift: int = 0) -> tuple[dict[str, Any], list[Episode]]:
    """Forty tasks; every second one is solved, or other ones with a `shift`."""
    config = {
        **CONFIG,
        "run": f"runs/{name}",
        "hardness": {f"t{n}": ("easy", "medium", "hard")[n % 3] for n in range(40)},
    }
    failing = (
        (submit(),),
        (no_code(),),
        (error(), error("x")),
        (fine(usage=USAGE), error(), submit()),
        (fine(), fine(), fine()),
    )
    episodes = []
    for n in range(40):
        solved = bool((n + shift) % 2)
        turns = (fine(usage=USAGE), submit()) if solved else failing[n % 5]
        episodes.append(played(f"t{n}", *turns, solved=solved))
    return config, episodes


def hostile() -> tuple[dict[str, Any], list[Episode]]:
    names = {
        "run": f"runs/{HOSTILE.replace('/', '|')}",
        "agent": HOSTILE,
        "model": HOSTILE,
        "env": HOSTILE,
    }
    turn = fine(HOSTILE, HOSTILE)
    seen = {
        "agent": {"answer": HOSTILE},
        "gold": {"answer": ""},
        "paths": [{"path": HOSTILE, "diff": HOSTILE}],
        HOSTILE: HOSTILE,
    }
    more: dict[str, Any] = {"query": HOSTILE, "parts": {HOSTILE: 0.5}, "outcomes": seen}
    episodes = [played(f"{n}{HOSTILE}", turn, submit(), **more) for n in range(4)]
    levels = {episode.task: f"{at % 2}{HOSTILE}" for at, episode in enumerate(episodes)}
    return {**CONFIG, **names, "hardness": levels, "data_set": levels}, episodes


def better(run: tuple[dict[str, Any], list[Episode]]) -> tuple[dict[str, Any], list[Episode]]:
    return {**run[0], "run": "runs/better"}, [
        replace(episode, reward=1.0, success=True) for episode in run[1]
    ]


WHOLES = {
    "one run": [run("one")],
    "two runs": [
        run("a-run-with-a-long-name_on_many-tasks_2026-01-01"),
        run("another-run-with-a-long-name_2026-01-02", shift=1),
    ],
    "nothing played": [({}, [])],
    "hostile names": [hostile(), better(hostile())],
}


def written(folder: Path, text: str) -> Path:
    file = folder / "page.html"
    file.write_text(text, "utf-8")
    return file


@needs_chromium
@pytest.mark.soak
def test_hostile_texts_run_only_with_both_protections_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with browser() as tab:
        monkeypatch.setattr(markup, "text", lambda value: str(value).replace("\ud800", ""))
        unescaped = page(hostile())
        tab.open(written(tmp_path, unescaped), width=1280)
        assert tab.ask("document.title") != "owned", "the policy alone forbids scripts"
        assert tab.complaints, "and the browser says so"
        tab.open(written(tmp_path, unescaped.replace(POLICY, "")), width=1280)
        assert tab.ask("document.title") == "owned", "the attack works without both"
        monkeypatch.undo()
        tab.open(written(tmp_path, page(hostile()).replace(POLICY, "")), width=1280)
        assert tab.ask("document.title").endswith(" · intercode"), "escaping alone is enough"


class Marks(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def all(self, name: str) -> list[str | None]:
        return [value for each, value in self.attributes if each == name]


@pytest.mark.parametrize("name", WHOLES)
def test_a_page_holds_no_markup_but_its_own_and_each_link_leads_somewhere(name: str) -> None:
    text = page(*WHOLES[name])
    marks = Marks(text)
    assert not marks.tags & {"script", "img", "iframe", "link", "object", "base", "form"}
    assert not {
        each for each, _ in marks.attributes if each.startswith("on") or each in ("src", "style")
    }
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text)
    assert not re.search(r"url\(|@import", text)
    assert ("hostile" in name) == (r"\x1b[31mred" in text), (
        "marks that steer are shown as Python writes them"
    )
    ids = marks.all("id")
    assert len(ids) == len(set(ids))
    assert set(marks.all("href")) <= {f"#{each}" for each in ids}


def test_the_page_says_by_how_much_and_leads_to_the_episodes_that_a_figure_counts() -> None:
    text = page(run("first"), run("second", shift=1))
    assert '<td class="n">+0.0</td>' in text
    row = re.search(
        r'<h2 id="flips0">20 tasks solved more often by second than by first</h2>.*?<tr>'
        r'<th scope="row">t0</th>(.*?)</tr>',
        text,
        re.DOTALL,
    )
    assert row
    failed, solved = re.findall('href="#(e[0-9]+)".*?aria-label="([a-z]+)"', row[1])
    assert (failed[1], solved[1]) == ("failed", "solved")
    assert "the query of t0" in text.partition(f'id="{solved[0]}"')[2][:200]
    for group in ("wrong-answer", "solved"):
        assert f'href="#run1-{group}"' in text
        assert f'<h3 id="run1-{group}">' in text


def test_tasks_with_one_id_and_other_queries_have_rows_of_their_own() -> None:
    first, (config, episodes) = run("first"), run("second")
    episodes[0] = replace(episodes[0], query="another one")
    whole = side_by_side([first, (config, episodes)])
    assert (whole["comparison"]["tasks"], whole["comparison"]["unpaired"]) == (39, 2)
    text = page(first, (config, episodes))
    assert "2 tasks are scored in one of the runs only, and left out" in text
    table = text.partition('<h2 id="tasks">')[2].partition("</table>")[0]
    rows = re.findall(r'<tr id="k.*?<th scope="row">t0</th>(.*?)</tr>', table, re.DOTALL)
    assert [re.findall("<td>–</td>|<td><a|another one", row) for row in rows] == [
        ["<td><a", "<td>–</td>"],
        ["<td>–</td>", "<td><a", "another one"],
    ]


def test_a_page_can_be_sent_and_keeps_the_failed_episodes() -> None:
    config, few = run("large")
    long = "".join(f"<{n}>" for n in range(2_000))
    more = [
        replace(each, epoch=epoch, turns=(fine(long, long), *each.turns))
        for each in few
        for epoch in range(10)
    ]
    text = page((config, more))
    assert 2_000_000 < len(text.encode()) < 5_000_000
    left = re.search("transcripts of ([0-9]+) of 400 episodes do not fit", text)
    assert left
    assert text.count('class="transcript"') == 400 - int(left[1]) > 200
    assert len(re.findall('<section class="verdict failed"', text)) == 200, "all failed ones"


@needs_chromium
@pytest.mark.slow
def test_a_link_unfolds_the_transcript_without_script_or_request(tmp_path: Path) -> None:
    with browser() as tab:
        tab.open(written(tmp_path, page(*WHOLES["two runs"])), width=400, dark=True)
        assert tab.ask("document.documentElement.scrollWidth <= innerWidth"), (
            "tables scroll by themselves"
        )
        tab.ask("document.querySelector('#tasks ~ .wide .tasks a').click()")
        assert tab.ask("document.querySelector('.transcript:target').closest('details').open")
        assert (tab.complaints, len(tab.requests)) == ([], 1)


def test_without_the_templates_the_error_names_the_extra(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['jinja2'] = None; from intercode.cli import main; "
        "main(['report', '.', '--html', 'p.html'])"
    )
    (tmp_path / "run.json").write_text("{}")
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert (
        "--html needs more packages (jinja2): pip install jinja2 starlette uvicorn" in done.stderr
    )
