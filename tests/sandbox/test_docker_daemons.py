"""Other daemons than the machine's: one whose runtime refuses a right, and podman's.

Each is started for the test, keeps everything in a folder of its own, and ends with it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import docker_images
import pytest
from test_docker import until

from intercode.errors import SandboxUnavailable
from intercode.sandbox.docker.images import make_image
from intercode.sandbox.docker.sandbox import DockerSandbox

pytestmark = pytest.mark.soak

MEEK = """#!/usr/bin/python3
import json, os, sys
if "create" in sys.argv:
    path = sys.argv[sys.argv.index("--bundle") + 1] + "/config.json"
    found = json.load(open(path))
    rights = found["process"]["capabilities"]
    for kind in rights:
        rights[kind] = [each for each in rights[kind] if each != "CAP_SYS_ADMIN"]
    json.dump(found, open(path, "w"))
os.execvp("runc", ["runc", *sys.argv[1:]])
"""
"""An OCI runtime that never grants CAP_SYS_ADMIN."""


@contextmanager
def daemon(address: str, *command: str) -> Iterator[str]:
    """`address` while the daemon is there and answers."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        asking = ["docker", "--host", address, "version"]
        assert until(lambda: subprocess.run(asking, capture_output=True, check=False).returncode == 0)
        yield address
        running.terminate()


@pytest.fixture
def folder() -> Iterator[str]:
    docker_images.require_docker()
    if os.getuid() != 0:
        pytest.skip("a daemon of one's own needs root")
    with tempfile.TemporaryDirectory(prefix="intercode-daemon-") as made:
        yield made
        assert until(lambda: subprocess.run(["pgrep", "-f", made], capture_output=True, check=False).returncode == 1)


@pytest.fixture
def meek_daemon(folder: str) -> Iterator[str]:
    """It has the runtime `meek`, and a network of its own: it would take the other's bridge away."""
    if shutil.which("dockerd") is None:
        pytest.skip("dockerd is not installed")
    meek = Path(folder) / "meek"
    meek.write_text(MEEK)
    meek.chmod(0o755)
    options = f"--data-root {folder}/data --exec-root {folder}/run --pidfile {folder}/pid --host unix://{folder}/socket"
    options += f" --bridge none --iptables=false --add-runtime meek={meek}"
    with daemon(f"unix://{folder}/socket", "unshare", "--mount", "--net", "dockerd", *options.split()) as address:
        yield address


@pytest.fixture
def podman(folder: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """With runc: crun refuses machines that have both versions of cgroups. The limits are below this machine's own."""
    if shutil.which("podman") is None or shutil.which("runc") is None:
        pytest.skip("podman is not installed")
    settings = Path(folder) / "containers.conf"
    settings.write_text('[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\n')
    monkeypatch.setenv("CONTAINERS_CONF", str(settings))
    options = ["--root", f"{folder}/data", "--runroot", f"{folder}/run", "--storage-driver", "vfs"]
    options += ["--runtime", shutil.which("runc") or "", "--cgroup-manager", "cgroupfs"]
    address = f"unix://{folder}/socket"
    with daemon(address, "podman", *options, "system", "service", "--time=0", address):
        yield address
    assert until(lambda: _emptied(["podman", *options]))


def _emptied(podman: list[str]) -> bool:
    """A container that was starting when its sandbox was closed may still be there, with a mount of its own."""
    subprocess.run([*podman, "rm", "--all", "--force", "--time", "0"], capture_output=True, check=False)
    return not subprocess.run([*podman, "ps", "--all", "--quiet"], capture_output=True, check=True).stdout


def test_a_daemon_whose_containers_make_no_namespaces_is_named(meek_daemon: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", meek_daemon)
    image = replace(make_image(docker_images.busybox()), runtime="meek")
    with pytest.raises(SandboxUnavailable, match=r"Operation not permitted.*; let the daemon .* grant --cap-add SYS_ADMIN"):
        DockerSandbox(image)


def test_podmans_socket_will_do(podman: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", podman)
    with DockerSandbox(make_image(docker_images.busybox())) as sandbox:
        sandbox.exec("echo x > /tmp/x")
        assert sandbox.diff().keys() == {"/tmp/x"}
        sandbox.reset()
        assert sandbox.exec("ls /tmp; echo alive").output == "alive\n"
