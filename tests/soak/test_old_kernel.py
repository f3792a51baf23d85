"""Sandboxes on an older kernel, which QEMU emulates: minutes on an idle machine, an hour on a busy
one."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "old_kernel"
PROGRAMS = ("qemu-system-x86_64", "mmdebstrap", "cpio", "busybox", "mkfs.ext4")


@pytest.mark.soak
def test_linux_6_1_plays_as_newer_kernels_do() -> None:
    if os.getuid() != 0:
        pytest.skip("only root can make the disk")
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    done = subprocess.run([SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout[-8000:]
    assert done.stdout.count("golds earn 1, and doing nothing 0 []") == 2 * 5  # users, sets
