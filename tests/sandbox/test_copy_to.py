"""Copying from one sandbox to another: what travels, what stays, and the limits."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest
from kept import needs_bwrap

from intercode_sandbox.base import MIB, Limits, Sandbox, provider

FILLS = """
mkdir -p /app/sub/in /app/out && cd /app
echo a > a; chmod 4755 a; head -c 3000000 /dev/urandom > large; truncate -s 2M holes; : > empty
ln -s a link; ln -s ../a sub/up; ln -s /app/sub absolute
ln -s /etc/passwd away; ln -s ../etc up; ln -s sub/../../etc sly; ln -s /app/../etc slier
mkfifo fifo; mkdir -m 500 closed; echo x > sub/b.tmp; echo y > out/c
chmod 500 sub
"""


@pytest.fixture
def pair() -> Iterator[tuple[Sandbox, Sandbox]]:
    needs_bwrap()
    source = provider("local")
    start, limits = source.prepare(), Limits(disk=64 * MIB, file_size=64 * MIB)
    with source.sandbox(start, limits=limits) as one, source.sandbox(start, limits=limits) as other:
        yield one, other


def copied(pair: tuple[Sandbox, Sandbox], limit: int = 64 * MIB) -> dict[str, int]:
    one, other = pair
    return one.copy_to("/app", other, lambda path, name: name in ("out", "sub/b.tmp"), limit=limit)


def test_files_folders_and_inner_links_arrive_as_they_are(pair: tuple[Sandbox, Sandbox]) -> None:
    one, other = pair
    one.exec(FILLS)
    other.exec(
        "mkdir -p /app/sub /app/fifo; echo old > /app/a; chmod 400 /app/a; ln -s a /app/empty"
    )
    arrived = copied(pair)
    files = {"a": 2, "large": 3_000_000, "holes": 2 * MIB, "empty": 0}
    others = dict.fromkeys(["absolute", "closed", "link", "sub", "sub/in", "sub/up"], 0)
    expected = {f"/app/{name}": size for name, size in {**files, **others}.items()}
    assert arrived == {"/app": 0, **expected}
    look = (
        "cd /app; stat -c '%n %f %N' a link sub closed absolute sub/up; md5sum large holes a empty"
    )
    assert other.exec(look).output == one.exec(f"chmod 755 /app/a; {look}").output
    assert other.exec("ls /app /app/sub").exit_code == 0


@pytest.mark.parametrize(
    ("fills", "limit", "number"),
    [
        ("truncate -s 30M /app/holes", 20, errno.EFBIG),
        ("for i in {1..5}; do truncate -s 9M /app/$i; done", 40, errno.EFBIG),
        ("cd /app; for i in {1..150}; do mkdir d; cd d; done", 40, errno.EFBIG),
        ("for i in {1..5}; do truncate -s 30M /app/$i; done", 999, errno.ENOSPC),
    ],
)
def test_too_much_is_an_error(
    pair: tuple[Sandbox, Sandbox], fills: str, limit: int, number: int
) -> None:
    one, _ = pair
    one.exec(f"mkdir /app; {fills}")
    with pytest.raises(OSError, match=r"more than|too|space") as failure:
        copied(pair, limit * MIB)
    assert failure.value.errno == number


def test_an_empty_folder_and_a_missing_one(pair: tuple[Sandbox, Sandbox]) -> None:
    one, other = pair
    other.write("/app/old", b"")
    with pytest.raises(FileNotFoundError):
        one.copy_to("/gone/app", other, lambda path, name: False, limit=1)
    assert copied(pair) == {}
    one.exec("mkdir /app")
    assert copied(pair) == {"/app": 0}
