"""`read`, `write` and `diff`: what is on the disk, whatever the agent made of it."""

from __future__ import annotations

import os

from intercode.errors import UsageError
from intercode.sandbox.base import Sandbox
from intercode.sandbox.contract.words import Clause, raises, same, says
from intercode.types import Change


def _reads_and_writes(sandbox: Sandbox) -> None:
    """read, write: whole regular files, any bytes, any mode; folders on the way are made; paths are absolute."""
    data = bytes(range(256)) * 5000
    sandbox.write("/tmp/new folder/a\nb", data, mode=0o741)
    same("what was written", sandbox.read("/tmp/new folder/a\nb"), data)
    says(sandbox, "stat -c %a '/tmp/new folder/'*", "741\n")
    sandbox.write("/tmp/new folder/a\nb", b"short", mode=0o600)
    same("what was written over it", sandbox.read("/tmp/new folder/a\nb"), b"short")
    sandbox.exec("printf seen > /tmp/seen; ln -s seen /tmp/link; chmod 0 /tmp/seen")
    same("what a link leads to", sandbox.read("/tmp/link"), b"seen")
    with raises("read beyond its limit", OSError):
        sandbox.read("/tmp/seen", limit=3)
    for use in (sandbox.read, lambda path: sandbox.write(path, b"")):
        with raises("a path that is not absolute", UsageError):
            use("tmp/seen")


def _reads_only_files(sandbox: Sandbox) -> None:
    """read, write: what is missing raises FileNotFoundError; folders, FIFOs, devices, link loops OSError; none hangs."""
    sandbox.exec("cd /tmp; mkfifo fifo; ln -s loop loop; ln -s nowhere dangling; ln -s /dev/zero zero; mkdir folder")
    for path in ("/tmp/missing", "/no/such/folder/file", "/tmp/dangling"):
        with raises(f"read of {path}", FileNotFoundError):
            sandbox.read(path)
    for path in ("/tmp/folder", "/tmp/fifo", "/tmp/loop", "/tmp/zero", "/dev/zero", "/etc/passwd/x"):
        with raises(f"read of {path}", OSError):
            sandbox.read(path)
    for path in ("/tmp/folder", "/tmp/fifo", "/tmp/loop", "/etc/passwd/x", "/tmp/loop/x"):
        with raises(f"write of {path}", OSError):
            sandbox.write(path, b"x")
    says(sandbox, "echo alive", "alive\n")


def _reads_what_moves(sandbox: Sandbox) -> None:
    """read: a link that is swapped while it runs gives the file or an error, never another thing, and never hangs."""
    sandbox.exec("cd /tmp; echo a > a; ln -s a l; mkfifo f")
    swap = "while :; do for to in a /dev/zero f . l /proc/self/root/etc/passwd; do ln -sfn $to l; done; done"
    sandbox.exec(f"cd /tmp; setsid bash -c '{swap}' > /dev/null 2>&1 &")
    for _ in range(100):
        try:
            content = sandbox.read("/tmp/l", limit=1 << 20)
        except OSError:
            continue
        same("what a moving link gives", content in (b"a\n", sandbox.read("/etc/passwd")), True)


def _sees_changes(sandbox: Sandbox) -> None:
    """diff: every path that was added, changed or removed, with type, mode, digest and link target; nothing else."""
    same("diff of a fresh sandbox", sandbox.diff(), {})
    sandbox.exec("mkdir -m 750 /tmp/d; echo a > /tmp/d/f; chmod 4711 /tmp/d/f; ln -s 'to there' /tmp/l; mkfifo -m 600 /tmp/p")
    sandbox.exec("echo more >> /etc/passwd; chmod 700 /var/tmp; echo same > /tmp/same; cp /tmp/same /tmp/d/same")
    found = sandbox.diff()
    wanted = {
        "/etc/passwd": ("changed", "file"), "/tmp/d": ("added", "dir"), "/tmp/d/f": ("added", "file"),
        "/tmp/d/same": ("added", "file"), "/tmp/l": ("added", "link"), "/tmp/p": ("added", "other"),
        "/tmp/same": ("added", "file"), "/var/tmp": ("changed", "dir"),
    }  # fmt: skip
    same("paths and kinds", _kinds(found), wanted)
    same("order", list(found), sorted(found))
    modes = {path: oct(found[path].mode) for path in ("/tmp/d", "/tmp/d/f", "/tmp/p", "/var/tmp")}
    same("modes", modes, {"/tmp/d": "0o750", "/tmp/d/f": "0o4711", "/tmp/p": "0o600", "/var/tmp": "0o700"})
    same("target of a link", found["/tmp/l"].target, "to there")
    same("digests of equal files are equal", found["/tmp/same"].digest, found["/tmp/d/same"].digest)
    same("digests of others differ", found["/tmp/same"].digest != found["/tmp/d/f"].digest, True)


