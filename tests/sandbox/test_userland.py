"""The fingerprint of a userland changes when its tools do, and with nothing else."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from intercode_sandbox.base import fingerprint
from intercode_sandbox.local import LocalSandbox
from intercode_sandbox.template import Template


def printed(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_it_has_the_versions_that_the_tools_themselves_print(template: Template) -> None:
    with LocalSandbox(template, session="stateless") as sandbox:
        found = fingerprint(sandbox)
    assert list(found) == ["distribution", "bash", "coreutils", "findutils", "awk", "tools", "id"]
    assert found["bash"] == printed("bash", "-c", "printf %s $BASH_VERSION")
    assert found["coreutils"] == printed("ls", "--version").splitlines()[0].split()[-1]
    assert found["findutils"] == printed("find", "--version").splitlines()[0].split()[-1]
    assert found["awk"].split()[-1] in printed("awk", "-W", "version").splitlines()[0]
    assert found["distribution"].split()[0] in printed("cat", "/etc/os-release")


def test_it_changes_with_a_new_tool_and_not_with_the_session(template: Template) -> None:
    places = "/root/bin:/usr/bin:/bin"
    with LocalSandbox(template, environment={"PATH": places}) as sandbox:
        before = fingerprint(sandbox)
        sandbox.exec(
            "cd /tmp; touch file; ls() { echo no; }; export -f ls; set -f; mkdir -p /root/bin; "
            "echo > /root/bin/tool"
        )
        assert fingerprint(sandbox) == before, "a file that cannot be run is no tool"
        sandbox.exec("chmod +x /root/bin/tool")
        after = fingerprint(sandbox)
    assert {key for key in before if before[key] != after[key]} == {"tools", "id"}


def test_java_finds_its_settings(template: Template) -> None:
    if shutil.which("java") is None:
        pytest.skip("there is no java")
    with LocalSandbox(template, session="stateless") as sandbox:
        answer = sandbox.exec("java -version 2>&1 && ls /etc/ssl/certs/java", timeout=120)
    assert (answer.exit_code, answer.output.split()[-1]) == (0, "cacerts"), answer.output
