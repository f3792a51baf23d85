"""Containers that cannot erase by themselves: the guest beside the agent cannot be touched, and any trace of the past counts.

They are used where no cell can be built (another runtime, no CAP_SYS_ADMIN, a network), and for setup scripts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_docker import docker

from intercode.attacks import walls as attacks
from intercode.errors import ForkError
from intercode.sandbox.base import MIB, Limits
from intercode.sandbox.docker.images import DockerImage, make_image
from intercode.sandbox.docker.lone import LoneSandbox

pytestmark = pytest.mark.slow


@pytest.fixture
def sandbox(image: DockerImage) -> Iterator[LoneSandbox]:
    with LoneSandbox(image, limits=Limits(memory=128 * MIB, processes=40)) as made:
        yield made


# -- the wall ----------------------------------------------------------------------------------------------------------

TOUCHES = {
    "kill": "kill -9 PID",
    "stop": "kill -STOP PID; until [ $(cut -d ' ' -f 3 < /proc/PID/stat) = T ]; do :; done",
    "descriptors": "echo forged > /proc/PID/fd/FD",
    "memory": "head -c 1 /proc/PID/mem 2>&1 | grep -q 'Input/output error'",  # as far as opening it
    "environment": "[ -r /proc/PID/environ ] && cat /proc/PID/environ > /dev/null",
}
VICTIM = "sleep 300 > /tmp/victim & until read -r name < /proc/$!/comm && [ $name = sleep ]; do :; done"


@pytest.mark.parametrize("touch", TOUCHES.values(), ids=TOUCHES)
def test_the_guest_cannot_be_touched_by_root_beside_it(sandbox: LoneSandbox, touch: str) -> None:
    sandbox.exec(VICTIM)
    assert sandbox.exec(touch.replace("PID", "$!").replace("FD", "1")).exit_code == 0, "it works on a process of the agent's"
    sandbox.exec(f"for FD in {{3..30}}; do {touch.replace('PID', '1').replace('FD', '$FD')} && touch /touched; done", timeout=2)
    if touch.startswith("kill -9"):  # which succeeds, and does nothing
        sandbox.exec("rm /touched")
    assert sandbox.diff().keys() == {"/tmp/victim"}
    assert sandbox.exec("echo honest; (exit 5)").output == "honest\n"


def test_a_container_has_no_network_few_rights_and_bounds(sandbox: LoneSandbox) -> None:
    found = json.loads(docker("inspect", sandbox.container))[0]["HostConfig"]
    assert (found["NetworkMode"], found["Privileged"], found["PortBindings"]) == ("none", False, {})
    assert (found["CapDrop"], "SYS_PTRACE" in found["CapAdd"], "SYS_ADMIN" in found["CapAdd"]) == (["ALL"], False, False)
    assert found["SecurityOpt"] == ["no-new-privileges"]
    assert found["Memory"] == found["MemorySwap"] > 0
    assert found["PidsLimit"] > 0
    assert sandbox.exec("cat /proc/net/dev | grep -c :").output == "1\n"


def test_the_images_health_check_gets_no_process_beside_the_agent(image: DockerImage, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {image.name}\nHEALTHCHECK --interval=1s CMD touch /tmp/left\n")
    checked = make_image(str(tmp_path))
    assert json.loads(docker("image", "inspect", checked.id))[0]["Config"]["Healthcheck"]["Interval"] == 10**9
    with LoneSandbox(checked) as sandbox:
        state = json.loads(docker("inspect", sandbox.container))[0]["State"]
    assert "Health" not in state


def test_too_much_on_the_disk_ends_what_wrote_it(image: DockerImage) -> None:
    with LoneSandbox(image, limits=Limits(disk=64 * MIB, file_size=16 * MIB)) as sandbox:
        assert "exceeded" not in sandbox.exec("head -c 12M /dev/zero > /tmp/small; sleep 0.3").output
        writes = "for i in {1..20}; do head -c 12M /dev/zero > /tmp/$i; done; sleep 5"
        assert "disk limit of 64 MiB exceeded" in sandbox.exec(writes).output
        assert sandbox.exec("echo honest").output == "honest\n"
        assert "disk limit of 64 MiB exceeded" in sandbox.exec(writes.replace("tmp", "var/tmp")).output
        sandbox.reset()
        assert sandbox.exec("ls /tmp; echo alive").output == "alive\n"


HOSTILE = [attack for attack in attacks.KERNEL + attacks.GUEST + attacks.LEFT if attack.name != "finding the guest"]


@pytest.fixture(scope="module")
def small(image: DockerImage) -> Iterator[LoneSandbox]:
    with LoneSandbox(image, limits=attacks.LIMITS) as made:
        yield made


@pytest.mark.parametrize("attack", HOSTILE, ids=lambda attack: attack.name.replace(" ", "-"))
def test_what_fails_behind_the_local_wall_fails_here(small: LoneSandbox, attack: attacks.Attack) -> None:
    """That each works where nothing stands in its way is shown in test_hostile.py."""
    small.reset()
    assert "BREACH" not in small.exec(attack.action, timeout=2).output
    assert any("honest 42\n" in small.exec("echo honest $((6 * 7))", timeout=4).output for _ in range(3))
    small.reset()
    assert "BREACH" not in small.exec(attack.after, timeout=4).output


# -- copies ------------------------------------------------------------------------------------------------------------


def test_a_copy_that_comes_out_otherwise_is_refused(sandbox: LoneSandbox) -> None:
    sandbox.exec("cat /proc/sys/kernel/random/uuid")
    with pytest.raises(ForkError, match="action 1 came out otherwise"):
        sandbox.fork()
    assert sandbox.exec("echo alive").output == "alive\n"


ALL_BUT_ONE = "r=$((SRANDOM % 2000)); for i in {0..1999}; do [ $i = $r ] || : > /tmp/f$i; done"


def test_a_copy_in_which_a_file_cannot_be_written_again_is_refused_and_closed(sandbox: LoneSandbox) -> None:
    sandbox.exec(ALL_BUT_ONE)
    (free,) = {f"/tmp/f{number}" for number in range(2000)} - sandbox.diff().keys()
    sandbox.write(f"{free}/file", b"x")
    with pytest.raises(ForkError, match="action 2 "):
        sandbox.fork()
    assert sandbox._pool.users == 1


# -- reset -------------------------------------------------------------------------------------------------------------

TRACES = (
    *(
        "echo > /tmp/x; rm /tmp/x",
        "touch -r /etc/group /etc/passwd",
        "cat /etc/passwd > /tmp/p; cat /tmp/p > /etc/passwd; rm /tmp/p",
    ),
    *("echo > /dev/shm/x", "echo > /dev/x", "chmod 600 /dev/null", "ipcmk -Q"),
    *("echo 15 > /proc/1/autogroup", "echo 500 > /proc/1/oom_score_adj", "renice -n 5 -p 1"),
)


@pytest.mark.parametrize("trace", TRACES)
def test_a_container_with_any_trace_of_the_past_is_replaced(sandbox: LoneSandbox, trace: str) -> None:
    before = sandbox.container
    sandbox.exec(trace)
    sandbox.reset()
    assert sandbox.container != before


def test_an_untouched_container_gets_a_new_session_instead(sandbox: LoneSandbox) -> None:
    before = sandbox.container
    for _ in range(3):
        sandbox.exec("x=1; cd /tmp; umask 0; cat /etc/passwd; setsid sleep 300 > /dev/null & (exit 7)")
        sandbox.reset()
        assert (
            sandbox.exec("echo ${x-unset} $? $(pwd) $(umask); cat /proc/[0-9]*/comm | grep -c sleep").output
            == "unset 0 / 0022\n0\n"
        )
        with sandbox.fork() as twin:  # with the same process numbers
            assert twin.exec("echo $$ $BASHPID").output == sandbox.exec("echo $$ $BASHPID").output
    assert sandbox.container == before
