"""The real viewer as a process of its own, runs to look at, and a reader at a browser who also
checks each page.

make_run(folder, episodes)     a run folder of records
eval_run(…)                    a real `intercode eval`, still playing
viewer(folder)                 serves them; gives the address
Reader(tab, address, look)     opens pages, presses keys; after each page: nothing too wide,
                               contrast, names, no complaints
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from chromium import Tab

from intercode.runs.signing import with_signature
from intercode.runs.store import to_json
from intercode.types import Episode, Turn

INTERCODE = Path(sys.executable).with_name("intercode")
AGENTS = Path(__file__).with_name("view_agents.py")
SETTINGS: dict[str, Any] = {
    "env": "bash", "agent": "try_again", "model": "m", "reward": "exact", "protocol": "submit",
    "turns": 10, "epochs": 1, "created": "2026-01-02T03:04:05+0000",
}  # fmt: skip


def episode(task: str, *turns: Turn, solved: bool = False, **more: Any) -> Episode:
    turns = turns or (Turn(action="ls", observation="a\n", exit_code=0), Turn(action="submit"))
    return Episode(
        task,
        more.pop("query", f"the query of {task}"),
        turns,
        float(solved),
        solved,
        more.pop("ended", "submit"),
        **more,
    )


def make_run(folder: Path, episodes: Iterable[Episode], **settings: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps(with_signature({**SETTINGS, **settings})))
    (folder / "episodes.jsonl").write_text(
        "".join(json.dumps(to_json(each)) + "\n" for each in episodes)
    )
    return folder


def eval_run(out: Path, agent: str, *options: str) -> subprocess.Popen[bytes]:
    """Start `intercode eval bash` with an agent of view_agents.py."""
    words = [INTERCODE, "eval", "bash", "--agent", f"{AGENTS}:{agent}", "--out", out, *options]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextmanager
def enterable(path: Path) -> Iterator[None]:
    """Let every user enter the folders above `path` within the block: a clone may lie in a private
    folder."""
    modes = {folder: folder.stat().st_mode for folder in path.parents}
    private = {folder: mode for folder, mode in modes.items() if mode & 0o011 != 0o011}
    for folder, mode in private.items():
        folder.chmod(mode | 0o011)
    try:
        yield
    finally:
        for folder, mode in private.items():
            folder.chmod(mode)


@contextmanager
def viewer(*paths: Path, user: int | None = None, **variables: str) -> Iterator[str]:
    """Serve runs, as another `user` if one is given; killed at the end of the block."""
    with serving(*paths, user=user, **variables) as (address, _):
        yield address


@contextmanager
def serving(
    *paths: Path, user: int | None = None, **variables: str
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    words, env = [INTERCODE, "view", *paths], {**os.environ, "PYTHONUNBUFFERED": "1", **variables}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env, user=user) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().removeprefix("view: ").strip(), process
        finally:
            process.kill()


@dataclass(frozen=True)
class Look:
    """How a reader has set the browser."""

    width: int = 1280
    dark: bool = False


LOOKS = {"light": Look(), "dark": Look(dark=True), "narrow": Look(width=400)}
PARAMETERS = ["light", *(pytest.param(name, marks=pytest.mark.soak) for name in ("dark", "narrow"))]
"""Of the looks: `make test` takes one, `make soak` the others."""

CONTRASTS = """(() => {
  const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    paint.clearRect(0, 0, 1, 1); paint.fillStyle = color; paint.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = paint.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255]; };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const linear = (v) => v <= 10.31 ? v / 255 / 12.92 : ((v / 255 + .055) / 1.055) ** 2.4;
  const light = (color) => { const [r, g, b] = color.map(linear); return .2126 * r + .7152 * g + .0722 * b; };
  const back = (node) => { const own = rgba(getComputedStyle(node).backgroundColor);
    return own[3] === 1 ? own : over(own, node.parentElement ? back(node.parentElement) : [255, 255, 255, 1]); };
  const ratio = (color, node) => { const below = back(node), both = [light(over(rgba(color), below)), light(below)];
    const [a, b] = both.sort((x, y) => y - x); return (a + .05) / (b + .05); };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
  while (walk.nextNode()) { const node = walk.currentNode.parentElement;
    if (walk.currentNode.data.trim() && node.checkVisibility()) {
      const style = getComputedStyle(node), size = parseFloat(style.fontSize);
      const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
      found.push([ratio(style.color, node) * (large ? 1.5 : 1), node.outerHTML.slice(0, 100)]); } }
  document.querySelectorAll("[placeholder]").forEach((field) =>
    found.push([ratio(getComputedStyle(field, "::placeholder").color, field), field.outerHTML.slice(0, 100)]));
  return found.sort((a, b) => a[0] - b[0])[0];
})()"""
"""The lowest contrast of a text with what is behind it, and its element; that of large texts counts
one and a half times."""

NAMED = {
    "link", "button", "textbox", "searchbox", "combobox", "checkbox", "columnheader", "rowheader",
    "navigation", "article", "dialog", "progressbar", "img", "image",
}  # fmt: skip
"""Roles that need a name."""


class Reader:
    """A reader at a browser. `contrast` is the lowest of all pages, `pages` how many were
    checked."""

    contrast, pages = 21.0, 0

    def __init__(self, tab: Tab, address: str, look: Look) -> None:
        self.tab, self.address, self._look = tab, address, look

    def open(self, page: str = "") -> None:
        self.tab.open(self.address + page, width=self._look.width, dark=self._look.dark)
        self.check()

    def click(self, selector: str, *, loads: bool = True) -> None:
        self._do(
            lambda: self.tab.ask(f"document.querySelector({json.dumps(selector)}).click()"), loads
        )

    def follow(self, text: str) -> None:
        """Click the first link or button with a text in it."""
        script = (
            "[...document.querySelectorAll('main a, main button')].find((a) => "
            f"a.innerText.includes({json.dumps(text)}))"
        )
        self._do(lambda: self.tab.ask(f"{script}.click()"), True)

    def choose(self, name: str, value: str) -> None:
        """Choose a value of a filter, as a click does."""
        field = f"document.querySelector('select[name={name}]')"
        self._do(
            lambda: self.tab.ask(
                f"{field}.value = {value!r}; {field}.dispatchEvent(new Event('change'))"
            ),
            True,
        )

    def press(self, key: str, *, loads: bool = False) -> None:
        self._do(lambda: self.tab.press(key), loads)

    def _do(self, what: Any, loads: bool) -> None:
        if loads:
            with self.tab.loading():
                what()
            self.check()
        else:
            what()

    def text(self, selector: str = "main") -> str:
        return str(self.tab.ask(f"document.querySelector({json.dumps(selector)})?.innerText") or "")

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self.tab.ask(
            f"[...document.querySelectorAll({json.dumps(selector)})].map((each) => each.innerText)"
        )
        return found

    def value(self, selector: str) -> str:
        return str(self.tab.ask(f"document.querySelector({json.dumps(selector)}).value"))

    def fetch(self, address: str) -> list[int]:
        """Return status and length of what the page gets from an address."""
        script = (
            f"fetch({json.dumps(address)}).then(async (a) => [a.status, (await a.text()).length])"
        )
        answer = self.tab.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        found: list[int] = answer["result"]["value"]
        return found

    def check(self) -> None:
        """Check that the page fits, can be read by eye and by ear, and that the browser has nothing
        to say."""
        where = self.tab.ask("location.href")
        assert self.tab.complaints == [], where
        assert self.tab.ask("document.scrollingElement.scrollWidth <= innerWidth"), (
            f"{where} is too wide"
        )
        lowest, element = self.tab.ask(CONTRASTS)
        assert lowest >= 4.5, (where, lowest, element)
        roles = self.tab.roles()
        assert [role for role, name in roles if role in NAMED and not name.strip()] == [], where
        found = {role for role, _ in roles}
        assert "dialog" in found or found >= {"banner", "main", "navigation"}, where
        Reader.contrast, Reader.pages = min(Reader.contrast, lowest), Reader.pages + 1
