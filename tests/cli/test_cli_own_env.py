"""Code of the caller's own that fails is told in one sentence that names it, its place and the
task; a fault of ours has 3."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli_words import write_tasks

pytestmark = pytest.mark.slow

TOP = (
    "import json\nfrom intercode import BashEnv\n\nclass Own(BashEnv):\n    data = 'tasks.jsonl'\n"
)
RAISED = "intercode: the environment own:Own raised "
PLACE = " (own.py, line 6)"
IN_A_TASK = {
    "def reset(self, **how): raise KeyError('r')": f"{RAISED}KeyError: 'r'{PLACE}, task a",
    "def execute(self, action): return json.loads('x')": (
        f"{RAISED}JSONDecodeError: Expecting value: line 1 column 1 (char 0){PLACE}, task a"
    ),
    "def score(self): return 0.5": "intercode: Own.score returned 0.5 instead of Score",
    "def step(self, action): return '', 0.0": (
        "intercode: Own.step returned ('', 0.0), which are not 5 values"
    ),
    "def step(self): pass": (
        "intercode: Own.step() takes 1 positional argument but 2 were given; "
        "give Own.step the parameters that it has in its base class"
    ),
}
OUTSIDE_A_TASK = {
    "def close(self): super().close(); raise ValueError('c')": f"{RAISED}ValueError: c{PLACE}",
    "def __init__(self, *words, **how): pass": (
        "intercode: Own.__init__ does not call super().__init__, which makes it an environment"
    ),
}
EVAL = ("eval", "own:Own", "--agent", "gold", "--out", "run", "--json")


@pytest.fixture(autouse=True)
def tasks(tmp_path: Path) -> None:
    write_tasks(tmp_path / "tasks.jsonl", [{"id": "a", "query": "Print 1.", "gold": "echo 1"}])


def said(cli: Any, tmp_path: Path, body: str, *words: object) -> str:
    """The last thing on stderr; a traceback fails in `cli`."""
    (tmp_path / "own.py").write_text(f"{TOP}    {body}\n")
    done = cli(*words)
    assert (done.status, done.out) == (2, "")
    return str(done.err.splitlines()[-1])


@pytest.mark.parametrize("body", IN_A_TASK)
def test_what_it_raises_is_told_with_its_place_and_the_task(
    cli: Any, tmp_path: Path, body: str
) -> None:
    told = said(cli, tmp_path, body, *EVAL)
    assert told.startswith(IN_A_TASK[body])
    assert "--resume" not in told
    assert not (tmp_path / "run").exists(), "nothing was played"


@pytest.mark.parametrize("body", OUTSIDE_A_TASK)
def test_so_is_what_it_raises_when_it_is_made_or_closed(
    cli: Any, tmp_path: Path, body: str
) -> None:
    for command in (EVAL, ("check", "own:Own"), ("attack", "own:Own")):
        assert said(cli, tmp_path, body, *command).startswith(OUTSIDE_A_TASK[body])


def test_the_run_goes_on_when_it_is_mended(cli: Any, tmp_path: Path) -> None:
    tasks = [{"id": name, "query": "Print 1.", "gold": "echo 1"} for name in "ab"]
    write_tasks(tmp_path / "tasks.jsonl", tasks)
    body = "def execute(self, action):\n        assert self.task.id == 'a'"
    body += "\n        return super().execute(action)"
    told = said(cli, tmp_path, body, *EVAL, "--workers", 1)
    assert told.endswith("continue with --resume DIR --allow-code-change")
    (tmp_path / "own.py").write_text(TOP)
    refused = cli(*EVAL, "--resume", "run")
    assert (refused.status, refused.out) == (2, "")
    assert "add --allow-code-change if finished episodes stay valid" in refused.err
    done = cli(*EVAL, "--resume", "run", "--allow-code-change")
    assert (done.status, done.json["success_rate"]) == (0, 1.0)


def test_a_fault_of_the_packages_own_is_the_episodes_error_and_the_third_in_a_row_ends_the_run(
    cli: Any, tmp_path: Path
) -> None:
    """A built-in environment raises on some of the tasks, by a function whose code is of no
    file."""
    (tmp_path / "sitecustomize.py").write_text(
        "import intercode.envs.bash.env as bash, os\nscore = bash.BashEnv.score\n"
        "tasks = os.environ['TASKS']\ncode = \"def score(self):\\n if self.task.id in tasks: "
        "raise ValueError('ours')\\n return old(self)\"\n"
        "exec(code, there := {'old': score, 'tasks': tasks})\nbash.BashEnv.score = there['score']\n"
    )
    write_tasks(
        tmp_path / "four.jsonl",
        [{"id": id, "query": f"Print {id}.", "gold": f"echo {id}"} for id in "abcd"],
    )
    words = (
        "eval",
        "bash",
        "--data",
        "four.jsonl",
        "--agent",
        "gold",
        "--json",
        "--workers",
        1,
        "--out",
    )
    done = cli(*words, "run", PYTHONPATH=str(tmp_path), TASKS="b", alone=True, traced=True)
    assert (done.status, done.json["errors"], done.json["success_rate"]) == (3, 1, 1.0)
    errors = [
        json.loads(line)["error"]
        for line in (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()
    ]
    (error,) = filter(None, errors)
    assert re.fullmatch(
        r"intercode: ValueError: ours \(env\.py, line \d+\); .* report it with its traceback", error
    )
    done = cli("eval", "--resume", "run", "--json")
    assert (done.status, done.json["errors"], done.json["success_rate"]) == (0, 0, 1.0)
    done = cli(*words, "third", PYTHONPATH=str(tmp_path), TASKS="abcd", alone=True, traced=True)
    assert (done.status, done.json["errors"]) == (3, 3)
    assert "stopped after 3 faults in a row: ValueError: ours" in done.err.splitlines()[-1]
    done = cli(
        "check",
        "bash",
        "--data",
        "four.jsonl",
        PYTHONPATH=str(tmp_path),
        TASKS="b",
        alone=True,
        traced=True,
    )
    assert (done.status, done.out) == (3, "")
    assert re.search(
        r"task b cannot be checked: intercode: ValueError: ours .*report it with its traceback$",
        done.err.strip(),
    )
