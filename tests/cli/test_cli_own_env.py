"""An environment of the caller's own that fails: one sentence that names it, its place and the task, and status 2."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

TOP = "import json\nfrom intercode import BashEnv\n\nclass Own(BashEnv):\n    data = 'tasks.jsonl'\n"
KEPT = "; finished episodes are kept; when it is mended, go on with --resume DIR --mended"
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
UNMADE = "def __init__(self, *words, **how): pass"
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
    words = ("eval", "own:Own", "--agent", "gold", "--resume", "run", "--json")
    refused = cli(*words)
    assert (refused.status, refused.out) == (2, "")
    assert "add --mended if what is finished holds all the same" in refused.err
    done = cli(*words, "--mended")
    assert (done.status, done.json["success_rate"]) == (0, 1.0)


def test_an_environment_that_is_not_made_is_named(cli: Any, tmp_path: Path) -> None:
    told = "intercode: Own.__init__ does not call super().__init__, which makes it an environment"
    assert evaluated(cli, tmp_path, UNMADE).startswith(told)
    assert said(cli, tmp_path, UNMADE, "check", "own:Own") == told


def test_an_installed_one_is_the_callers_too(cli: Any, tmp_path: Path) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "shop.py").write_text(f"{TOP}    def step(self, action): raise KeyError('s')\n")
    (folder / "tasks.jsonl").write_text(json.dumps({"id": "a", "query": "Print 1.", "gold": "echo 1"}) + "\n")
    done = cli("eval", "shop:Own", "--agent", "gold", PYTHONPATH=str(folder))
    assert (done.status, done.out) == (2, "")
    assert "the environment shop:Own raised KeyError: 's' (shop.py, line 6), task a" in done.err.splitlines()[-1]


def break_bash(tmp_path: Path, tasks: str) -> None:
    """A built-in environment that raises on some of the tasks, by a function whose code is of no file."""
    (tmp_path / "sitecustomize.py").write_text(
        "import intercode.envs.bash as bash\nscore = bash.BashEnv._score\n"
        f"code = \"def _score(self):\\n if self.task.id in '{tasks}': raise ValueError('ours')\\n return score(self)\"\n"
        "exec(code, there := {'score': score})\nbash.BashEnv._score = there['_score']\n"
    )
    records = [{"id": id, "query": f"Print {id}.", "gold": f"echo {id}"} for id in "abcd"]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


EVAL = ("eval", "bash", "--data", "tasks.jsonl", "--agent", "gold", "--out", "run", "--json")


def test_a_fault_of_the_packages_own_is_the_episodes_error_and_the_run_goes_on(cli: Any, tmp_path: Path) -> None:
    break_bash(tmp_path, "b")
    done = cli(*EVAL, traced=True, PYTHONPATH=str(tmp_path))
    assert (done.status, done.json["errors"], done.json["success_rate"]) == (3, 1, 1.0)
    assert "ValueError: ours\n" in done.err
    errors = [json.loads(line)["error"] for line in (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()]
    (error,) = filter(None, errors)
    assert re.fullmatch(r"intercode: ValueError: ours \(env\.py, line \d+\); .* report it with its traceback", error)
    done = cli("eval", "--resume", "run", "--json")
    assert (done.status, done.json["errors"], done.json["success_rate"]) == (0, 0, 1.0)


def test_check_takes_it_for_no_finding_and_keeps_none(cli: Any, tmp_path: Path) -> None:
    break_bash(tmp_path, "b")
    done = cli("check", "bash", "--data", "tasks.jsonl", traced=True, PYTHONPATH=str(tmp_path))
    assert (done.status, done.out) == (3, "")
    assert re.search(r"task b cannot be checked: intercode: ValueError: ours .*report it with its traceback$", done.err.strip())
    assert cli(*EVAL, "--exclude-broken").json["episodes"] == 4


def test_outside_an_episode_it_ends_the_command_with_status_3(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import intercode.envs.bash as bash\nexec('def prepare(cls, **how): raise ValueError(\"ours\")', there := {})\n"
        "bash.BashEnv.prepare = classmethod(there['prepare'])\n"
    )
    done = cli("check", "bash", traced=True, PYTHONPATH=str(tmp_path))
    assert done.status == 3
    assert done.err.splitlines()[-1].startswith("intercode: ValueError: ours (")


def test_the_third_in_a_row_ends_the_run(cli: Any, tmp_path: Path) -> None:
    break_bash(tmp_path, "abcd")
    done = cli(*EVAL, "--workers", 1, traced=True, PYTHONPATH=str(tmp_path))
    assert (done.status, done.json["errors"]) == (3, 3)
    assert "stopped after 3 faults in a row: ValueError: ours" in done.err.splitlines()[-1]
