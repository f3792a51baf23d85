"""Templates: trees from folders and tars, setup scripts as layers, and a cache that holds whole
layers or none."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from families import wait_until
from ordinary import error_of_an_ordinary_user

from intercode.errors import DataError, SandboxUnavailable, UsageError
from intercode_sandbox.base import MIB, Limits
from intercode_sandbox.image import write_machine_files
from intercode_sandbox.local import LocalProvider, LocalSandbox
from intercode_sandbox.template import unpack

pytestmark = pytest.mark.slow

BUILDER = """
import sys
from pathlib import Path
from intercode_sandbox.local import LocalProvider
print(LocalProvider().prepare(setup=Path(sys.argv[1])).digest)
"""
UNPACKER = (
    "import sys; from pathlib import Path; from intercode_sandbox.template import unpack; "
    "unpack(Path(sys.argv[1]))"
)
ODD = "a name\nof two lines"


@pytest.fixture
def space() -> Iterator[Path]:
    """A folder that the sandboxes' user may enter, unlike pytest's own."""
    made = Path(tempfile.mkdtemp(prefix="template-"))
    made.chmod(0o755)
    yield made
    subprocess.run(["chmod", "-R", "u+rwX", str(made)], check=True)
    shutil.rmtree(made)


@pytest.fixture
def cache(space: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INTERCODE_CACHE", str(space / "cache"))
    return space / "cache"


@pytest.fixture
def tree(space: Path) -> Path:
    root = space / "tree"
    (root / "data" / "deep" / "__pycache__").mkdir(parents=True)
    (root / "data" / "deep" / "__pycache__" / "tool.pyc").write_bytes(os.fsencode(root))
    (root / "data" / "dev").mkdir()
    (root / "data" / "dev" / "notes").write_text("not a device\n")
    (root / "data" / "run.sh").write_text("echo ran\n")
    (root / "data" / "run.sh").chmod(0o750)
    (root / "data" / ODD).write_bytes(bytes(range(256)))
    (root / "data" / "link").symlink_to("run.sh")
    (root / "data" / "twin").hardlink_to(root / "data" / "run.sh")
    os.utime(root / "data" / "deep", (1e9, 1e9))
    return root


def script(space: Path, text: str) -> Path:
    path = space / "setup.sh"
    path.write_text(text)
    return path


def layers(cache: Path) -> set[str]:
    shelf = cache / "layers"
    return set(os.listdir(shelf)) if shelf.exists() else set()


@pytest.mark.usefixtures("module_cache")
class TestATree:
    @pytest.mark.parametrize("kind", ["folder", "tar", "tar.gz", "tar.xz"])
    def test_is_placed_at_the_root_as_it_was_but_for_what_this_machine_compiled_of_it(
        self, tree: Path, kind: str
    ) -> None:
        source = tree
        if kind != "folder":
            source = tree.with_suffix(f".{kind}")
            shutil.rmtree(tree / "data" / "deep" / "__pycache__")
            os.utime(tree / "data" / "deep", (1e9, 1e9))
            with tarfile.open(source, "w:" + kind.removeprefix("tar").removeprefix(".")) as archive:
                archive.add(tree, ".")
        with LocalSandbox(LocalProvider().prepare(tree=source)) as sandbox:
            assert sandbox.read(f"/data/{ODD}") == bytes(range(256))
            assert sandbox.read("/data/dev/notes") == b"not a device\n"
            shown = sandbox.exec(
                "cd /data; stat -c '%a %h %U' run.sh; readlink link; ./run.sh; "
                "stat -c %Y deep; ls -A . deep"
            )
            listed = f".:\n{ODD}\ndeep\ndev\nlink\nrun.sh\ntwin\n\ndeep:\n"
            assert shown.output == f"750 2 root\nrun.sh\nran\n1000000000\n{listed}"
            assert sandbox.diff() == {}
            sandbox.exec("rm -r /data/deep; echo more >> /data/run.sh")
            kinds = {path: change.kind for path, change in sandbox.diff().items()}
            assert kinds == {"/data/deep": "removed", "/data/run.sh": "changed"}
        assert (tree / "data" / "run.sh").read_text() == "echo ran\n"

    def test_keeps_the_holes_of_its_files_and_so_do_setup_scripts_and_forks(
        self, space: Path
    ) -> None:
        tree = space / "tree"
        tree.mkdir()
        with open(tree / "vast", "wb") as file:
            file.truncate(1 << 28)
            for position in (1, 1 << 27, (1 << 28) - 2):
                file.seek(position)
                file.write(b"x")
        start = LocalProvider().prepare(
            tree=tree, setup=script(space, "truncate -s 512M /made; echo end >> /made")
        )
        with LocalSandbox(start, limits=Limits(disk=64 * MIB)) as sandbox:
            sandbox.exec("truncate -s 200M /own; echo end >> /own")
            with sandbox.fork() as copy:
                lines = copy.exec(
                    "stat -c '%n %s %b' /vast /made /own; tail -qc 4 /vast /made /own | tr '\\0' 0"
                ).output
        sizes = {
            line.split()[0]: tuple(map(int, line.split()[1:])) for line in lines.splitlines()[:3]
        }
        assert {name: size for name, (size, _) in sizes.items()} == {
            "/vast": 1 << 28,
            "/made": (1 << 29) + 4,
            "/own": 209_715_204,
        }
        assert max(blocks for _, blocks in sizes.values()) * 512 < MIB
        assert lines.splitlines()[3:] == ["00x0end", "end"]

    def test_that_will_not_do_is_refused_with_what_is_wrong(self, tree: Path, space: Path) -> None:
        with pytest.raises(UsageError, match="nowhere"):
            LocalProvider().prepare(tree=space / "nowhere")
        broken = space / "broken.tar"
        broken.write_bytes(b"this is no archive\n" * 100)
        with pytest.raises(DataError, match=r"broken\.tar"):
            LocalProvider().prepare(tree=broken)
        (space / "linked" / "lib").mkdir(parents=True)
        with pytest.raises(
            UsageError, match=r"linked has a folder lib, which is a link to usr/lib"
        ):
            LocalProvider().prepare(tree=space / "linked")
        (tree / "usr" / "bin").mkdir(parents=True)
        with pytest.raises(UsageError, match=r"(?s)/usr.*borrowed.*--image"):
            LocalProvider().prepare(tree=tree)
        (tree / "data" / "run.sh").chmod(0)
        said = error_of_an_ordinary_user(lambda: unpack(tree))
        assert said.startswith("UsageError"), said
        assert "run.sh cannot be read" in said


@pytest.mark.usefixtures("module_cache")
class TestASetupScript:
    def test_runs_once_for_equal_text_and_its_changes_are_the_template(
        self, tree: Path, space: Path
    ) -> None:
        changes = (
            "date +%N > /stamp; rm -r /data/deep; chmod 4711 /data/run.sh; "
            "echo new > '/data/b c'; ln -s x /l"
        )
        first = LocalProvider().prepare(tree=tree, setup=script(space, changes))
        again = LocalProvider().prepare(tree=tree, setup=script(space, changes))
        other = LocalProvider().prepare(tree=tree, setup=script(space, f"{changes} # changed"))
        assert again == first
        with LocalSandbox(first) as one, LocalSandbox(again) as two, LocalSandbox(other) as three:
            assert one.read("/stamp") == two.read("/stamp") != three.read("/stamp")
            assert (
                one.exec(
                    "stat -c %a /data/run.sh; ls /data/deep; cat '/data/b c'; readlink /l"
                ).output
                == "4711\nls: cannot access '/data/deep': No such file or directory\nnew\nx\n"
            )
            assert one.diff() == {}

    def test_that_fails_is_an_error_of_the_data_with_its_output_and_reads_nothing_of_this_machine(
        self, space: Path
    ) -> None:
        with pytest.raises(DataError, match=r"(?s)setup\.sh.*status 3.*cannot find the thing"):
            LocalProvider().prepare(setup=script(space, "echo cannot find the thing >&2; exit 3"))
        (space / "secret").write_text("secret")
        with pytest.raises(DataError, match="No such file"):
            LocalProvider().prepare(setup=script(space, f"cat {space}/secret"))


class TestTheCache:
    @pytest.mark.skipif(os.getuid() != 0, reason="an ordinary user reaches what is its own")
    def test_that_the_sandboxes_user_cannot_enter_is_told_with_the_remedy(
        self, space: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (space / "closed").mkdir(mode=0o700)
        monkeypatch.setenv("INTERCODE_CACHE", str(space / "closed" / "cache"))
        with pytest.raises(SandboxUnavailable, match="INTERCODE_CACHE"):
            LocalProvider().prepare()

    def test_that_may_not_be_written_is_told_with_the_remedy_and_gives_what_it_has(
        self, tree: Path, cache: Path
    ) -> None:
        (tree / "data" / "run.sh").chmod(0o644)
        (cache / "layers").mkdir(parents=True)
        (cache / "layers").chmod(0o555)
        said = error_of_an_ordinary_user(lambda: unpack(tree))
        assert said.startswith(
            f"SandboxUnavailable: the cache {cache}/layers cannot be filled (Permission denied)"
        ), said
        assert "INTERCODE_CACHE" in said
        (cache / "layers").chmod(0o755)
        unpack(tree)
        (cache / "layers").chmod(0o555)
        assert error_of_an_ordinary_user(lambda: unpack(tree)) == ""

    def test_is_filled_once_by_two_processes_at_once(self, space: Path, cache: Path) -> None:
        setup = script(space, "sleep 0.5; date +%N > /stamp")
        builders = [build(setup) for _ in range(2)]
        digests = [builder.communicate(timeout=60)[0] for builder in builders]
        assert [builder.returncode for builder in builders] == [0, 0]
        assert digests[0] == digests[1]
        assert {name for name in layers(cache) if name.startswith(".")} == set()

    def test_holds_no_half_layer_after_a_build_was_killed(self, space: Path, cache: Path) -> None:
        LocalProvider().prepare()
        before = layers(cache)
        builder = build(script(space, "echo half > /half; sleep 60"))
        assert wait_until(lambda: layers(cache) - before, 30)
        builder.send_signal(signal.SIGKILL)
        builder.communicate()
        assert all(name.startswith(".") for name in layers(cache) - before)


def build(setup: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", BUILDER, str(setup)], stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("place", ["dev", "proc", "etc"])
def test_a_link_out_of_a_root_file_system_is_never_followed(
    space: Path, cache: Path, place: str
) -> None:
    victim = space / "victim"
    victim.mkdir()
    (victim / "hosts").write_text("theirs")
    before = victim.stat()
    root = space / "root"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "bash").touch()
    (root / place).symlink_to(victim)
    layer = unpack(root)
    write_machine_files(layer / "tree")
    assert (victim.stat().st_uid, victim.stat().st_mtime_ns) == (before.st_uid, before.st_mtime_ns)
    assert (victim / "hosts").read_text() == "theirs"
    assert (layer / "tree" / place).is_symlink() == (place == "etc")


@pytest.mark.parametrize("compression", ["none", "gzip", "bzip2", "xz", "zstd"])
def test_an_archive_that_is_cut_short_is_refused(
    space: Path, cache: Path, compression: str
) -> None:
    """Cut in a header, behind a header, in data, at a member's end and in the blocks of zeros."""
    (space / "full").mkdir()
    (space / "full" / "zeros").write_bytes(bytes(1024))  # looks like the end of an archive
    archive, cut = space / "whole.tar", space / "cut.tar"
    subprocess.run(["tar", "-C", str(space / "full"), "-cf", str(archive), "."], check=True)
    whole = archive.read_bytes()
    places: Iterable[int] = (0, 100, 512, 600, 1024, 1100, 2048, 2500, 2560, 3071)
    if compression != "none":
        command = [compression, "-c", str(archive)]
        whole = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
        places = (len(whole) // 2, len(whole) - 1)
    cut.write_bytes(whole)
    assert (unpack(cut) / "tree" / "zeros").read_bytes() == bytes(1024)
    for place in places:
        cut.write_bytes(whole[:place])
        with pytest.raises(DataError, match=r"cut\.tar: .*cut short"):
            unpack(cut)
