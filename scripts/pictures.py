"""Draw the pictures of README.md and docs/ from the running product: a run of an agent that
answers some starter tasks hastily, shown by `intercode view` in a headless Chromium.

    .venv/bin/python scripts/pictures.py [--check]        [make pictures]

Writes docs/images/NAME.png and, for each, the text of its page to docs/images/pictures.txt, with
stars for what differs between runs. `--check` only compares these texts, with exit status 1 if they
differ: CI does that. The curves of docs/training.md are drawn by
`examples/learn_menu.py --chart docs/images/learning.svg`, which takes three minutes.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from intercode.agents import Act, StrategySteps
from intercode.types import Task

ROOT = Path(__file__).resolve().parents[1]
IMAGES, RUN = ROOT / "docs" / "images", "hasty"
TEXTS = IMAGES / "pictures.txt"
HASTE = {"blank-names": "| sort | head -n 3", "broken-links": "| head -n 1", "same-file": "| rev"}
"""What the agent adds to three reference solutions, which spoils them."""
WIDTH = 1280
_DIFFERS = re.compile(r"\d{4}-\d\d-\d\dT[\d:+]+|\d+\.\d+(?= s\b|$)", re.MULTILINE)


def hasty(task: Task, protocol: str) -> StrategySteps:
    """Look around, play the reference solution or what haste makes of it, and submit."""
    yield Act("ls /depot | wc -l")
    if task.id in HASTE:
        yield Act("echo looked > /depot/looked")
        yield Act(f"({task.gold}) {HASTE[task.id]}")
    else:
        yield Act(task.gold)
    yield Act("submit")


hasty.needs_model = False  # type: ignore[attr-defined]


def main(check: bool) -> int:
    sys.path.insert(0, str(ROOT / "tests" / "helpers"))
    from chromium import browser  # type: ignore[import-not-found]

    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    intercode = Path(sys.executable).with_name("intercode")
    with TemporaryDirectory() as folder, browser() as tab:
        runs = Path(folder, "runs")
        words = ["eval", "bash", "--agent", "pictures.py:hasty", "--out", str(runs / RUN)]
        subprocess.run([intercode, *words], cwd=ROOT / "scripts", check=True, capture_output=True)
        texts = {}
        with subprocess.Popen([intercode, "view", runs], env=env, stdout=-1, text=True) as viewer:
            try:
                assert viewer.stdout is not None
                address = viewer.stdout.readline().removeprefix("view: ").strip()
                for name, links in {
                    "view-episodes": [RUN, "failed"],
                    "view-episode": [RUN, "failed", "blank-names"],
                }.items():
                    tab.open(address, width=WIDTH)
                    for link in links:
                        with tab.loading():
                            tab.ask(_CLICK % link)
                    texts[name] = str(tab.ask("document.querySelector('main').innerText"))
                    if not check:
                        tab.picture(IMAGES / f"{name}.png")
            finally:
                viewer.kill()
    text = "".join(f"== {name}\n{_DIFFERS.sub('*', each)}\n" for name, each in texts.items())
    if not check:
        TEXTS.write_text(text)
        return 0
    # `find` has no order
    old, new = (sorted(each.splitlines(True)) for each in (TEXTS.read_text(), text))
    sys.stdout.writelines(difflib.unified_diff(old, new, "as drawn", "as shown", n=0))
    return int(old != new)


_CLICK = """(() => {
  const word = %r, option = [...document.querySelectorAll("option")].find((o) => o.value === word);
  if (option) { const field = option.parentElement; field.value = word;
    field.dispatchEvent(new Event("change")); return; }
  [...document.querySelectorAll("main a")].find((a) => a.innerText.trim() === word).click();
})()"""
"""Choose a value of a filter, or follow a link, by its word."""


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
