"""What System V objects hold, against what /proc/sysvipc tells of each, and at a price that does not grow with their number."""

from __future__ import annotations

import json
import subprocess
import sys

# in namespaces of its own: sums, what /proc tells, and seconds for both, before and after each of three kinds is made
_SCRIPT = """
import ctypes, json, os, sys, time
from intercode.sandbox.guest import kernel
kernel.unshare(kernel.NEWUSER | kernel.NEWIPC)
libc, L = ctypes.CDLL(None, use_errno=True), ctypes.c_long
libc.shmat.restype = ctypes.c_void_p
columns = {"shm": [(14, 1), (15, 1)], "msg": [(3, 1), (4, 64)], "sem": [(3, 64)]}
def told():
    rows = {kind: [line.split() for line in open("/proc/sysvipc/" + kind).readlines()[1:]] for kind in columns}
    return sum(1024 + sum(int(row[at]) * size for at, size in columns[kind]) for kind in columns for row in rows[kind])
def look():
    times, seen = [], []
    for sums in (kernel.objects_size, told):
        start = time.perf_counter(); seen.append(sums()); times.append(time.perf_counter() - start)
    print(json.dumps([*seen, *times]))
look()
number = libc.shmget(0, L(3 << 20), 0o1600)
ctypes.memset(libc.shmat(number, None, 0), 1, 1 << 20)
look()
for count in (7, 32000): assert libc.semget(0, count, 0o1600) >= 0
look()
for each in range(3000):
    queue = libc.msgget(0, 0o1600)
    assert queue >= 0 and libc.msgsnd(queue, ctypes.create_string_buffer(b"\\1" + bytes(7) + b"x" * 100), L(100), 0o4000) == 0
look()
"""


def test_the_kernels_sums_are_those_of_each_object_and_cost_no_more_for_thousands() -> None:
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    looks = [json.loads(line) for line in done.stdout.splitlines()]
    assert [look[0] for look in looks] == [look[1] for look in looks]
    sizes = [look[0] for look in looks]
    assert sizes == [0, 1024 + (1 << 20), sizes[1] + 2048 + 32007 * 64, sizes[2] + 3000 * (1024 + 64 + 100)]
    assert looks[-1][2] < looks[-1][3] / 10
