"""The doctor is right about this machine, and about machines that are broken on purpose, one thing
at a time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest
from families import wait_until
from loopback import Quiet, Server, serving

from intercode.cli.doctor import check_endpoint, examine
from intercode_sandbox.doctor import Finding, clean

pytestmark = [
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can break this on purpose")

EXAMINE = (
    "import json; from intercode.cli.doctor import examine; "
    "print(json.dumps([f._asdict() for f in examine()]))"
)
WAITING = 'read start; exec "$@"'


def named(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.what: finding for finding in findings}


def failed(findings: dict[str, Finding]) -> list[str]:
    """But for the conclusion, which depends on what else is installed."""
    return [
        what for what, finding in findings.items() if finding.ok is False and what != "backends"
    ]


def inside(first: str) -> dict[str, Finding]:
    """As root of an outer user namespace in which every user of the machine is mapped; `first`
    breaks something there."""
    outer = [
        "unshare",
        "--user",
        "--mount",
        "sh",
        "-c",
        WAITING,
        "sh",
        "sh",
        "-c",
        f'{first}; exec "$@"',
        "sh",
    ]
    with subprocess.Popen(
        [*outer, sys.executable, "-c", EXAMINE], stdin=PIPE, stdout=PIPE, text=True
    ) as process:
        assert wait_until(
            lambda: os.readlink(f"/proc/{process.pid}/ns/mnt") != os.readlink("/proc/self/ns/mnt")
        )
        for kind in ("uid", "gid"):
            Path(f"/proc/{process.pid}/{kind}_map").write_text("0 0 65536\n")
        printed, _ = process.communicate("start\n")
    return named([Finding(**each) for each in json.loads(printed)])


def test_this_machine_is_well() -> None:
    found = named(examine())
    assert failed(found) == []
    assert [what for what in found if what != "leftovers"] == [
        *(
            "kernel",
            "sandboxes' user",
            "bubblewrap",
            "user namespaces",
            "/proc",
            "nested namespaces",
            "guest's Python",
        ),
        *(
            "overlay",
            "tmpfs attributes",
            "cache",
            "mmdebstrap",
            "docker",
            "sqlite",
            "mariadb",
            "model endpoint",
        ),
        *("sandbox", "backends"),
    ]
    assert found["sandbox"].detail.startswith("started in ")
    assert found["backends"].detail.startswith("--sandbox local")


@needs_root
@pytest.mark.parametrize(
    ("first", "what", "repair"),
    [
        ("true", [], ""),
        (
            "echo 0 > /proc/sys/user/max_user_namespaces",
            ["user namespaces", "sandbox"],
            "sysctl -w user.max_user_namespaces",
        ),
        ("mount -t tmpfs hidden /proc/fs", [], ""),  # agents then see the container's processes
        ("export PATH=/nowhere", ["bubblewrap", "sandbox"], "apt-get install bubblewrap"),
        (
            "chmod 700 $INTERCODE_CACHE; INTERCODE_CACHE=$INTERCODE_CACHE/x",
            ["cache", "sandbox"],
            "INTERCODE_CACHE",
        ),
    ],
    ids=["nothing", "namespaces", "proc", "path", "cache"],
)
def test_what_is_broken_is_found_with_its_repair(
    empty_cache: Path, first: str, what: list[str], repair: str
) -> None:
    found = inside(first)
    assert failed(found) == what
    assert not what or repair in found[what[0]].repair
    for finding in found.values():
        assert bool(finding.repair) == (finding.ok is not True), finding


def test_old_work_folders_are_reported_and_young_ones_are_not(empty_cache: Path) -> None:
    old, young = empty_cache / "layers" / ".old-x", empty_cache / "images" / ".young-x"
    for folder in (old, young):
        folder.mkdir(parents=True)
    os.utime(old, (0, 0))
    found = named(examine())["leftovers"]
    assert found == Finding(
        "leftovers", None, "1 builds were cut short", "intercode doctor --clean"
    )
    assert f"folder {old}" in clean()
    assert (old.exists(), young.exists()) == (False, True)


class Endpoint(Quiet):
    """Lists two models to whoever has the key, at /v1 only."""

    def do_GET(self) -> None:
        status = (
            404
            if self.path != "/v1/models"
            else 200
            if self.headers["Authorization"] == "Bearer right"
            else 401
        )
        text = json.dumps({"data": [{"id": "model-0"}, {"id": "model-1"}]}).encode()
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text)


def test_a_model_endpoint_is_asked_for_its_models() -> None:
    with serving(Server(Endpoint)) as server:
        for base, key, ok, detail, repair in [
            (f"{server.url}/v1", "right", True, "model-0, model-1", ""),
            (f"{server.url}/v1/", "wrong", False, "(status 401)", "OPENAI_API_KEY"),
            (server.url, "right", None, "lists no models (status 404)", "ends in /v1"),
            ("http://127.0.0.1:9/v1", "right", False, "does not answer", "start the server"),
            ("http://a b/v1", "right", False, "does not answer", "check INTERCODE_BASE_URL"),
            ("", "", None, "none is named", "INTERCODE_BASE_URL"),
        ]:
            found = check_endpoint({"INTERCODE_BASE_URL": base, "OPENAI_API_KEY": key})
            assert (found.ok, detail in found.detail, repair in found.repair) == (
                ok,
                True,
                True,
            ), found
            assert not key or key not in f"{found.detail} {found.repair}"
