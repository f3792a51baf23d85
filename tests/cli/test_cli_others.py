"""Help, data, image and doctor."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cli_words import INTERCODE

from intercode import __version__

pytestmark = pytest.mark.slow

COMMANDS = [
    "", "eval", "score", "play", "check", "attack", "replay", "report", "export", "rescore", "data",
    "data list", "data get", "image", "image build", "image export", "doctor",
]  # fmt: skip


def test_every_command_explains_itself(cli: Any) -> None:
    for command in COMMANDS:
        long, short = (cli(*command.split(), flag) for flag in ("--help", "-h"))
        assert (long.status, long.err, long.out) == (0, "", short.out)
        assert f"Usage: intercode {command}".strip() in long.out
        assert len(long.out.splitlines()) > 4
    assert cli("--version").out == f"intercode, version {__version__}\n"


def test_bash_completes_options_after_the_line_of_the_document() -> None:
    line = next(
        line
        for line in (
            (Path(__file__).parents[2] / "docs" / "environments.md").read_text().splitlines()
        )
        if "bash_source" in line
    )
    press_tab = (
        "COMP_WORDS=(intercode eval bash --max-t) COMP_CWORD=3; _intercode_completion intercode; "
        "echo ${COMPREPLY[@]}"
    )
    env = {**os.environ, "PATH": f"{Path(INTERCODE).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", f"{line}\n{press_tab}"],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("--max-tokens\n", "")


@pytest.mark.parametrize(
    ("words", "blamed"),
    [
        ("evaluate", "evaluate"),
        ("data get nosuch", "nl2bash_fs_1"),
        ("data get mbpp --from /nowhere", "/nowhere/data/python/mbpp/ic_mbpp.json: no such file"),
        ("image build a/b", "name"),
        ("image build ..", "name"),
        ("check bash --image nosuch", "intercode image build nosuch"),
        ("replay nowhere.json --env bash", "nowhere.json"),
        ("export . --format chat", "holds no run"),
        ("report", "RUN"),
        ("check bash --data mine.json", "did you mean 'mine.jsonl'?"),
        ("check bash --data mine.jsonl --tree tre", "does not exist; did you mean 'tree'?"),
        ("score mine.jsonk --env bash", "does not exist; did you mean 'mine.jsonl'?"),
        ("data generate bash-file --out new", "did you mean 'bash-files'?"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_what_is_wrong(
    cli: Any, tmp_path: Path, words: str, blamed: str
) -> None:
    (tmp_path / "mine.jsonl").touch()
    (tmp_path / "tree").mkdir(exist_ok=True)
    done = cli(*words.split())
    assert (done.status, done.out) == (2, "")
    assert blamed in done.err


def test_doctor_says_that_this_machine_can_run_sandboxes(cli: Any) -> None:
    found = cli("doctor", "--json")
    findings = found.json["findings"]
    assert (found.status, found.err) == (0, "")
    assert all(set(finding) == {"what", "ok", "detail", "mend"} for finding in findings)
    assert not any(finding["ok"] is False for finding in findings)


@pytest.mark.parametrize(
    ("words", "status", "package"),
    [
        ("doctor", 1, "bubblewrap"),
        ("eval bash --agent gold", 3, "bubblewrap"),
        ("image build some", 3, "mmdebstrap"),
    ],
)
def test_a_program_that_is_not_installed_is_named_with_the_line_that_installs_it(
    cli: Any, tmp_path: Path, words: str, status: int, package: str
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tar").symlink_to(shutil.which("tar") or "")
    done = cli(*words.split(), PATH=str(tmp_path / "bin"), alone=True)
    assert done.status == status
    assert f"apt-get install {package}" in done.out + done.err
