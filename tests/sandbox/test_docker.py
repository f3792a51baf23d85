"""Containers as sandboxes: any image will do, faults are named, nothing is left over, and the guest
cannot be touched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import docker_images
import pytest
from families import wait_until

from intercode.envs.workspace import Workspace, WorkspaceSpec
from intercode.errors import DataError, SandboxDied, SandboxUnavailable, UsageError
from intercode_sandbox import attacks
from intercode_sandbox.docker import daemon
from intercode_sandbox.docker.container import DockerProvider, DockerSandbox
from intercode_sandbox.docker.images import DockerImage, make_image, with_script

pytestmark = [pytest.mark.slow, pytest.mark.alone]

OWNER = """
import sys, time
from intercode_sandbox.docker.images import make_image
from intercode_sandbox.docker.container import DockerSandbox
sandboxes = [DockerSandbox(make_image(sys.argv[1])) for _ in range(2)]
sandboxes[1].exec("sleep 4446 &")
print(*(sandbox.container for sandbox in sandboxes), flush=True)
if len(sys.argv) > 2:
    time.sleep(600)
"""


def docker(*words: str) -> str:
    return subprocess.run(
        ["docker", *words], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()


def containers(*filters: str) -> set[str]:
    return set(docker("ps", "--all", *filters, "--format", "{{.Names}}").split())


@pytest.fixture(scope="module")
def shared(image: DockerImage) -> Iterator[DockerSandbox]:
    with DockerSandbox(image, limits=attacks.LIMITS) as made:
        yield made


# -- any image -------------------------------------------------------------------------------------


def test_an_image_with_nothing_but_busybox_is_lent_a_bash() -> None:
    docker_images.require_docker()
    with DockerSandbox(make_image(docker_images.busybox())) as sandbox:
        sandbox.exec("cd /tmp; list=(a 'b c'); f() { echo \"f $1\"; }")
        assert (
            sandbox.exec('f "${list[1]}"; pwd; ls /').output
            == "f b c\n/tmp\nbin\ndev\netc\nproc\nsys\ntmp\nvar\n"
        )
        assert sandbox.exec("", argv=["sh", "-c", "type bash"]).exit_code == 127
        sandbox.exec("echo x > /tmp/x; rm /etc/passwd")
        assert {path: change.kind for path, change in sandbox.diff().items()} == {
            "/etc/passwd": "removed",
            "/tmp/x": "added",
        }
        with sandbox.fork() as twin:
            assert twin.exec("f 1; cat x").output == "f 1\nx\n"


def test_a_service_of_the_image_runs_inside(sandbox: DockerSandbox) -> None:
    sandbox.exec(
        "redis-server --save '' --daemonize yes > /dev/null; until redis-cli ping; do :; done"
    )
    assert sandbox.exec("redis-cli set k v; redis-cli get k").output == "OK\nv\n"
    sandbox.reset()
    assert sandbox.exec("redis-cli get k").exit_code == 1


def test_a_dockerfile_is_built_with_its_log_shown_and_anew_when_its_base_has_moved(
    image: DockerImage, tmp_path: Path
) -> None:
    """Its variables and folder hold; its user, entry point and health check do not, which would run
    next to the agent."""
    moving = f"{docker_images.SHELF}:moving"
    (tmp_path / "note").write_text(f"{time.time()}\n")
    (tmp_path / "Dockerfile").write_text(
        f"FROM {moving}\nENV GREETING='from the image'\nWORKDIR /srv\nCOPY note /srv/note\n"
        'RUN sleep 3; echo built > /srv/built\nUSER 1000\nENTRYPOINT ["false"]\n'
        "HEALTHCHECK --interval=1s CMD touch /tmp/left\n"
    )
    said: list[str] = []
    try:
        docker("tag", image.id, moving)
        made = make_image(str(tmp_path / "Dockerfile"), progress=said.append)
        assert any("echo built" in line for line in said)
        with DockerSandbox(made) as sandbox:
            assert (
                sandbox.exec('cat built; echo "$GREETING"; id -u').output
                == "built\nfrom the image\n0\n"
            )
            assert "Health" not in json.loads(docker("inspect", sandbox.container))[0]["State"]
        said.clear()
        assert make_image(str(tmp_path), progress=said.append) == made
        assert said == []
        docker("tag", make_image(docker_images.busybox()).id, moving)
        assert make_image(str(tmp_path), progress=said.append).id != made.id
    finally:
        docker("rmi", moving)


def test_tree_and_setup_become_part_of_the_image(image: DockerImage, tmp_path: Path) -> None:
    (tmp_path / "srv/deep").mkdir(parents=True)
    (tmp_path / "srv/deep/file").write_text("text\n")
    script = "chmod 600 /srv/deep/file; echo $0 > /srv/made"
    made = with_script(make_image(image.name, tmp_path), script, name="setup")
    assert isinstance(made, DockerImage)
    with DockerSandbox(made) as sandbox:
        assert sandbox.exec(
            "stat -c '%a %U' /srv/deep/file; cat /srv/made /srv/deep/file"
        ).output.startswith("600 root\n")
        assert sandbox.diff() == {}
    assert with_script(make_image(image.name, tmp_path), script, name="setup") == made
    assert {"/srv/made", "/srv/deep/file"} <= set(made.files(skip=["usr", "var"]))
    with pytest.raises(
        DataError, match=r"(?s)the setup script broken cannot be added.*no such thing.*code: 3"
    ):
        with_script(image, "echo no such thing; exit 3", name="broken")


def test_a_network_that_is_named_is_that_of_every_episode(image: DockerImage) -> None:
    with DockerSandbox(replace(image, network="bridge")) as sandbox:
        assert (
            sandbox.exec(
                "cat /proc/net/dev | grep -c eth0; [ -s /etc/resolv.conf ]; echo $?; touch /x"
            ).output
            == "1\n0\n"
        )
        sandbox.reset()
        assert sandbox.exec("cat /proc/net/dev | grep -c eth0").output == "1\n"
        assert sandbox.diff() == {}


# -- faults ----------------------------------------------------------------------------------------


def test_an_image_that_is_not_there_or_will_not_do_is_the_callers_fault(image: DockerImage) -> None:
    cases = [
        ("nosuch-image", "docker pull nosuch-image"),
        ("./nosuch/Dockerfile", "no such Dockerfile"),
        (None, "needs an image"),
        ("--help", "is not the name of an image"),
        (docker_images.bare(), "has no shell"),
    ]
    for name, words in cases:
        with pytest.raises(UsageError, match=words):
            DockerSandbox(make_image(name))
    for made in (replace(image, runtime="nosuch"), replace(image, network="nosuch")):
        with pytest.raises(UsageError, match="'nosuch'"):
            DockerSandbox(made)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("FROM {0}\nRUN no-such-program", "no-such-program"),
        ("FORM {0}", "no line begins with FROM"),
        ("FROM localhost:1/nosuch", "it does not build"),
        ("FROM {0}\nVOLUME /srv/data", "declares VOLUME /srv/data"),
    ],
)
def test_a_wrong_dockerfile_is_the_callers_fault(
    image: DockerImage, tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "Dockerfile").write_text(text.format(image.name))
    with pytest.raises(UsageError, match=words):
        with_script(
            make_image(str(tmp_path), progress=lambda line: None),
            "echo x > /srv/data/x",
            name="setup",
        )


def test_a_daemon_that_is_down_is_named_with_its_mend(
    image: DockerImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    for use in (
        lambda: make_image(image.name),
        lambda: DockerSandbox(replace(image, cpus=None)).close(),
    ):
        with pytest.raises(SandboxUnavailable, match="not at DOCKER_HOST=unix:///nowhere"):
            use()


def test_a_container_that_is_removed_is_noticed_and_replaced(image: DockerImage) -> None:
    place = Workspace(WorkspaceSpec(DockerProvider(), image, "persistent"))
    with place.sandbox as sandbox:
        place.execute("true")
        docker("rm", "--force", sandbox.container)  # type: ignore[attr-defined]
        with pytest.raises(SandboxDied):
            place.execute("true")
        place.start_episode()
    with place.sandbox:
        assert place.execute("echo alive").output == "alive\n"


# -- isolation -------------------------------------------------------------------------------------

SWITCH = "echo theirs > /proc/sys/kernel/domainname && cat /proc/sys/kernel/domainname"
ROOMS = {"/", "/layers/0/tree", "/merged/tree", "/guest", "/proc", "/dev"}
LOCK = (
    "chown 33 /etc/group; su nobody -s /bin/sh -c 'id -u'; grep CapEff /proc/self/status; "
    "cat /proc/net/dev | grep -c :"
)


def test_the_right_to_mount_is_left_behind_with_the_daemons_namespaces(
    image: DockerImage, sandbox: DockerSandbox
) -> None:
    open_paths = [
        "--security-opt",
        "systempaths=unconfined",
        "--cap-drop",
        "ALL",
        "--network",
        "none",
    ]
    assert docker("run", "--rm", *open_paths, image.id, "sh", "-c", SWITCH) == "theirs", (
        "else root has the switches"
    )
    found = json.loads(docker("inspect", sandbox.container))[0]
    supervisor = f"/proc/{found['State']['Pid']}"
    assert os.readlink(f"{supervisor}/ns/user") != os.readlink("/proc/self/ns/user")
    mounted = {line.split()[4] for line in Path(f"{supervisor}/mountinfo").read_text().splitlines()}
    assert {path for path in mounted if not path.startswith("/dev/")} == ROOMS
    assert sandbox.exec(SWITCH).exit_code == 1
    assert (
        sandbox.exec("mount -t tmpfs x /mnt || unshare -r true || mknod /tmp/disk b 8 0").exit_code
        != 0
    )
    assert sandbox.exec(LOCK).output == "65534\nCapEff:\t00000000000004fb\n1\n"
    bounds = found["HostConfig"]
    assert (bounds["NetworkMode"], bounds["Privileged"], bounds["PortBindings"]) == (
        "none",
        False,
        {},
    )
    assert bounds["Memory"] == bounds["MemorySwap"] > 0
    assert bounds["PidsLimit"] > 0


TEN = [
    *("a fork bomb", "a memory bomb of many processes", "memory in /dev/shm", "a disk filler"),
    *("ptrace", "mounting", "writing a kernel setting", "rewriting pid 1"),
    *("a survivor in a session of its own", "removing everything"),
]
HOSTILE = [
    attack for attack in attacks.EXHAUSTION + attacks.KERNEL + attacks.LEFT if attack.name in TEN
]


@pytest.mark.parametrize("attack", HOSTILE, ids=lambda attack: attack.name.replace(" ", "-"))
def test_what_fails_behind_the_local_wall_fails_here(
    sandbox: DockerSandbox, attack: attacks.SandboxAttack
) -> None:
    """A few of each kind: the guest is the same, and test_hostile.py tries them all, and that each
    can work."""
    assert len(HOSTILE) == len(TEN)
    assert "BREACH" not in sandbox.exec(attack.action, timeout=2).output
    assert any(
        "honest 42\n" in sandbox.exec("echo honest $((6 * 7))", timeout=4).output for _ in range(3)
    )
    sandbox.reset()
    assert "BREACH" not in sandbox.exec(attack.after, timeout=4).output
    assert sandbox.diff() == {}


# -- ends ------------------------------------------------------------------------------------------


def test_nothing_is_left_when_all_are_closed(image: DockerImage) -> None:
    mine = "--filter", f"label={daemon.owner_label()}"
    before = containers(*mine)
    with ExitStack() as stack:
        sandboxes = [stack.enter_context(DockerSandbox(image)) for _ in range(2)]
        assert {sandbox.container for sandbox in sandboxes} <= containers(*mine)
    assert wait_until(lambda: containers(*mine) <= before)


def test_a_killed_process_leaves_nothing_for_longer_than_the_next_start_and_others_containers_stay(
    image: DockerImage,
) -> None:
    foreign = docker("run", "--detach", "--network", "none", image.name, "sleep", "300")
    owner = [sys.executable, "-c", OWNER, image.name]
    try:
        with subprocess.Popen([*owner, "waits"], stdout=subprocess.PIPE, text=True) as killed:
            assert killed.stdout
            paused, other = killed.stdout.readline().split()
            docker("pause", paused)  # this one cannot hear that its line has closed
            os.kill(killed.pid, signal.SIGKILL)
        assert wait_until(lambda: containers() & {paused, other} == {paused})
        mine = set(
            subprocess.run(owner, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        )
        assert wait_until(lambda: not containers() & {paused, *mine})
        assert docker("inspect", "--format", "{{.State.Running}}", foreign) == "true"
    finally:
        docker("rm", "--force", foreign)
