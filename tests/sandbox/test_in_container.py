"""The local sandbox inside a container: root, the image's own Python and bubblewrap, the cache on the container's overlay."""

from __future__ import annotations

import json
import subprocess
import sys

import docker_images
import pytest

OPTIONS = ["--security-opt", "seccomp=unconfined", "--network", "none"]

GOLDS = """
import json

from intercode.cli import main
from intercode.doctor import examine

print([finding.what for finding in examine() if finding.ok is False])
for env, limit in (("bash", 12), ("sql", 4), ("python", 2), ("ctf", 2)):
    try:
        main(["eval", env, "--agent", "gold", "--limit", str(limit), "--out", f"/tmp/{env}", "--json"])
    except SystemExit:
        pass
print(json.load(open("/tmp/bash/run.json")).get("wall"))
"""

SPY = """
import os
import subprocess

import intercode
from intercode.sandbox.local import LocalProvider
from intercode.testing import check_sandbox

local = LocalProvider()
start = local.prepare()
check_sandbox(lambda: local.sandbox(start))
with local.sandbox(start) as sandbox, local.sandbox(start) as other:
    secret = subprocess.Popen(["sleep", "300"], env={"KEY": "secret-of-the-caller"})
    other.exec("export KEY=secret-of-a-sibling; sleep 300 &")
    looks = "for at in /proc/[0-9]*; do cat $at/environ $at/root/etc/hostname $at/cwd/*; ls -l $at/fd $at/exe; done 2>&1"
    print("secret" in sandbox.exec(looks, timeout=5).output)
    sandbox.exec("for at in /proc/[0-9]*; do kill -9 ${at#/proc/}; done 2> /dev/null")
    print(secret.poll(), other.exec("echo $KEY; jobs | wc -l").output)
    writes = "for at in /proc/[0-9]*; do for to in oom_score_adj comm mem; do echo 7 > $at/$to && echo written; done; done"
    print(sandbox.exec(f"({writes}; echo 1 > /proc/sys/kernel/sysrq && echo written) 2> /dev/null | grep -c written").output)
    secret.kill()
    secret.wait()
"""


def run(program: str, *options: str) -> str:
    docker_images.require_docker()
    if sys.version_info[:2] != (3, 11):
        pytest.skip("the image has Python 3.11, which cannot import what another Python has installed")
    folders = [path for path in sys.path if path.startswith("/") and not path.startswith("/usr")]
    mounts = [word for path in folders for word in ("--volume", f"{path}:{path}:ro")]
    words = ["docker", "run", "--rm", *OPTIONS, *options, *mounts, "--env", f"PYTHONPATH={':'.join(folders)}"]
    done = subprocess.run(
        [*words, docker_images.debian(), "python3", "-c", program], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "wall"),
    [
        (["--security-opt", "systempaths=unconfined"], "None"),
        ([], "shared-proc"),
        (["--user", "1234:1234", "--env", "HOME=/tmp"], "shared-proc"),
    ],
    ids=["a whole /proc", "a masked /proc", "an ordinary user"],
)
def test_golds_are_solved_in_a_container_that_allows_namespaces(options: list[str], wall: str) -> None:
    failing, *runs, found = run(GOLDS, *options).splitlines()
    assert (failing, found) == ("[]", wall)
    assert [(each["env"], each["success_rate"], each["errors"]) for each in map(json.loads, runs)] == [
        (env, 1.0, 0) for env in ("bash", "sql", "python", "ctf")
    ]


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--user", "1234:1234", "--env", "HOME=/tmp"]], ids=["root", "an ordinary user"])
def test_an_agent_that_sees_the_containers_processes_neither_reads_nor_ends_them(options: list[str]) -> None:
    assert run(SPY, *options).split() == ["False", "None", "secret-of-a-sibling", "1", "0"]
