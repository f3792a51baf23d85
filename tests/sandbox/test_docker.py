"""Containers as sandboxes: any image will do, faults are named, nothing is left over, and the guest cannot be touched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import docker_images
import pytest

from intercode.attacks import walls as attacks
from intercode.doctor import clean
from intercode.envs.ground import Ground, Place
from intercode.errors import DataError, SandboxDied, SandboxUnavailable, UsageError
from intercode.sandbox.base import MIB, Limits
from intercode.sandbox.build import with_script
from intercode.sandbox.docker import images, leftovers
from intercode.sandbox.docker.images import DockerImage, make_image
from intercode.sandbox.docker.sandbox import DockerSandbox

pytestmark = pytest.mark.slow

OWNER = """
import sys, time
from intercode.sandbox.docker.images import make_image
from intercode.sandbox.docker.sandbox import DockerSandbox
image = make_image(sys.argv[1])
sandboxes = [DockerSandbox(image) for _ in range(8)]
for sandbox in sandboxes:
    sandbox.exec("sleep 4446 &")
print(*(sandbox.container for sandbox in sandboxes), flush=True)
time.sleep(600)
"""


def docker(*words: str) -> str:
    return subprocess.run(["docker", *words], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def containers(*filters: str) -> set[str]:
    return set(docker("ps", "--all", *filters, "--format", "{{.Names}}").split())


def running() -> str:
    return docker("ps", "--no-trunc", "--format", "{{.Command}}")


def until(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return met


@pytest.fixture
def sandbox(image: DockerImage) -> Iterator[DockerSandbox]:
    with DockerSandbox(image, limits=Limits(memory=128 * MIB, processes=40)) as made:
        yield made


# -- any image ---------------------------------------------------------------------------------------------------------


def test_an_image_with_nothing_but_busybox_is_lent_a_bash() -> None:
    docker_images.require_docker()
    with DockerSandbox(make_image(docker_images.busybox())) as sandbox:
        sandbox.exec("cd /tmp; list=(a 'b c'); f() { echo \"f $1\"; }")
        assert sandbox.exec('f "${list[1]}"; pwd; ls /').output == "f b c\n/tmp\nbin\ndev\netc\nproc\nsys\ntmp\nvar\n"
        assert sandbox.exec("echo early; sleep 60", timeout=0.4).timed_out
        assert sandbox.exec("", argv=["sh", "-c", "type bash"]).exit_code == 127
        sandbox.exec("echo x > /tmp/x; rm /etc/passwd")
        assert {path: change.kind for path, change in sandbox.diff().items()} == {"/etc/passwd": "removed", "/tmp/x": "added"}
        with sandbox.fork() as twin:
            assert twin.exec("f 1; cat x").output == "f 1\nx\n"


def test_a_service_of_the_image_runs_inside() -> None:
    docker_images.require_docker()
    with DockerSandbox(make_image(docker_images.debian())) as sandbox:
        sandbox.exec("redis-server --save '' --daemonize yes > /dev/null; until redis-cli ping; do :; done")
        assert sandbox.exec("redis-cli set k v; redis-cli get k").output == "OK\nv\n"
        sandbox.reset()
        assert sandbox.exec("redis-cli get k").exit_code == 1


def test_an_image_without_a_shell_is_the_callers_fault() -> None:
    docker_images.require_docker()
    with pytest.raises(UsageError, match="has no shell"):
        DockerSandbox(make_image(docker_images.bare()))


def test_a_dockerfile_is_built_with_its_log_shown_and_again_from_dockers_cache(image: DockerImage, tmp_path: Path) -> None:
    recipe = tmp_path / "Dockerfile"
    recipe.write_text(
        f"FROM {image.name}\nENV GREETING='from the image'\nWORKDIR /srv\nCOPY note /srv/note\nRUN echo built > /srv/built\n"
        'USER 1000\nENTRYPOINT ["false"]\n'
    )
    (tmp_path / "note").write_text(f"{time.time()}\n")
    said: list[str] = []
    made = make_image(str(recipe), progress=said.append)
    assert any("RUN echo built" in line for line in said)
    with DockerSandbox(made) as sandbox:
        assert sandbox.exec('cat built; echo "$GREETING"; id -u').output == "built\nfrom the image\n0\n"
    assert make_image(str(tmp_path), progress=said.append) == made


def test_a_dockerfile_is_built_anew_when_what_it_is_from_has_moved(image: DockerImage, tmp_path: Path) -> None:
    moving = f"{docker_images.SHELF}:moving"
    (tmp_path / "Dockerfile").write_text(f"FROM {moving}\nENV MOVED=no\n")
    try:
        docker("tag", image.id, moving)
        first = make_image(str(tmp_path), progress=lambda line: None)
        docker("tag", make_image(docker_images.bare()).id, moving)
        assert make_image(str(tmp_path), progress=lambda line: None).id != first.id
    finally:
        docker("rmi", moving)


ENDLESS = """
import sys
from intercode.sandbox.docker.images import make_image
make_image(sys.argv[1])
"""


def test_a_build_ends_with_the_process_that_wanted_it(image: DockerImage, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {image.name}\nRUN sleep 4447\n")
    with subprocess.Popen([sys.executable, "-c", ENDLESS, str(tmp_path)], stderr=subprocess.DEVNULL) as owner:
        assert until(lambda: "sleep 4447" in running())
        owner.terminate()
    assert until(lambda: "sleep 4447" not in running())


def test_a_build_without_end_is_ended(image: DockerImage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {image.name}\nRUN sleep 4448\n")
    monkeypatch.setattr(images, "_PATIENCE", 1.0)
    with pytest.raises(UsageError, match="took more than"):
        make_image(str(tmp_path), progress=lambda line: None)
    assert until(lambda: "sleep 4448" not in running())


def test_tree_and_setup_become_part_of_the_image(image: DockerImage, tmp_path: Path) -> None:
    (tmp_path / "srv/deep").mkdir(parents=True)
    (tmp_path / "srv/deep/file").write_text("text\n")
    (tmp_path / "srv/deep/file").chmod(0o640)
    made = with_script(make_image(image.name, tmp_path), "chmod 600 /srv/deep/file; echo $0 > /srv/made", name="setup")
    assert isinstance(made, DockerImage)
    with DockerSandbox(made) as sandbox:
        assert sandbox.exec("stat -c '%a %U' /srv/deep/file; cat /srv/made /srv/deep/file").output.startswith("600 root\n")
        assert sandbox.diff() == {}
    assert with_script(make_image(image.name, tmp_path), "chmod 600 /srv/deep/file; echo $0 > /srv/made", name="setup") == made
    assert {"/srv/made", "/srv/deep/file"} <= set(made.files(skip=["usr", "var"]))
    with pytest.raises(DataError, match=r"(?s)the setup script broken cannot be added.*no such thing.*code: 3"):
        with_script(image, "echo no such thing; exit 3", name="broken")


def test_nothing_is_added_to_an_image_whose_volumes_would_lose_it(image: DockerImage, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {image.name}\nVOLUME /srv/data\n")
    made = make_image(str(tmp_path), progress=lambda line: None)
    with pytest.raises(UsageError, match=r"declares VOLUME /srv/data"):
        with_script(made, "echo x > /srv/data/x", name="setup")
    with DockerSandbox(made) as sandbox:
        assert sandbox.exec("echo x > /srv/data/x; cat /srv/data/x").output == "x\n"


# -- faults ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        *(("nosuch-image", "docker pull nosuch-image"), ("./nosuch/Dockerfile", "no such Dockerfile")),
        *((None, "needs an image"), ("", "needs an image")),
        *(("--help", "is no name of an image"), ("bad name!", "is no name of an image")),
    ],
)
def test_an_image_that_is_not_there_is_the_callers_fault(image: DockerImage, name: str | None, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make_image(name)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("FROM {0}\nRUN no-such-program", "no-such-program"),
        ("FORM {0}", "no line begins with FROM"),
        ("\0FROM {0}", "is no Dockerfile"),
        ("FROM localhost:1/nosuch", "FROM image is not here"),
    ],
)
def test_a_wrong_dockerfile_is_the_callers_fault(image: DockerImage, tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "Dockerfile").write_text(text.format(image.name))
    with pytest.raises(UsageError, match=words):
        make_image(str(tmp_path), progress=lambda line: None)


def test_a_daemon_that_is_down_is_named_with_its_mend(image: DockerImage, monkeypatch: pytest.MonkeyPatch) -> None:
    with DockerSandbox(image) as sandbox:
        monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
        for use in (lambda: make_image(image.name), lambda: DockerSandbox(replace(image, cpus=None)).close()):
            with pytest.raises(SandboxUnavailable, match="not at DOCKER_HOST=unix:///nowhere"):
                use()
        monkeypatch.setenv("DOCKER_HOST", "no://where")
        with pytest.raises(SandboxUnavailable, match="not at DOCKER_HOST=no://where"):
            make_image(image.name)
        monkeypatch.delenv("DOCKER_HOST")
        assert sandbox.exec("echo alive").output == "alive\n"


def test_a_runtime_or_network_that_docker_lacks_is_named(image: DockerImage) -> None:
    for made in (replace(image, runtime="nosuch"), replace(image, network="nosuch")):
        with pytest.raises(UsageError, match="'nosuch'"):
            DockerSandbox(made)


def test_a_container_that_is_removed_is_noticed_and_replaced(image: DockerImage) -> None:
    place = Place(Ground(image, "persistent"))
    with place.sandbox as sandbox:
        place.act("true")
        docker("rm", "--force", sandbox.container)  # type: ignore[attr-defined]
        with pytest.raises(SandboxDied):
            place.act("true")
        place.begin()
    with place.sandbox:
        assert place.act("echo alive").output == "alive\n"


# -- the wall ----------------------------------------------------------------------------------------------------------


def test_too_much_memory_and_too_many_processes_end_what_used_them(sandbox: DockerSandbox) -> None:
    assert (
        "memory limit of 128 MiB exceeded"
        in sandbox.exec("for i in {1..6}; do (x=$(head -c 30M /dev/zero | tr '\\0' x); sleep 8) & done; wait", timeout=9).output
    )
    assert "limit of 40 processes exceeded" in sandbox.exec("for i in {1..60}; do sleep 60 & done; wait", timeout=9).output
    sandbox.exec("true")
    assert sandbox.exec("echo alive").output == "alive\n"


def test_a_network_that_is_named_is_that_of_every_episode(image: DockerImage) -> None:
    with DockerSandbox(replace(image, network="bridge")) as sandbox:
        assert sandbox.exec("cat /proc/net/dev | grep -c eth0; [ -s /etc/resolv.conf ]; echo $?; touch /x").output == "1\n0\n"
        sandbox.reset()
        assert sandbox.exec("cat /proc/net/dev | grep -c eth0").output == "1\n"
        assert sandbox.diff() == {}


def test_the_images_health_check_gets_no_process_beside_the_agent(image: DockerImage, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {image.name}\nHEALTHCHECK --interval=1s CMD touch /tmp/left\n")
    checked = make_image(str(tmp_path))
    assert json.loads(docker("image", "inspect", checked.id))[0]["Config"]["Healthcheck"]["Interval"] == 10**9
    with DockerSandbox(checked) as sandbox:
        state = json.loads(docker("inspect", sandbox.container))[0]["State"]
    assert "Health" not in state


SWITCH = "echo theirs > /proc/sys/kernel/domainname && cat /proc/sys/kernel/domainname"
ROOMS = {"/", "/layers/0/tree", "/merged/tree", "/guest", "/proc", "/dev"}
LOCK = "chown 33 /etc/group; su nobody -s /bin/sh -c 'id -u'; grep CapEff /proc/self/status; cat /proc/net/dev | grep -c :"


def test_the_right_to_mount_is_left_behind_with_the_daemons_namespaces(image: DockerImage) -> None:
    open_paths = ["--security-opt", "systempaths=unconfined", "--cap-drop", "ALL", "--network", "none"]
    assert docker("run", "--rm", *open_paths, image.id, "sh", "-c", SWITCH) == "theirs", "else root has the switches"
    with DockerSandbox(image) as sandbox:
        found = json.loads(docker("inspect", sandbox.container))[0]
        keeper = f"/proc/{found['State']['Pid']}"
        assert os.readlink(f"{keeper}/ns/user") != os.readlink("/proc/self/ns/user")
        mounted = {line.split()[4] for line in Path(f"{keeper}/mountinfo").read_text().splitlines()}
        assert {path for path in mounted if not path.startswith("/dev/")} == ROOMS
        assert sandbox.exec(SWITCH).exit_code == 1
        assert sandbox.exec("mount -t tmpfs x /mnt || unshare -r true || mknod /tmp/disk b 8 0").exit_code != 0
        assert sandbox.exec(LOCK).output == "65534\nCapEff:\t00000000000004fb\n1\n"
    bounds = found["HostConfig"]
    assert (bounds["NetworkMode"], bounds["Privileged"], bounds["PortBindings"]) == ("none", False, {})
    assert bounds["Memory"] == bounds["MemorySwap"] > 0
    assert bounds["PidsLimit"] > 0


HOSTILE = attacks.EXHAUSTION + attacks.KERNEL + attacks.SHELL + attacks.GUEST + attacks.LEFT


@pytest.fixture(scope="module")
def small(image: DockerImage) -> Iterator[DockerSandbox]:
    with DockerSandbox(image, limits=attacks.LIMITS) as made:
        yield made


@pytest.mark.parametrize("attack", HOSTILE, ids=lambda attack: attack.name.replace(" ", "-"))
def test_what_fails_behind_the_local_wall_fails_here(small: DockerSandbox, attack: attacks.Attack) -> None:
    """That each works where nothing stands in its way is shown in test_hostile.py."""
    small.reset()
    assert "BREACH" not in small.exec(attack.action, timeout=2).output
    assert any("honest 42\n" in small.exec("echo honest $((6 * 7))", timeout=4).output for _ in range(3))
    small.reset()
    assert "BREACH" not in small.exec(attack.after, timeout=4).output
    assert small.diff() == {}


def test_that_no_shell_survives_is_announced_until_the_reset(small: DockerSandbox) -> None:
    small.reset()
    assert small.exec("rm -rf --no-preserve-root /* 2> /dev/null; exit", timeout=8).session_lost
    assert small.exec("echo honest").session_lost
    small.reset()
    assert small.exec("echo honest").output == "honest\n"
    assert small.diff() == {}


# -- ends --------------------------------------------------------------------------------------------------------------


def test_nothing_is_left_when_all_are_closed(image: DockerImage) -> None:
    mine = "--filter", f"label={leftovers.label()}"
    before = containers(*mine)
    with ExitStack() as stack:
        sandboxes = [stack.enter_context(DockerSandbox(image)) for _ in range(3)]
        assert {sandbox.container for sandbox in sandboxes} <= containers(*mine)
    assert until(lambda: containers(*mine) <= before)


def test_a_killed_process_leaves_nothing_and_others_containers_stay(image: DockerImage) -> None:
    foreign = docker("run", "--detach", "--network", "none", image.name, "sleep", "300")
    try:
        with subprocess.Popen([sys.executable, "-c", OWNER, image.name], stdout=subprocess.PIPE, text=True) as owner:
            assert owner.stdout
            names = owner.stdout.readline().split()
            docker("pause", names[0])  # this one cannot hear that its line has closed
            assert leftovers.find() == []
            os.kill(owner.pid, signal.SIGKILL)
        assert len(names) == 8
        assert until(lambda: containers() & set(names) == {names[0]})
        assert until(lambda: len(leftovers.find()) == 1)
        assert any(removed.startswith("container ") for removed in clean())
        assert until(lambda: not containers() & set(names))
        assert docker("inspect", "--format", "{{.State.Running}}", foreign) == "true"
    finally:
        docker("rm", "--force", foreign)


def test_the_folder_of_a_line_whose_process_was_killed_is_removed_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker_images.require_docker()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with subprocess.Popen(["true"]) as gone:
        pass
    mine = leftovers.line_prefix()
    gones = mine.replace(f".{os.getpid()}.", f".{gone.pid}.")
    strangers = "intercode-line-0.1.1."
    for name, age in {mine: 3600, gones: 0, f"{strangers}old": 3600, f"{strangers}new": 0, "other": 3600}.items():
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    leftovers.clear()
    assert {path.name for path in tmp_path.iterdir()} == {mine, f"{strangers}new", "other"}


def test_a_forked_child_lets_go_and_may_not_use_the_parents_sandbox(sandbox: DockerSandbox) -> None:
    child = os.fork()
    if child == 0:
        try:
            sandbox.exec("true")
        except UsageError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert sandbox.exec("echo alive").output == "alive\n"
