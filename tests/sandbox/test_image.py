"""An image that was built from the real mirror, and builds that do not come to their end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from base_image import base_image

from intercode.errors import SandboxUnavailable, UsageError
from intercode_sandbox.identity import identity
from intercode_sandbox.image import build_image, image_path
from intercode_sandbox.local import LocalProvider, LocalSandbox

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.rest]


def need_mmdebstrap() -> None:
    if shutil.which("mmdebstrap") is None:
        pytest.skip("mmdebstrap is not installed")
    if (
        os.getuid() != 0
        and shutil.which("newuidmap") is None
        and shutil.which("fakechroot") is None
    ):
        pytest.skip(
            "neither uidmap nor fakechroot is installed, "
            "by which mmdebstrap makes a root as an ordinary user"
        )


def test_a_built_image_has_its_packages_and_nothing_else_of_who_built_it() -> None:
    name = base_image()
    with LocalSandbox(LocalProvider().prepare(image=name)) as sandbox:
        for action, printed in [
            ("python3 -B -c 'import pytest; print(pytest.__name__)'", "pytest\n"),
            ("cat /etc/resolv.conf /etc/machine-id /etc/hostname", "intercode\n"),
            ("find /var/lib/apt/lists /var/cache/apt -type f -size +0", ""),
            ("find / -xdev ! -user root ! -path '/proc*' ! -path '/dev*'", ""),
            ("find /etc /usr /var /root /home -newermt 2023-11-15", ""),
            (
                (
                    "rm -r /usr/share/perl5; ls -d /usr/share/perl5 2> /dev/null; "
                    "echo x > /usr/bin/new; cat /usr/bin/new"
                ),
                "x\n",
            ),
        ]:
            assert sandbox.exec(action).output == printed, action
    assert {path.lstat().st_uid for path in image_path(name).rglob("bash")} == {identity().uid}


def test_a_build_that_is_interrupted_keeps_the_old_image_and_leaves_nothing(
    empty_cache: Path,
) -> None:
    need_mmdebstrap()
    tiny = image_path("tiny")
    (tiny / "tree" / "usr").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"there is an image named 'tiny' already.*--force"):
        build_image("tiny", ["tree"])
    build = "build_image('tiny', ['bc'], progress=lambda line: print(line, flush=True), force=True)"
    code = f"from intercode_sandbox.image import build_image; {build}"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        assert any("extracting" in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
    assert process.returncode == -signal.SIGINT
    assert [path.name for path in tiny.parent.iterdir()] == ["tiny"]
    assert list(tiny.rglob("*")) == [tiny / "tree", tiny / "tree" / "usr"]


def test_names_that_cannot_be_are_refused_and_what_is_missing_is_named(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("", "Tiny", "a/b", "../up", ".hidden", "a.json", "x" * 65):
        with pytest.raises(UsageError, match="cannot name an image"):
            build_image(name, ["tree"])
    for package in ("tree,less", "--simulate", "Tree", ""):
        with pytest.raises(UsageError, match="neither a package name"):
            build_image("tiny", [package])
    monkeypatch.setenv("PATH", str(empty_cache))
    with pytest.raises(SandboxUnavailable, match="apt-get install mmdebstrap"):
        build_image("tiny", ["tree"])
