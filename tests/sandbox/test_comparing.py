"""What a file holds, as `diff` tells it: holes are zeros, cost nothing, and a file with many names
is read once; and while `diff` looks, the agent's jobs stand still."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from intercode_sandbox.base import Limits
from intercode_sandbox.errors import SandboxDied
from intercode_sandbox.local import LocalSandbox
from intercode_sandbox.template import Template

pytestmark = pytest.mark.slow

SAME = {
    "a hole": "truncate -s 300000 f",
    "written zeros": "head -c 300000 /dev/zero > f",
    "a hole behind zeros": "head -c 5000 /dev/zero > f; truncate -s 300000 f",
}
OTHERS = {
    "nothing": "touch f",
    "a byte more": "truncate -s 300001 f",
    "a byte in front": "truncate -s 300000 f; printf x | dd of=f conv=notrunc",
    "a byte at the end": "truncate -s 299999 f; printf x >> f",
    "a byte on another page": (
        "truncate -s 300000 f; printf x | dd of=f conv=notrunc bs=4096 seek=1"
    ),
    "two bytes": (
        "truncate -s 300000 f; printf x | dd of=f conv=notrunc; printf x | "
        "dd of=f conv=notrunc bs=4096 seek=1"
    ),
}
MUCH = {
    "a thousand files that are holes": "for i in {1..1000}; do truncate -s 200M $i; done",
    "a file with three hundred names": (
        "head -c 30M /dev/urandom > f; for i in {1..300}; do ln f $i; done"
    ),
}
DEEP = (
    'chdir "/opt"; for (1 .. 15) { mkdir "n" x 250; chdir "n" x 250 }'
    ' for (1 .. 20000) { open F, ">$_" }'
)
HOARDS = 'my @held = map { "x" x (10 << 20) } 1 .. 60; sleep 1; print "holds it\\n"'
MOVING = 'while (1) { rename "/opt/a/f", "/opt/b/f"; rename "/opt/b/f", "/opt/a/f" }'


@pytest.fixture(scope="module")
def shared(template: Template) -> Iterator[LocalSandbox]:
    with LocalSandbox(template) as made:
        yield made


def test_what_holds_the_same_has_one_digest_and_what_does_not_another(
    sandbox: LocalSandbox,
) -> None:
    digests = {}
    for name, action in {**SAME, **OTHERS}.items():
        sandbox.exec(f"cd /opt; rm -f f; {action} 2> /dev/null")
        digests[name] = sandbox.diff()["/opt/f"].digest
    assert len({digests[name] for name in SAME}) == 1
    assert len(set(digests.values())) == 1 + len(OTHERS)


@pytest.mark.parametrize("action", MUCH.values(), ids=[name.replace(" ", "-") for name in MUCH])
def test_much_that_is_little_is_compared_in_no_time(sandbox: LocalSandbox, action: str) -> None:
    assert sandbox.exec(f"cd /opt; {action}", timeout=60).exit_code == 0
    started = time.monotonic()
    assert len(sandbox.diff()) > 300
    assert time.monotonic() - started < 40


def test_a_file_that_a_job_moves_is_in_one_place_and_the_job_goes_on(sandbox: LocalSandbox) -> None:
    sandbox.exec("mkdir -p /opt/a /opt/between; touch /opt/a/f /opt/between/{1..300}; mkdir /opt/b")
    sandbox.exec("sleep 100 & stopped=$!; kill -STOP $stopped")
    sandbox.exec(f"perl -e '{MOVING}' & moving=$!; sleep 0.2")
    for _ in range(40):
        changes = sandbox.diff()
        assert len(changes.keys() & {"/opt/a/f", "/opt/b/f"}) == 1
        assert {change.type for change in changes.values()} == {"dir", "file"}
    is_stopped = (
        "for job in $moving $stopped; do [[ $(< /proc/$job/stat) == *') T '* ]]; echo $?; done"
    )
    assert sandbox.exec(is_stopped).output == "1\n0\n"


def test_a_glance_leaves_the_times_of_access_as_they_are(sandbox: LocalSandbox) -> None:
    sandbox.exec("cd /opt; mkdir d; echo a > d/f; ln -s f d/l; touch -ha -d @1 d d/f d/l")
    times = "stat -c %X /opt/d /opt/d/f /opt/d/l"
    assert sandbox.glance().keys() >= {"/opt/d", "/opt/d/f", "/opt/d/l"}
    assert sandbox.exec(times).output == "1\n1\n1\n"
    sandbox.exec("cd /opt/d; ls; cat f; readlink l")
    assert "1" not in sandbox.exec(times).output.split(), "who reads inside is noticed"


def test_a_glance_at_too_much_leaves_the_sandbox_as_it_was(sandbox: LocalSandbox) -> None:
    assert sandbox.exec(f"kept=1; perl -e '{DEEP}'").exit_code == 0
    with pytest.raises(SandboxDied, match="too long"):
        sandbox.glance()
    assert sandbox.exec("echo $kept").output == "1\n"


def test_a_file_that_was_read_is_not_held_open(sandbox: LocalSandbox) -> None:
    sandbox.exec("head -c 3000000 /dev/zero > /opt/f")
    assert len(sandbox.read("/opt/f")) == 3_000_000
    sandbox.exec("rm /opt/f")
    assert int(sandbox.exec("df --output=used -B1 / | tail -1").output) < 3_000_000


def test_limits_hold_during_a_glance(template: Template) -> None:
    with LocalSandbox(template, limits=Limits(memory=500 << 20)) as sandbox:
        sandbox.exec("mkdir /opt/many; cd /opt/many; touch {1..60000}")
        sandbox.exec(f"perl -e '{HOARDS}' > /opt/log 2>&1 &")
        sandbox.glance()
        assert any("memory" in sandbox.exec("sleep 0.3").limits for _ in range(60))
        assert sandbox.exec("cat /opt/log").output == ""
