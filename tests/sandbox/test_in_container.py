"""The local sandbox inside a container: root, the image's own Python and bubblewrap, the cache on the container's overlay."""

from __future__ import annotations

import subprocess
import sys

import docker_images
import pytest

PROGRAM = """
from intercode.cli import main
from intercode.doctor import examine

print([finding for finding in examine() if finding.ok is False])
main(["eval", "bash", "--agent", "gold", "--limit", "3", "--out", "/tmp/run", "--json"])
"""


@pytest.mark.slow
def test_golds_are_solved_in_a_container_that_allows_namespaces() -> None:
    docker_images.require_docker()
    if sys.version_info[:2] != (3, 11):
        pytest.skip("the image has Python 3.11, which cannot import what another Python has installed")
    image = docker_images.debian()
    options = ["--security-opt", "seccomp=unconfined", "--security-opt", "systempaths=unconfined", "--network", "none"]
    folders = [path for path in sys.path if path.startswith("/") and not path.startswith("/usr")]
    options += [word for path in folders for word in ("--volume", f"{path}:{path}:ro")]
    command = ["docker", "run", "--rm", *options, "--env", f"PYTHONPATH={':'.join(folders)}", image, "python3", "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("[]\n"), done.stdout + done.stderr
    assert '"success_rate": 1.0' in done.stdout, done.stdout + done.stderr
