"""The fingerprint of a userland changes when its tools do, and with nothing else."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from intercode.errors import SandboxError
from intercode.sandbox.local import LocalSandbox
from intercode.sandbox.template import Template
from intercode.sandbox.userland import fingerprint
from intercode.sandbox.wall import ENVIRONMENT


@pytest.fixture
def sandbox(template: Template) -> Iterator[LocalSandbox]:
    with LocalSandbox(template) as made:
        yield made


def printed(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_it_has_the_versions_that_the_tools_themselves_print(sandbox: LocalSandbox) -> None:
    found = fingerprint(sandbox)
    assert list(found) == ["distribution", "bash", "coreutils", "findutils", "awk", "tools", "id"]
    assert found["bash"] == printed("bash", "-c", "printf %s $BASH_VERSION")
    assert found["coreutils"] == printed("ls", "--version").splitlines()[0].split()[-1]
    assert found["findutils"] == printed("find", "--version").splitlines()[0].split()[-1]
    assert found["awk"].split()[-1] in printed("awk", "-W", "version").splitlines()[0]
    assert found["distribution"].split()[0] in printed("cat", "/etc/os-release")


def test_it_is_the_same_in_another_sandbox(sandbox: LocalSandbox, template: Template) -> None:
    with LocalSandbox(template, session="stateless") as other:
        assert fingerprint(other) == fingerprint(sandbox)


def test_it_ignores_the_state_of_the_session(sandbox: LocalSandbox) -> None:
    before = fingerprint(sandbox)
    sandbox.exec("cd /tmp; touch file; ls() { echo no; }; export -f ls; set -f")
    assert fingerprint(sandbox) == before


def test_a_new_tool_changes_the_tool_list_and_the_id_only(sandbox: LocalSandbox) -> None:
    before = fingerprint(sandbox)
    sandbox.exec("mkdir -p /root/bin; echo > /root/bin/tool")
    with_tool = f"PATH=/root/bin:{ENVIRONMENT['PATH']}"
    assert fingerprint(_Pathed(sandbox, with_tool)) == before, "a file that cannot be run is no tool"
    sandbox.exec("chmod +x /root/bin/tool")
    after = fingerprint(_Pathed(sandbox, with_tool))
    assert {key for key in before if before[key] != after[key]} == {"tools", "id"}


def test_a_missing_tool_has_no_version(sandbox: LocalSandbox) -> None:
    sandbox.exec("mkdir /root/bin; ln -s /bin/bash /bin/ls /root/bin")
    found = fingerprint(_Pathed(sandbox, "PATH=/root/bin"))
    assert (found["findutils"], found["awk"]) == ("", "")
    assert found["coreutils"] != ""


def test_a_sandbox_without_bash_cannot_tell(sandbox: LocalSandbox) -> None:
    with pytest.raises(SandboxError, match="cannot tell its userland"):
        fingerprint(_Pathed(sandbox, "PATH=/nowhere"))


def test_it_takes_less_time_than_25_plain_processes(sandbox: LocalSandbox) -> None:
    pairs = [(_seconds(lambda: fingerprint(sandbox)), _seconds(lambda: printed("bash", "-c", "ls /"))) for _ in range(20)]
    ours, plain = (min(times) for times in zip(*pairs, strict=True))
    assert ours / plain < 25


def _seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


class _Pathed(LocalSandbox):
    """The same sandbox, whose programs start with another PATH."""

    def __init__(self, inner: LocalSandbox, setting: str) -> None:
        self._inner, self._setting = inner, setting

    def exec(self, action, *, argv=None, timeout=None, cwd=None):  # type: ignore[no-untyped-def]
        argv = ["/usr/bin/env", self._setting, *argv]
        return self._inner.exec(action, argv=argv, timeout=timeout)
