"""The documents: each code block is run by a test, or says that it is not; and the site builds
without a warning.

console, files named before a block   typed and compared by `test_tutorial`,
                                      `test_first_experiments`, `test_conversions`
python                                executed here, or by `tests/agents/test_search.py`
sh                                    commands to choose from: each `intercode` line here has
                                      options that exist
text                                  a drawing, or what a program prints
any block after `<!-- not run: WHY -->` is left out
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from ast import literal_eval
from pathlib import Path
from typing import Any

import click
import pytest
from chromium import needs_chromium
from following import BLOCK, follow, steps
from kept import needs_bwrap

from intercode.cli import main
from intercode.envs import prepare

pytestmark = pytest.mark.alone

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FOLLOWED = {
    "own-environment.md",
    "own-judge.md",
    "own-environment-rules.md",
    "rewards.md",
    "own-sandbox.md",
    "first-experiments.md",
    "converting-datasets.md",
}
EXECUTED = {
    "README.md",
    "adapters.md",
    "agents.md",
    "from-intercode-v1.md",
    "one-sandbox.md",
    "training.md",
}


def blocks(path: Path) -> list[tuple[str, str]]:
    """Return language and text of each block without the mark."""
    text = path.read_text()
    assert len(re.findall("^```", text, re.MULTILINE)) == 2 * len(BLOCK.findall(text)), (
        f"{path.name}: a block without a language"
    )
    found = [
        (text[: block.start()].rstrip().rpartition("\n")[2], block)
        for block in BLOCK.finditer(text)
    ]
    return [
        (block[1], block[2]) for before, block in found if not before.startswith("<!-- not run: ")
    ]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_each_code_block_is_run_or_says_that_it_is_not(path: Path) -> None:
    kinds = [language for language, _ in blocks(path) if language not in ("text", "sh")]
    if path.name in FOLLOWED:
        files = [step for step in steps(path.read_text()) if step.file]
        assert len(files) == len(kinds) - kinds.count("console")
    else:
        assert set(kinds) <= ({"python", "json"} if path.name in EXECUTED else set())


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_each_command_line_has_options_that_exist(path: Path) -> None:
    lines = [
        line for language, text in blocks(path) if language == "sh" for line in text.splitlines()
    ]
    for line in lines:
        name, *words = line.partition("  ")[0].split()
        assert name == "intercode", line
        context = main.make_context("intercode", list(words))
        command = main.get_command(context, words[0])
        if isinstance(command, click.Group):
            del words[0]
            command = command.get_command(context, words[0])
        assert isinstance(command, click.Command), line
        with pytest.raises(click.exceptions.Exit):
            command.make_context(words[0], [*words[1:], "--help"], parent=context)


@pytest.mark.parametrize("name", ["AGENTS.md", "docs/llms.txt"])
def test_the_pages_for_coding_agents_name_files_that_exist(name: str) -> None:
    text = (ROOT / name).read_text()
    pages = re.findall(r"\(([\w-]+\.md)\)", text) + re.findall(r"docs/([\w-]+\.md)", text)
    assert pages
    assert [page for page in pages if not (ROOT / "docs" / page).exists()] == []


def test_each_install_line_names_what_exists() -> None:
    script = ROOT / "scripts" / "install_lines.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert (done.returncode, done.stderr, "pip install '.[view]'" in done.stdout) == (0, "", True)


@pytest.mark.slow
@needs_chromium
def test_the_pictures_show_what_the_product_shows() -> None:
    needs_bwrap()
    script = ROOT / "scripts" / "pictures.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.slow
def test_the_readme_shows_what_happens(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    needs_bwrap()
    episode, agent = (text for language, text in blocks(ROOT / "README.md") if language == "python")
    exec(episode, {})
    assert re.search(r"whose base name.*\n18\n\n1\.0\n", capsys.readouterr().out, re.DOTALL)
    (tmp_path / "mine.py").write_text(agent)
    (tmp_path / "replies.json").write_text('["ls /depot"]')
    command = [
        "eval",
        "bash",
        "--agent",
        "mine:look_first",
        "--model",
        "scripted:replies.json",
        "--limit",
        "1",
        "--out",
        "run",
    ]
    done = subprocess.run(
        [Path(sys.executable).with_name("intercode"), *command], cwd=tmp_path, env=os.environ
    )
    assert done.returncode == 0


@pytest.mark.slow
def test_the_page_on_training_prints_what_it_says(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_bwrap()
    codes = [code for kind, code in blocks(ROOT / "docs" / "training.md") if kind == "python"]
    names: dict[str, Any] = {}
    exec(codes[0], names)
    lines = [f"{[reward] * 4} {[0.0] * 4}" for reward in (0.0, 1.0)]
    assert sorted(capsys.readouterr().out.splitlines()) == lines
    monkeypatch.chdir(tmp_path)
    exec(codes[1], names)
    numbers = literal_eval(capsys.readouterr().out)
    assert (numbers["step"], numbers["rollouts"]) == (1, 16.0)
    assert (tmp_path / "sampler.json").exists()


def test_the_rows_for_verl_name_the_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_bwrap()
    monkeypatch.chdir(tmp_path)
    page = blocks(ROOT / "docs" / "adapters.md")
    (code,) = (text for language, text in page if language == "python")
    exec(code, {})
    rows = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    tasks = prepare("bash").tasks
    assert [row["task"] for row in rows] == [task.id for task in tasks]
    assert [row["prompt"][0]["content"] for row in rows] == [task.query for task in tasks]


def test_the_page_on_one_sandbox_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    needs_bwrap()
    ((_, code),) = blocks(ROOT / "docs" / "one-sandbox.md")
    exec(code, {})
    printed = [line for line in capsys.readouterr().out.splitlines() if line]
    assert printed == re.findall(r"^ +print\(.*\)  # (.*)$", code, re.MULTILINE)


def test_the_page_of_the_sandbox_library_prints_what_it_says(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    needs_bwrap()
    page = ROOT / "src" / "intercode_sandbox" / "README.md"
    (_, code), (console, _) = blocks(page)
    assert console == "console"
    exec(code, {})
    expected = re.findall(r"^ +print\(.*\)  # (.*)$", code, re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == expected
    command = tmp_path / "intercode-sandbox"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m intercode_sandbox "$@"\n')
    command.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
    }
    for step in steps(page.read_text()):
        follow(step, tmp_path, environment)


@pytest.mark.slow
@pytest.mark.rest
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    mkdocs = Path(sys.executable).with_name("mkdocs")
    if not mkdocs.exists():
        pytest.skip("mkdocs is not installed: make setup")
    done = subprocess.run(
        [mkdocs, "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
