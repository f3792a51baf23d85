"""A tiny image is built once, from the real mirror, in a cache of its own; sandboxes run in it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from intercode.errors import SandboxError, SandboxUnavailable, UsageError
from intercode.sandbox.build import make_template
from intercode.sandbox.identity import identity
from intercode.sandbox.image import build_image, image_path
from intercode.sandbox.local import LocalSandbox

needs_mmdebstrap = pytest.mark.skipif(shutil.which("mmdebstrap") is None, reason="mmdebstrap is not installed")
needs_a_way_to_be_root = pytest.mark.skipif(
    os.getuid() != 0 and shutil.which("newuidmap") is None and shutil.which("fakechroot") is None,
    reason="neither uidmap nor fakechroot is installed, by which mmdebstrap makes a root as an ordinary user",
)


@pytest.fixture(scope="module")
def tiny(module_cache: Path) -> str:
    """An image with `tree` in it."""
    if shutil.which("mmdebstrap") is None:
        pytest.skip("mmdebstrap is not installed")
    said: list[str] = []
    try:
        build_image("tiny", ["tree"], progress=said.append)
    except SandboxError as error:
        pytest.skip(f"no image can be built here: {error}")
    assert any("downloading" in line for line in said)
    return "tiny"


def run(image: str, *actions: str) -> list[str]:
    with LocalSandbox(make_template(image=image)) as sandbox:
        return [sandbox.exec(action).output for action in actions]


@pytest.mark.slow
class TestABuiltImage:
    def test_has_the_packages_that_were_asked_for(self, tiny: str) -> None:
        assert run(tiny, "mkdir -p a/b; tree --noreport a") == ["a\n└── b\n"]

    def test_has_nothing_of_the_machine_that_built_it(self, tiny: str) -> None:
        assert run(tiny, "cat /etc/resolv.conf /etc/machine-id", "cat /etc/hostname") == ["", "intercode\n"]

    def test_holds_no_package_lists_or_caches(self, tiny: str) -> None:
        assert run(tiny, "find /var/lib/apt/lists /var/cache/apt -type f -size +0") == [""]

    def test_belongs_to_root_inside_and_to_the_sandboxes_user_outside(self, tiny: str) -> None:
        assert run(tiny, "find / -xdev ! -user root ! -path '/proc*' ! -path '/dev*'") == [""]
        assert {path.lstat().st_uid for path in image_path(tiny).rglob("bash")} == {identity().uid}

    def test_is_wholly_writable(self, tiny: str) -> None:
        assert run(tiny, "rm -r /usr/share/perl5; ls -d /usr/share/perl5 2>&1; echo x > /usr/bin/new && cat /usr/bin/new") == [
            "ls: cannot access '/usr/share/perl5': No such file or directory\nx\n"
        ]

    def test_has_no_file_that_is_younger_than_its_packages(self, tiny: str) -> None:
        assert run(tiny, "find /etc /usr /var /root /home -newermt 2023-11-15") == [""]

    def test_leaves_nothing_beside_it(self, tiny: str) -> None:
        assert [path.name for path in image_path(tiny).parent.iterdir()] == ["tiny"]

    def test_a_name_that_is_taken_is_refused(self, tiny: str) -> None:
        with pytest.raises(UsageError, match=r"there is an image named 'tiny' already.*--force"):
            build_image("tiny", ["tree"])

    def test_a_forced_build_that_fails_keeps_the_old_image(self, tiny: str) -> None:
        with pytest.raises(UsageError, match=r"(?s)no such package.*no-such-package-at-all"):
            build_image("tiny", ["tree", "no-such-package-at-all"], force=True)
        assert run(tiny, "command -v tree") == ["/usr/bin/tree\n"]
        self.test_leaves_nothing_beside_it(tiny)

    def test_a_forced_build_replaces_the_image_and_its_digest(self, tiny: str) -> None:
        before = make_template(image="tiny").digest
        build_image("tiny", ["bc"], force=True)
        assert run(tiny, "command -v tree; echo 2^64 | bc") == ["18446744073709551616\n"]
        assert make_template(image="tiny").digest != before
        self.test_leaves_nothing_beside_it(tiny)


@pytest.mark.parametrize("name", ["", "Tiny", "a/b", "../up", ".hidden", "a.json", "a b", "x" * 65])
def test_a_name_that_is_no_plain_word_is_refused(empty_cache: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot name an image"):
        build_image(name, ["tree"])


@pytest.mark.parametrize("package", ["tree,less", "--simulate", "Tree", "a b", ""])
def test_what_is_no_package_name_is_refused(empty_cache: Path, package: str) -> None:
    with pytest.raises(UsageError, match="is no package name"):
        build_image("tiny", [package])


def test_without_mmdebstrap_the_apt_line_is_named(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(empty_cache))
    with pytest.raises(SandboxUnavailable, match="apt-get install mmdebstrap"):
        build_image("tiny", ["tree"])


@pytest.mark.slow
@needs_mmdebstrap
@needs_a_way_to_be_root
def test_a_mirror_out_of_reach_is_shown_in_its_own_words(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with pytest.raises(SandboxError, match=r"(?s)are the network .*refused"):
        build_image("tiny", ["tree"])
    assert list((empty_cache / "images").iterdir()) == []


@pytest.mark.slow
@needs_mmdebstrap
def test_an_interrupted_build_leaves_nothing(empty_cache: Path, tiny: str) -> None:
    build = "build_image('tiny', ['tree'], progress=lambda line: print(line, flush=True))"
    code = f"from intercode.sandbox.image import build_image; {build}"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        assert any("extracting" in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
    assert process.returncode == -signal.SIGINT
    assert list((empty_cache / "images").iterdir()) == []
