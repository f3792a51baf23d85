"""`intercode-sandbox`: the streams and the status of a program, this machine, attacks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from kept import needs_bwrap

from intercode_sandbox.attack_run import play_attacks
from intercode_sandbox.attacks import LIMITS
from intercode_sandbox.cli import main
from intercode_sandbox.host import DisabledProtections
from intercode_sandbox.local import LocalSandbox
from intercode_sandbox.template import Template

COMMAND = [sys.executable, "-m", "intercode_sandbox"]


@pytest.fixture(autouse=True)
def _bwrap() -> None:
    needs_bwrap()


def call(*words: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, *words], input=stdin, capture_output=True)


def test_run_passes_bytes_and_the_status(tmp_path: Path) -> None:
    (tmp_path / "word").write_text("planted\n")
    script = "cat /word - ; echo two >&2; exit 7"
    data = bytes(range(256)) * 999
    done = call("run", "--tree", tmp_path, "--", "sh", "-c", script, stdin=data)
    assert (done.returncode, done.stdout, done.stderr) == (7, b"planted\n" + data, b"two\n")


def test_run_names_a_limit_that_was_hit() -> None:
    done = call("run", "--timeout", ".2", "--", "sh", "-c", "echo first; exec sleep 60")
    assert (done.returncode, done.stdout) == (124, b"first\n")
    assert b"intercode-sandbox: the time was up" in done.stderr
    done = call("run", "--", "head", "-c", "9M", "/dev/zero")
    assert (done.returncode, done.stdout) == (0, bytes(8 << 20))
    assert done.stderr == b"intercode-sandbox: a limit was hit: output\n"


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ((), 2, "the following arguments are required"),
        (("run",), 2, "no command; write intercode-sandbox run -- COMMAND"),
        (("run", "--tree", "/nowhere", "--", "true"), 2, "/nowhere: no such file or folder"),
        (("run", "--sandbox", "lokal", "--", "true"), 2, "invalid choice: 'lokal'"),
        (("attack", "chrot"), 2, "no attack named 'chrot'; did you mean 'chroot'?"),
    ],
)
def test_wrong_usage_is_said_in_one_line(
    words: tuple[str, ...], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == status
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("intercode-sandbox: ")
    assert message in line


def test_a_machine_without_bubblewrap_is_at_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    done = call("run", "--sandbox", "local", "--", "true")
    assert (done.returncode, done.stdout) == (3, b"")
    assert b"apt-get install bubblewrap" in done.stderr
    done = call("doctor", "--json")
    findings = {row["what"]: row for row in json.loads(done.stdout)["findings"]}
    assert (done.returncode, findings["backends"]["ok"]) == (1, False)
    assert findings["kernel"]["ok"]


@pytest.mark.slow
def test_attack_says_what_held(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["attack", "chroot", "files", "killing all"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "held   chroot (use a forbidden feature of the kernel)",
        "held   killing all (reach the host)",
        "held   files (affect the next episode)",
        "held   killing all (break the sandbox's own processes)",
    ]


@pytest.mark.slow
def test_attack_sees_what_succeeds_where_the_protection_is_off(template: Template) -> None:
    class NeverReset(LocalSandbox):
        def reset(self) -> None: ...

    disabled = DisabledProtections(calls=frozenset({"chroot"}), steps=frozenset({"capabilities"}))
    (chroot,) = play_attacks(
        lambda: LocalSandbox(template, limits=LIMITS, disabled=disabled), ["chroot"]
    )
    assert (chroot.held, chroot.why) == (False, "BREACH")
    files, shell = play_attacks(
        lambda: NeverReset(template, limits=LIMITS),
        ["files", "removing everything, then the shell"],
    )
    assert files.held is False
    assert (shell.held, shell.why) == (False, "the next honest command did not work")