def _sees_no_change(sandbox: Sandbox) -> None:
    """diff: what was rewritten, moved there and back, or removed and made again as it was, is no change."""
    sandbox.exec("cp -p /etc/passwd /tmp/p; cat /tmp/p > /etc/passwd; touch /etc/passwd; rm /tmp/p")
    sandbox.exec(
        "mv /etc/passwd /etc/moved; mv /etc/moved /etc/passwd; chmod 700 /var; chmod 755 /var; touch /tmp/x; rm /tmp/x"
    )
    same("diff", sandbox.diff(), {})
    sandbox.exec("cp -p /etc/passwd /tmp/p; rm /etc/passwd; mv /tmp/p /etc/passwd")
    same("diff after removing and making again", sandbox.diff(), {})


def _sees_removed_folders(sandbox: Sandbox) -> None:
    """diff: a removed folder counts with all that was in it, also where a new one or a file took its place."""
    below = set(sandbox.exec("find /var").output.split("\n")) - {""}
    sandbox.exec("mode=$(stat -c %a /var); rm -rf /var; mkdir -m $mode /var; echo new > /var/new")
    wanted = dict.fromkeys(below - {"/var"}, "removed") | {"/var/new": "added"}
    same("diff of a folder made again", {path: change.kind for path, change in sandbox.diff().items()}, wanted)
    sandbox.exec("rm -rf /var; echo file > /var")
    found = sandbox.diff()
    same("diff of a folder replaced by a file", {path: change.kind for path, change in found.items()},
          dict.fromkeys(below, "removed") | {"/var": "changed"})  # fmt: skip
    same("type of the file", found["/var"].type, "file")
    sandbox.exec("rm /var")
    same("diff of a removed folder", set(_kinds(sandbox.diff()).values()) <= {("removed", kind) for kind in _TYPES}, True)
    same("paths of a removed folder", set(sandbox.diff()), below)
    sandbox.exec("rm /etc/passwd; mkdir /etc/passwd; touch /etc/passwd/x")
    found = {path: change for path, change in sandbox.diff().items() if path.startswith("/etc")}
    same(
        "diff of a file replaced by a folder",
        _kinds(found),
        {"/etc/passwd": ("changed", "dir"), "/etc/passwd/x": ("added", "file")},
    )


def _sees_any_name(sandbox: Sandbox) -> None:
    """diff: names may hold blanks, newlines, quotes and bytes that are not UTF-8 (as os.fsdecode gives them)."""
    sandbox.exec("cd /tmp; touch -- ' ' $'a\\nb' $'\\xff\\xfe' '\"' '\\'  é '-n'")
    wanted = {os.fsdecode(b"/tmp/" + name) for name in (b" ", b"a\nb", b"\xff\xfe", b'"', b"\\", "é".encode(), b"-n")}
    same("paths", set(sandbox.diff()), wanted)
    same("read of such a name", sandbox.read(os.fsdecode(b"/tmp/\xff\xfe")), b"")


_TYPES = ("file", "dir", "link", "other")


def _kinds(changes: dict[str, Change]) -> dict[str, tuple[str, str]]:
    return {path: (change.kind, change.type) for path, change in changes.items()}


BOTH: list[Clause] = [
    _reads_and_writes,
    _reads_only_files,
    _reads_what_moves,
    _sees_changes,
    _sees_no_change,
    _sees_removed_folders,
    _sees_any_name,
]
