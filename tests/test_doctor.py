"""The doctor is right about this machine, and about machines that are broken on purpose, one thing at a time."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import PIPE
from threading import Thread
from typing import Any

import pytest

from intercode.doctor import Finding, clean, examine
from intercode.doctor.model import endpoint
from intercode.doctor.sandboxes import backends

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can break this on purpose")

EXAMINE = "import json; from intercode.doctor import examine; print(json.dumps([f._asdict() for f in examine()]))"
WAITING = 'read start; exec "$@"'


def named(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.what: finding for finding in findings}


def failed(findings: list[Finding]) -> list[str]:
    """But for the conclusion, which depends on what else is installed."""
    return [finding.what for finding in findings if finding.ok is False and finding.what != "backends"]


def examined(*outer: str, **options: Any) -> dict[str, Finding]:
    """What the doctor finds in a process started by `outer`."""
    command = [*outer, sys.executable, "-c", EXAMINE]
    return _read(subprocess.run(command, capture_output=True, text=True, check=True, **options).stdout)


def inside(first: str = "true") -> dict[str, Finding]:
    """As root of an outer user namespace in which every user of the machine is mapped; `first` breaks something there."""
    outer = ["unshare", "--user", "--mount", "sh", "-c", WAITING, "sh", "sh", "-c", f'{first}; exec "$@"', "sh"]
    with subprocess.Popen([*outer, sys.executable, "-c", EXAMINE], stdin=PIPE, stdout=PIPE, text=True) as process:
        _map_users(process.pid)
        printed, _ = process.communicate("start\n")
    return _read(printed)


def _map_users(pid: int) -> None:
    while os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt"):
        time.sleep(0.001)
    for kind in ("uid", "gid"):
        Path(f"/proc/{pid}/{kind}_map").write_text("0 0 65536\n")


def _read(printed: str) -> dict[str, Finding]:
    return named([Finding(**each) for each in json.loads(printed)])


def test_this_machine_is_well() -> None:
    findings = examine()
    assert failed(findings) == []
    assert [finding.what for finding in findings if finding.what != "leftovers"] == [
        *("kernel", "sandboxes' user", "bubblewrap", "user namespaces", "/proc", "nested namespaces", "guest's Python"),
        *("overlay", "tmpfs attributes", "cache", "mmdebstrap", "docker", "mariadb", "model endpoint"),
        *("sandbox", "backends"),
    ]
    assert named(findings)["sandbox"].detail.startswith("started in ")
    assert named(findings)["backends"].detail.startswith("--sandbox local")


@needs_root
def test_an_outer_namespace_alone_breaks_nothing(empty_cache: Path) -> None:
    assert failed(list(inside().values())) == []


@needs_root
def test_what_is_not_well_has_a_line_that_mends_it(empty_cache: Path) -> None:
    for finding in inside(first="echo 0 > /proc/sys/user/max_user_namespaces").values():
        assert bool(finding.mend) == (finding.ok is not True), finding


@needs_root
def test_user_namespaces_turned_off_are_found(empty_cache: Path) -> None:
    found = inside(first="echo 0 > /proc/sys/user/max_user_namespaces")
    assert failed(list(found.values())) == ["user namespaces", "sandbox"]
    assert found["user namespaces"].mend == "sysctl -w user.max_user_namespaces=15000"
    assert found["overlay"] == Finding(
        "overlay", None, "not tried, since it needs user namespaces", "mend user namespaces first"
    )


@needs_root
def test_parts_of_proc_hidden_as_containers_do_are_found(empty_cache: Path) -> None:
    found = inside(first="mount -t tmpfs hidden /proc/fs")
    assert failed(list(found.values())) == ["/proc", "sandbox"]
    assert "systempaths=unconfined" in found["/proc"].mend


@needs_root
def test_a_root_that_cannot_become_another_user_is_found(empty_cache: Path) -> None:
    found = examined("unshare", "--user", "--map-root-user")
    assert failed(list(found.values())) == ["sandboxes' user", "sandbox"]
    assert "ordinary user" in found["sandboxes' user"].mend


def test_a_path_without_programs_names_what_to_install(empty_cache: Path) -> None:
    found = examined(env={**os.environ, "PATH": str(empty_cache)})
    assert failed(list(found.values())) == ["bubblewrap", "sandbox"]
    packages = {"bubblewrap": "bubblewrap", "mmdebstrap": "mmdebstrap", "docker": "docker.io"}
    assert all(found[what].mend.startswith(f"apt-get install {package}") for what, package in packages.items())


@needs_root
def test_a_cache_that_the_sandboxes_user_cannot_enter_is_found(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (empty_cache / "private").mkdir(mode=0o700)
    monkeypatch.setenv("INTERCODE_CACHE", str(empty_cache / "private" / "cache"))
    found = examine()
    assert failed(found) == ["cache", "sandbox"]
    assert "INTERCODE_CACHE" in named(found)["cache"].mend


def test_old_work_folders_are_reported_and_young_ones_are_not(empty_cache: Path) -> None:
    old, young = empty_cache / "layers" / ".old-x", empty_cache / "images" / ".young-x"
    for folder in (old, young):
        folder.mkdir(parents=True)
    os.utime(old, (0, 0))
    found = named(examine())["leftovers"]
    assert found == Finding("leftovers", None, "1 builds were cut short", "intercode doctor --clean")
    assert clean() == [f"folder {old}"]
    assert (old.exists(), young.exists()) == (False, True)


# -- what answers, and what does not ---------------------------------------------------------------------------------------


class Endpoint(BaseHTTPRequestHandler):
    """Lists seven models to whoever has the key, at /v1 only."""

    def do_GET(self) -> None:
        status = 404 if self.path != "/v1/models" else 200 if self.headers["Authorization"] == "Bearer right" else 401
        text = json.dumps({"data": [{"id": f"model-{number}"} for number in range(7)]}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("path", "key", "ok", "detail", "mend"),
    [
        ("/v1", "right", True, "model-0, model-1, model-2, model-3, model-4, …", ""),
        ("/v1/", "wrong", False, "(status 401)", "OPENAI_API_KEY"),
        ("", "right", None, "lists no models (status 404)", "ends in /v1"),
    ],
)
def test_a_model_endpoint_is_asked_for_its_models(address: str, path: str, key: str, ok: bool, detail: str, mend: str) -> None:
    found = endpoint({"INTERCODE_BASE_URL": address + path, "OPENAI_API_KEY": key})
    assert (found.ok, detail in found.detail, mend in found.mend) == (ok, True, True)
    assert key not in f"{found.detail} {found.mend}"


def test_a_model_endpoint_that_is_down_or_not_named_is_found() -> None:
    down = endpoint({"INTERCODE_BASE_URL": "http://127.0.0.1:9/v1"})
    assert (down.ok, "start the server" in down.mend) == (False, True)
    for nonsense in ("nonsense", "http://HOST:PORT/v1", "http://a b/v1"):
        assert endpoint({"INTERCODE_BASE_URL": nonsense}).ok is False
    none = endpoint({})
    assert (none.ok, "INTERCODE_BASE_URL" in none.mend) == (None, True)


def test_what_answers_in_another_protocol_is_no_model_endpoint() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        Thread(target=_greet, args=[server], daemon=True).start()
        found = endpoint({"INTERCODE_BASE_URL": f"http://127.0.0.1:{server.getsockname()[1]}/v1"})
    assert (found.ok, "does not answer as a model endpoint does" in found.detail) == (False, True)


def _greet(server: socket.socket) -> None:
    line, _ = server.accept()
    with line:
        line.recv(1 << 16)
        line.sendall(b"SSH-2.0-none\r\n")


def test_backends_are_named_by_what_was_found() -> None:
    def said(**what: bool) -> tuple[bool | None, str]:
        found = backends([Finding(name, ok, "", "") for name, ok in what.items()])
        return found.ok, found.detail

    assert said(sandbox=True, docker=True) == (True, "--sandbox local or docker works here")
    assert said(sandbox=False, docker=True) == (True, "--sandbox docker works here")
    assert said(sandbox=False) == (False, "no sandbox works here")
