"""The page of a report in a real browser: quiet, alone, readable in light and dark, wide and narrow, deaf to hostile texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from chromium import Tab, browser, needs_chromium
from played import CONFIG, error, fine, no_code, played, submit

from intercode.report import page as pages
from intercode.report.compare import side_by_side
from intercode.report.page import POLICY, page
from intercode.types import Episode, Usage

HOSTILE = (
    "</script></title></style><script>document.title='owned'</script><img src='/x' onerror=\"document.title='owned'\">"
    "'\"><svg onload=\"document.title='owned'\">&lt;b&gt; \x1b[31mred\x1b]0;title\x07 \u202eeman.txt\u2066 \x00 \ud800 "
    + "wide" * 200
)  # fmt: skip
USAGE = Usage(1200, 80, 0.002)
WIDTHS = (1280, 400)


def run(name: str, *, shift: int = 0, epochs: int = 1) -> tuple[dict[str, Any], list[Episode]]:
    """Forty tasks; every second one is solved, or other ones with a `shift`."""
    config = {**CONFIG, "run": f"runs/{name}", "hardness": {f"t{n}": ("easy", "medium", "hard")[n % 3] for n in range(40)}}
    failing = (submit(),), (no_code(),), (error(), error("x")), (fine(usage=USAGE), error(), submit()), (fine(), fine(), fine())
    episodes = []
    for n, epoch in product(range(40), range(epochs)):
        solved = bool((n + shift + epoch) % 2)
        turns = (fine(usage=USAGE), submit()) if solved else failing[n % 5]
        episodes.append(played(f"t{n}", *turns, solved=solved, epoch=epoch))
    return config, episodes


def hostile() -> tuple[dict[str, Any], list[Episode]]:
    names = {"run": f"runs/{HOSTILE.replace('/', '|')}", "agent": HOSTILE, "model": HOSTILE, "env": HOSTILE}
    turn = fine(HOSTILE, HOSTILE)
    episodes = [played(f"{n}{HOSTILE}", turn, submit(), query=HOSTILE, parts={HOSTILE: 0.5}) for n in range(4)]
    levels = {episode.task: f"{at % 2}{HOSTILE}" for at, episode in enumerate(episodes)}
    return {**CONFIG, **names, "hardness": levels, "data_set": levels}, episodes


def better(run: tuple[dict[str, Any], list[Episode]]) -> tuple[dict[str, Any], list[Episode]]:
    return {**run[0], "run": "runs/better"}, [replace(episode, reward=1.0, success=True) for episode in run[1]]


WHOLES = {
    "one run": [run("one")],
    "epochs": [run("one", epochs=3)],
    "two runs": [
        run("a-run-with-a-long-name_on_many-tasks_2026-01-01"),
        run("another-run-with-a-long-name_2026-01-02", shift=1),
    ],
    "three runs": [run("a"), run("b", shift=1), run("c")],
    "nothing played": [({}, [])],
    "hostile texts": [hostile()],
    "hostile names": [hostile(), better(hostile())],
}

CONTRASTS = """
(() => {
  const light = ([r, g, b]) => [r, g, b].map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const rgb = text => text.match(/[\\d.]+/g).map(Number);
  const ground = node => { const found = rgb(getComputedStyle(node).backgroundColor);
    return found[3] === 0 ? ground(node.parentElement) : found; };
  return [...document.body.querySelectorAll("*")]
    .filter(node => [...node.childNodes].some(c => c.nodeType === 3 && c.textContent.trim()) && node.getClientRects().length)
    .map(node => { const style = getComputedStyle(node);
      const [a, b] = [light(rgb(node.namespaceURI.endsWith("svg") ? style.fill : style.color)), light(ground(node))];
      return [(Math.max(a, b) + .05) / (Math.min(a, b) + .05), node.outerHTML.slice(0, 80)]; });
})()
"""
"""For every element that shows text: how much it stands out (WCAG 2, 1.4.3), and what it is."""
OPEN_ALL = "document.querySelectorAll('details').forEach(each => { each.open = true })"
TOO_WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    with browser() as found:
        yield found


def written(folder: Path, text: str) -> Path:
    file = folder / "page.html"
    file.write_text(text, "utf-8")
    return file


@needs_chromium
@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", WHOLES)
def test_a_page_is_quiet_alone_and_readable(tab: Tab, tmp_path: Path, name: str, width: int, dark: bool) -> None:
    file = written(tmp_path, page(side_by_side(WHOLES[name])))
    tab.open(file, width=width, dark=dark)
    tab.ask(OPEN_ALL)
    assert tab.complaints == []
    assert tab.requests == [file.as_uri()], "nothing but the page is fetched"
    assert tab.ask(TOO_WIDE) is False
    contrasts = tab.ask(CONTRASTS)
    assert len(contrasts) > 3
    assert [each for each in contrasts if each[0] < 4.5] == []
    assert tab.ask("document.title").startswith("intercode report: ")
    assert tab.ask("getComputedStyle(document.body).backgroundColor") == ("rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)")


@needs_chromium
@pytest.mark.slow
def test_hostile_texts_run_only_with_both_protections_off(tab: Tab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = side_by_side([hostile()])
    monkeypatch.setattr(pages, "_text", lambda text: text.replace("\ud800", ""))
    unescaped = page(whole)
    tab.open(written(tmp_path, unescaped), width=1280)
    assert tab.ask("document.title") != "owned", "the policy alone forbids scripts"
    assert tab.complaints, "and the browser says so"
    tab.open(written(tmp_path, unescaped.replace(POLICY, "")), width=1280)
    assert tab.ask("document.title") == "owned", "the attack works without both"
    monkeypatch.undo()
    tab.open(written(tmp_path, page(whole).replace(POLICY, "")), width=1280)
    assert tab.ask("document.title").startswith("intercode report: "), "escaping alone is enough"


@needs_chromium
@pytest.mark.slow
def test_the_browser_sees_what_the_tests_look_for(tab: Tab, tmp_path: Path) -> None:
    bad = "<p style='width:3000px;color:#aaa'>pale<img src='nowhere.png'><script>console.error('no'); nothing()</script>"
    tab.open(written(tmp_path, bad), width=400)
    assert len(tab.complaints) >= 2
    assert len(tab.requests) == 2
    assert tab.ask(TOO_WIDE) is True


class Marks(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


@pytest.mark.parametrize("name", WHOLES)
def test_a_page_holds_no_markup_but_its_own(name: str) -> None:
    text = page(side_by_side(WHOLES[name]))
    marks = Marks(text)
    assert not marks.tags & {"script", "img", "iframe", "link", "object", "base", "form"}
    assert not {each for each in marks.attributes if each.startswith("on") or each in ("src", "href", "style")}
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text)
    assert not re.search(r"url\(|@import", text)


def test_a_texts_steering_marks_are_shown_as_python_writes_them() -> None:
    text = page(side_by_side([hostile()]))
    assert all(mark in text for mark in (r"\x1b[31mred", r"\u202eeman", r"\x00", r"\ud800", "&amp;lt;b&amp;gt;"))


def test_the_page_says_by_how_much_and_which_tasks_changed_sides() -> None:
    text = page(side_by_side([run("first"), run("second", shift=1)]))
    assert "<b>+0.0 points</b>" in text
    assert "<b>gained</b> (20)" in text
    assert "t3: the query of t3" in text
