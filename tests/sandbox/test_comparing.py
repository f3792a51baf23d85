"""What a file holds, as `diff` tells it: holes are zeros, cost nothing, and a file with many names is read once."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from intercode.sandbox.base import Sandbox
from intercode.sandbox.build import make_template, open_sandbox

pytestmark = pytest.mark.slow
STARTS = {"template": "local", "image": "docker"}
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
    "a byte on another page": "truncate -s 300000 f; printf x | dd of=f conv=notrunc bs=4096 seek=1",
    "two bytes": "truncate -s 300000 f; printf x | dd of=f conv=notrunc; printf x | dd of=f conv=notrunc bs=4096 seek=1",
    "two bytes behind each other": "printf x > f; truncate -s 4096 f; printf x >> f; truncate -s 300000 f; printf y >> f",
}


@pytest.fixture(params=STARTS, ids=STARTS.get)
def made(request: pytest.FixtureRequest) -> Callable[[str], Sandbox]:
    start = request.getfixturevalue(request.param)

    def open_with(action: str) -> Sandbox:
        sandbox = open_sandbox(start, session="persistent", limits=None, environment=None)
        request.addfinalizer(sandbox.close)
        assert sandbox.exec(f"cd /opt; {action}", timeout=60).exit_code == 0
        return sandbox

    return open_with


def test_what_holds_the_same_has_one_digest_and_what_does_not_another(made: Callable[[str], Sandbox]) -> None:
    sandbox = made("true")
    digests = {}
    for name, action in {**SAME, **OTHERS}.items():
        sandbox.exec(f"cd /opt; rm -f f; {action} 2> /dev/null")
        digests[name] = sandbox.diff()["/opt/f"].digest
    assert len({digests[name] for name in SAME}) == 1
    assert len(set(digests.values())) == 1 + len(OTHERS)


def test_a_template_tells_of_its_files_as_a_sandbox_does(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    contents = {
        "empty": b"",
        "short": b"x\n",
        "zeros": bytes(300_000),
        "page": bytes(4096) + b"x" * 4096,
        "long": b"ab\0" * 700_000,
    }
    (tmp_path / "box").mkdir()
    for name, content in contents.items():
        (tmp_path / "box" / name).write_bytes(content)
    template = make_template(tree=tmp_path)
    sandbox = open_sandbox(template, session="persistent", limits=None, environment=None)
    request.addfinalizer(sandbox.close)
    sandbox.exec("cp -r /box /copy; truncate -s 300000 /copy/hole")
    made, known = sandbox.diff(), template.files()
    for name in contents:
        assert made[f"/copy/{name}"].digest == known[f"/box/{name}"].digest
    assert made["/copy/hole"].digest == known["/box/zeros"].digest


@pytest.mark.parametrize(
    "action",
    ["for i in {1..1000}; do truncate -s 200M $i; done", "head -c 100M /dev/urandom > f; for i in {1..300}; do ln f $i; done"],
    ids=["a thousand files that are holes", "a file with three hundred names"],
)
def test_much_that_is_little_is_compared_in_no_time(made: Callable[[str], Sandbox], action: str) -> None:
    sandbox = made(action)
    started = time.monotonic()
    assert len(sandbox.diff()) > 300
    assert time.monotonic() - started < 5
