"""A newcomer's day in ../shared/cases/newcomer: files with a mistake, paths that cannot be, and
verdicts on data that was not shown."""

from __future__ import annotations

import contextlib
import io
import runpy
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from kept import needs_bwrap

import intercode
from intercode.cli import main
from intercode.errors import IntercodeError

pytestmark = pytest.mark.world

MISTAKES = {
    "ok.jsonl": "",
    "bom.jsonl": "",
    "crlf.jsonl": "",
    "excel.csv": "",
    "idint.jsonl": "",
    "single.json": "",
    "empty.jsonl": "no records",
    "blank.jsonl": "no records",
    "utf16.jsonl": "UTF-8",
    "latin1.jsonl": "UTF-8",
    "arr.jsonl": "found a list",
    "noquery.jsonl": "--query-field",
    "nogold.jsonl": "--gold-fields",
    "Query.jsonl": "--query-field",
    "goldnum.jsonl": "in quotes",
    "goldnull.jsonl": "'gold' is missing",
    "goldempty.jsonl": "'gold' is empty",
    "semi.csv": "semicolons",
    "facetbad.jsonl": "'reply'",
    "facetfld.jsonl": "'asks'",
    "budget.jsonl": "'ask_budget'",
    "svcbad.jsonl": "'eighty'",
    "trailing.json": "comma",
    "py.jsonl": "quotes",
    "smart.jsonl": "quotes",
    "tasks.xlsx": "csv",
    "yaml.yaml": "json",
}
"""Files of newcomer/make_inputs.py, and what the message must say; nothing: they are read."""


@pytest.fixture(scope="module")
def mistakes(cases: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mistakes")
    with contextlib.chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        runpy.run_path(str(cases / "newcomer/make_inputs.py"))
    return folder


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named(mistakes: Path, name: str) -> None:
    try:
        assert intercode.prepare("bash", data=str(mistakes / name)).tasks
        said = ""
    except IntercodeError as error:
        said = str(error)
    if MISTAKES[name]:
        assert MISTAKES[name] in said
    assert "cut short" not in said
    assert "cannot tell the format" not in said


Command = Callable[..., tuple[int, str]]


@pytest.fixture
def run(mistakes: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs `intercode` in this process, in the folder of the mistakes. Returns its status and what
    it printed."""
    needs_bwrap()
    monkeypatch.chdir(mistakes)

    def run(*words: str) -> tuple[int, str]:
        printed = io.StringIO()
        with contextlib.ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("default")
            warnings.simplefilter("ignore", ResourceWarning)
            stack.enter_context(contextlib.redirect_stdout(printed))
            stack.enter_context(contextlib.redirect_stderr(printed))
            end = stack.enter_context(pytest.raises(SystemExit))
            main(words, prog_name="intercode")
        return int(end.value.code or 0), " ".join(printed.getvalue().split())

    return run


@pytest.fixture(scope="module")
def a_run(mistakes: Path) -> str:
    folder = mistakes / "runs/a"
    intercode.evaluate("bash", agent="gold", limit=1, out=str(folder))
    return str(folder)


TOO_LONG = "x" * 300
DOORS = {
    "check --image": "check bash --data ok.jsonl --image PLACE",
    "replay:": "eval bash --agent replay:PLACE --limit 1",
    "report --html": "report RUN --html PLACE",
    "report --plots": "report RUN --plots PLACE",
    "export sft --out": "export RUN --format sft --out PLACE",
    "export atif --out": "export RUN --format atif --out PLACE",
    "data generate --out": "data generate bash-files --n 10 --out PLACE",
    "data get --from": "data get nl2bash --from PLACE",
    "static:": "eval bash --agent static:PLACE --limit 1",
    "merge --out": "merge RUN --out PLACE",
}


@pytest.mark.parametrize("door", DOORS)
def test_a_name_that_is_too_long_is_told(run: Command, a_run: str, door: str) -> None:
    words = [word.replace("PLACE", TOO_LONG).replace("RUN", a_run) for word in DOORS[door].split()]
    status, printed = run(*words)
    assert status in (2, 3)
    assert "bug in intercode" not in printed
    assert "too long" in printed


EMPTY = {
    "report --html": "report RUN --html",
    "eval --out": "eval bash --agent gold --limit 1 --out",
    "merge --out": "merge RUN --out",
}


@pytest.mark.parametrize("door", EMPTY)
def test_an_empty_value_is_refused(run: Command, a_run: str, door: str) -> None:
    status, _ = run(*EMPTY[door].replace("RUN", a_run).split(), "")
    assert status == 2


def test_a_misspelt_field_ends_a_run_with_status_1(run: Command, tmp_path: Path) -> None:
    words = ["eval", "bash", "--data", "verfy.jsonl", "--tree", "files", "--agent", "gold"]
    status, printed = run(*words, "--out", str(tmp_path / "run"))
    assert "verfy" in printed
    assert status == 1


HARD = {"sql": "never-shown", "bash": "drop-doubles"}
"""Starter tasks on which hard.py is right on the data that it sees, and wrong on other data."""


@pytest.mark.parametrize("env", HARD)
def test_a_verdict_says_that_other_data_decided(
    cases: Path, run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env: str
) -> None:
    monkeypatch.syspath_prepend(str(cases / "newcomer"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    folder, agent = str(tmp_path / "run"), f"hard:{env}_hard"
    assert run("eval", env, "--task", HARD[env], "--agent", agent, "--out", folder)[0] == 0
    status, printed = run("show", folder, HARD[env])
    assert status == 0
    assert "other data" in printed
