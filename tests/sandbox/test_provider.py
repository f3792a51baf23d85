"""A provider of the user's own: written as the documents say, and named wherever a sandbox is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from following import Step, follow, steps
from kept import needs_bwrap

import intercode
from intercode.errors import SandboxDied, UsageError
from intercode_sandbox.base import Provider, provider
from intercode_sandbox.local import LocalProvider, LocalSandbox
from intercode_sandbox.template import Template

DOCUMENT = (Path(__file__).parents[2] / "docs" / "own-sandbox.md").read_text()
DERIVED = dedent(str(Provider.__doc__).partition("LoggedProvider`:\n")[2])
VARIABLES = {
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    "COLUMNS": "120",
}


@pytest.fixture(autouse=True)
def _bwrap() -> None:
    needs_bwrap()


@pytest.fixture
def derived(tmp_path: Path) -> str:
    """The provider in the docstring of `Provider`, in a file."""
    (tmp_path / "derived.py").write_text(DERIVED)
    return f"{tmp_path / 'derived.py'}:LoggedProvider"


@pytest.mark.rest
@pytest.mark.slow
def test_the_document_leads_to_a_provider_that_a_run_names(tmp_path: Path) -> None:
    for step in (
        *steps(DOCUMENT),
        Step(None, "intercode eval --resume runs/logged", "… 1 … 100.0 …"),
    ):
        follow(step, tmp_path, VARIABLES)
    run = json.loads((tmp_path / "runs/logged/run.json").read_text())
    assert (run["sandbox"], len(run["sandbox_source"])) == ("logged:LoggedProvider", 32)
    command = [
        "intercode",
        "rescore",
        "runs/logged",
        "--reward",
        "paper",
        "--out",
        "runs/paper",
        "--force",
        "--json",
    ]
    done = subprocess.run(
        command, cwd=tmp_path, env=VARIABLES, capture_output=True, text=True, check=True
    )
    assert "action: " in done.stderr
    assert (
        json.loads((tmp_path / "runs/paper/run.json").read_text())["sandbox"]
        == "logged:LoggedProvider"
    )
    with (tmp_path / "logged.py").open("a") as file:
        file.write("# changed\n")
    done = subprocess.run(
        ["intercode", "eval", "--resume", "runs/logged"],
        cwd=tmp_path,
        env=VARIABLES,
        capture_output=True,
    )
    assert (done.returncode, b"sandbox_source" in done.stderr) == (2, True)


@pytest.mark.parametrize("env", ["bash", "ctf", "python"])
def test_each_environment_acts_in_it(
    derived: str, env: str, capsys: pytest.CaptureFixture[str]
) -> None:
    action = "print(6 * 7)" if env == "python" else "echo $((6 * 7))"
    with intercode.make(env, sandbox=derived, limit=1) as made:
        made.reset(seed=0)
        assert made.step(action)[0].strip() == "42"
    assert action in capsys.readouterr().err


def test_an_environments_class_may_name_it(
    derived: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tasks.jsonl").write_text('{"query": "Say yes.", "gold": "echo yes"}')
    own = (
        "import intercode\nclass Own(intercode.BashEnv):\n"
        f"    data, sandbox = 'tasks.jsonl', {derived!r}\n"
    )
    (tmp_path / "own.py").write_text(own)
    with intercode.make(f"{tmp_path / 'own.py'}:Own") as made:
        made.reset(seed=0)
        made.step("echo here")
    assert "echo here" in capsys.readouterr().err


def test_what_is_no_provider_is_refused(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(
        f"from intercode_sandbox.base import *\n{DERIVED}\nclass Half(Provider): pass\nname = 3\n"
    )
    (tmp_path / "logged.py").write_text(next(step.text for step in steps(DOCUMENT) if step.file))
    for env, name, words in [
        ("bash", "podman", "no sandbox named 'podman'; there are local, docker, pod, module:Class"),
        ("bash", "podman:", "no sandbox named 'podman:'"),
        ("bash", "no_such_module:Provider", "cannot be loaded: ModuleNotFoundError"),
        ("bash", f"{tmp_path}/wrong.py:Absent", "cannot be loaded: AttributeError"),
        ("bash", f"{tmp_path}/wrong.py:name", "provides no sandboxes"),
        ("bash", f"{tmp_path}/wrong.py:LoggedSandbox", "provides no sandboxes"),
        ("bash", f"{tmp_path}/wrong.py:Half", "lacks add_script, open_image, sandbox"),
        ("python", f"{tmp_path}/logged.py:LoggedProvider", "LoggedProvider has no Python sessions"),
    ]:
        with pytest.raises(UsageError, match=words):
            intercode.make(env, sandbox=name)
    with pytest.raises(ModuleNotFoundError):
        provider("no_such_module:Provider")


class OwnProvider(LocalProvider):
    def sandbox(self, start: Template, **options: Any) -> LocalSandbox:
        raise AssertionError("a sandbox of the caller's own, which may lack what scripts need")


def test_a_setup_script_needs_nothing_of_the_providers_own_sandbox() -> None:
    start = OwnProvider().prepare()
    layered = OwnProvider().add_script(start, f"echo {time.time()} > /made", name="setup.sh")
    with LocalSandbox(layered) as sandbox:
        assert sandbox.read("/made")


FAILING = """
from intercode.errors import SandboxDied
from intercode_sandbox.local import LocalProvider, LocalSandbox


class FailingSandbox(LocalSandbox):
    down = False

    def exec(self, action, **options):
        if action == "pull the plug":
            FailingSandbox.down = True
        if FailingSandbox.down:
            raise SandboxDied("the cluster does not answer")
        return None if action == "say nothing" else super().exec(action, **options)


class FailingProvider(LocalProvider):
    def sandbox(self, start, **options):
        return FailingSandbox(start, **options)
"""


def test_a_provider_whose_machines_are_gone_or_that_returns_nonsense_is_at_fault_and_no_agent(
    tmp_path: Path,
) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    with intercode.make(
        "bash", sandbox=f"{tmp_path / 'failing.py'}:FailingProvider", limit=1
    ) as env:
        env.reset(seed=0)
        with pytest.raises(
            UsageError, match=r"FailingSandbox\.exec returned None instead of ExecResult"
        ):
            env.step("say nothing")
        env.reset(seed=0)
        with pytest.raises(
            SandboxDied, match="nor can a fresh sandbox execute and score an action"
        ):
            env.step("pull the plug")
