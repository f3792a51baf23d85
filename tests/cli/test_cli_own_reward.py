"""`--reward module:function`: a run is resumed under the reward that was named, whatever that is called in its own code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

FACTORY = "def worth(value):\n    def reward(agent, gold, task):\n        return value\n    return reward\n"
BASE = "def base(agent, gold, task):\n    return 0.0\n"
NEAR = "class Near:\n    worth = 0.25\n    def __call__(self, *asked):\n        return self.worth\n"
NAMED = {
    "of a factory": (FACTORY, "from factory import worth\nmine = worth(0.25)\n"),
    "wrapped": (
        BASE,
        "import functools\nfrom factory import base\n\n@functools.wraps(base)\ndef mine(*asked):\n    return 0.25\n",
    ),
    "an instance": (NEAR, "from factory import Near\nmine = Near()\nmine.worth = 0.25\n"),
    "a part": (
        BASE,
        "import functools\n\ndef other(worth, *asked):\n    return worth\n\nmine = functools.partial(other, 0.25)\n",
    ),
    "a lambda": (BASE, "mine = lambda *asked: 0.25\nother = lambda *asked: 0.75\n"),
}


def begun(cli: Any, box: Path, tmp_path: Path, named: str) -> tuple[object, ...]:
    """A run of which one episode is there; the words with which it goes on."""
    for name, text in zip(("factory.py", "rewards.py"), NAMED[named], strict=True):
        (tmp_path / name).write_text(text)
    words = ("eval", "bash", "--data", box, "--agent", "gold", "--reward", "rewards:mine", "--out", "run", "--json")
    whole = cli(*words)
    assert (whole.status, whole.json["mean_reward"], whole.json["reward"]) == (0, 0.25, "rewards:mine")
    kept = tmp_path / "run" / "episodes.jsonl"
    kept.write_text(kept.read_text().splitlines(keepends=True)[0])
    return (*words, "--resume", "run")


@pytest.mark.parametrize("named", NAMED)
def test_it_goes_on_under_the_same_and_under_no_other(cli: Any, box: Path, tmp_path: Path, named: str) -> None:
    words = begun(cli, box, tmp_path, named)
    code = tmp_path / "rewards.py"
    code.write_text(code.read_text().replace("0.25", "0.75"))
    refused = cli(*words)
    assert (refused.status, refused.out) == (2, "")
    assert "reward_source" in refused.err
    code.write_text(NAMED[named][1])
    done = cli(*words)
    assert (done.status, done.json["episodes"], done.json["mean_reward"]) == (0, 5, 0.25)


def test_another_name_is_another_reward(cli: Any, box: Path, tmp_path: Path) -> None:
    words = begun(cli, box, tmp_path, "a lambda")
    refused = cli(*("rewards:other" if word == "rewards:mine" else word for word in words))
    assert (refused.status, refused.out) == (2, "")
    assert "reward: 'rewards:mine' → 'rewards:other'" in refused.err


def test_what_cannot_be_called_is_no_reward(cli: Any, box: Path, tmp_path: Path) -> None:
    (tmp_path / "rewards.py").write_text("mine = 0.25\n")
    refused = cli("eval", "bash", "--data", box, "--agent", "gold", "--reward", "rewards:mine")
    assert (refused.status, refused.out) == (2, "")
    assert "reward 0.25: it is" in refused.err
