"""An environment of the caller's own that fails: one sentence that names it, its place and the task, and status 2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

TOP = "import json\nfrom intercode import BashEnv\n\nclass Own(BashEnv):\n    data = 'tasks.jsonl'\n"
KEPT = "; finished episodes are kept; when it is mended, go on with --resume"
RAISED = "intercode: the environment own:Own raised "
PLACE = " (own.py, line 6)"

RAISING = {
    "def reset(self, **how): raise KeyError('r')": "KeyError: 'r'",
    "def step(self, action): raise ValueError('s')": "ValueError: s",
    "def step(self, action): raise SystemExit(0)": "SystemExit: 0",
    "def _act(self, action): return json.loads('x')": "JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
    "def _act(self, action): return self.view.shorten(7)": "TypeError: object of type 'int' has no len()",
    "def _score(self): return self.lost": "AttributeError: 'Own' object has no attribute 'lost'",
    "def _enter(self, task): open('/nowhere/x')": "FileNotFoundError: [Errno 2] No such file or directory: '/nowhere/x'",
}
OUTSIDE_A_TASK = {
    "def __init__(self, *words, **how): raise ValueError('i')": "ValueError: i",
    "def close(self): super().close(); raise ValueError('c')": "ValueError: c",
}
MISFITS = {
    "def _score(self): return 0.5": "Own._score returned 0.5, which is no Score",
    "def _act(self, action): pass": "Own._act returned None, which is no ExecResult",
    "def step(self, action): return '', 0.0": "Own.step returned ('', 0.0), which are not 5 values",
    "def reset(self, **how): pass": "Own.reset returned None, which is no tuple",
    "def step(self): pass": "Own.step() takes 1 positional argument but 2 were given; give Own.step the parameters that it "
    "has in InterCodeEnv",
}


def said(cli: Any, tmp_path: Path, body: str, *words: object) -> str:
    """The last thing on stderr; a traceback fails in `cli`."""
    (tmp_path / "own.py").write_text(f"{TOP}    {body}\n")
    (tmp_path / "tasks.jsonl").write_text(json.dumps({"id": "a", "query": "Print 1.", "gold": "echo 1"}) + "\n")
    done = cli(*words)
    assert (done.status, done.out) == (2, "")
    return str(done.err.splitlines()[-1])


def evaluated(cli: Any, tmp_path: Path, body: str) -> str:
    return said(cli, tmp_path, body, "eval", "own:Own", "--agent", "gold", "--out", "run")


@pytest.mark.parametrize("body", RAISING)
def test_what_it_raises_is_told_with_its_place_and_the_task(cli: Any, tmp_path: Path, body: str) -> None:
    told = f"{RAISED}{RAISING[body]}{PLACE}, task a"
    assert evaluated(cli, tmp_path, body) == told + KEPT
    assert '"reward":' not in (tmp_path / "run" / "episodes.jsonl").read_text()
    assert said(cli, tmp_path, body, "check", "own:Own") == told


@pytest.mark.parametrize("body", OUTSIDE_A_TASK)
def test_so_is_what_it_raises_when_it_is_made_or_closed(cli: Any, tmp_path: Path, body: str) -> None:
    told = f"{RAISED}{OUTSIDE_A_TASK[body]}{PLACE}"
    assert evaluated(cli, tmp_path, body) == told + KEPT.replace(";", ",", 1)
    assert said(cli, tmp_path, body, "check", "own:Own") == told
    assert said(cli, tmp_path, body, "attack", "own:Own") == told


@pytest.mark.parametrize("body", MISFITS)
def test_a_method_that_does_not_fit_is_named(cli: Any, tmp_path: Path, body: str) -> None:
    assert evaluated(cli, tmp_path, body) == f"intercode: {MISFITS[body]} (task a{KEPT})"


def test_a_trial_of_a_gold_that_raises_names_the_task(cli: Any, tmp_path: Path) -> None:
    told = said(cli, tmp_path, "def try_gold(self, task): return 1 / 0", "check", "own:Own")
    assert told == f"{RAISED}ZeroDivisionError: division by zero{PLACE}, task a"


def test_the_run_goes_on_when_it_is_mended(cli: Any, tmp_path: Path) -> None:
    evaluated(cli, tmp_path, "def _score(self): raise ValueError('s')")
    (tmp_path / "own.py").write_text(TOP)
    done = cli("eval", "own:Own", "--agent", "gold", "--out", "run", "--resume", "--json")
    assert (done.status, done.json["success_rate"]) == (0, 1.0)


def test_a_fault_of_the_packages_own_stays_a_traceback(cli: Any, tmp_path: Path) -> None:
    """`sitecustomize` breaks a built-in environment by a function whose code is of no file."""
    (tmp_path / "sitecustomize.py").write_text(
        "import intercode.envs.bash as bash\nexec(\"def _score(self): raise ValueError('ours')\", vars(bash))\n"
        "bash.BashEnv._score = bash._score\n"
    )
    (tmp_path / "tasks.jsonl").write_text(json.dumps({"id": "a", "query": "Print 1.", "gold": "echo 1"}) + "\n")
    with pytest.raises(AssertionError, match=r"(?s)Traceback.*ValueError: ours"):
        cli("eval", "bash", "--data", "tasks.jsonl", "--agent", "gold", PYTHONPATH=str(tmp_path))
