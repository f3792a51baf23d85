"""An image of docker's becomes one of the cache, with what it says of its sessions; faults are named."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker_images
import pytest

from intercode.errors import SandboxUnavailable, UsageError
from intercode.sandbox.build import make_start, open_sandbox
from intercode.sandbox.docker.export import export_image, export_tar
from intercode.sandbox.docker.images import DockerImage
from intercode.sandbox.identity import identity
from intercode.sandbox.image import image_path

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("module_cache")]


@contextmanager
def file_size(most: int) -> Iterator[None]:
    """Python ignores SIGXFSZ, so that writing beyond is an error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


SHOWN = 'pwd; echo "$GREETING|$HOME|$PATH"; stat -c "%A %U %n" /srv/desk/*; cat /etc/hostname'


@pytest.fixture(scope="module")
def furnished(image: DockerImage, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An image with ENV, WORKDIR, another owner, a setuid program and a file that others may not read."""
    folder = tmp_path_factory.mktemp("furnished")
    lines = [f"FROM {image.name}", 'ENV GREETING="hello there" PATH=/srv/bin:/usr/bin:/bin', "WORKDIR /srv/desk"]
    lines += ["RUN cp /bin/true own && chmod 4755 own && echo x > secret && chmod 600 secret && chown 33 secret"]
    (folder / "Dockerfile").write_text("\n".join(lines) + "\n")
    tag = f"{docker_images.SHELF}:furnished"
    subprocess.run(["docker", "build", "--quiet", "--tag", tag, str(folder)], check=True, stdout=subprocess.DEVNULL)
    return tag


@pytest.mark.parametrize("backend", ["docker", "local"])
def test_variables_and_the_folder_of_work_come_along(furnished: str, backend: str) -> None:
    name = "test-furnished"
    export_image(furnished, name, force=True)
    start = make_start(backend, image=furnished if backend == "docker" else name)  # type: ignore[arg-type]
    with open_sandbox(start, session="persistent", limits=None, environment=None) as sandbox:
        first, _, *files, host = sandbox.exec(SHOWN).output.splitlines()
        assert sandbox.exec("echo $GREETING $PATH").output == "hello there /srv/bin:/usr/bin:/bin\n"
        sandbox.exec("cd /; touch /srv/desk/new; unset GREETING")
        sandbox.reset()
        assert sandbox.exec("pwd; echo $GREETING; ls").output == "/srv/desk\nhello there\nown\nsecret\n"
    owner = "root" if backend == "local" else "www-data"
    assert (first, host) == ("/srv/desk", "intercode")
    assert files[1] == f"-rw------- {owner} /srv/desk/secret"
    assert files[0].startswith("-rwsr-xr-x ")


def test_its_files_belong_to_the_sandboxes_user(furnished: str) -> None:
    path = export_image(furnished, "test-furnished", force=True)
    assert {file.lstat().st_uid for file in (path / "tree/srv/desk").iterdir()} == {identity().uid}


def test_a_name_is_made_from_the_images_own(furnished: str) -> None:
    assert export_image(furnished, force=True).name == "intercode-test-furnished"


def test_a_tar_is_a_root_file_system_for_elsewhere(furnished: str, tmp_path: Path) -> None:
    export_tar(furnished, tmp_path / "root.tar")
    start = make_start("local", image=str(tmp_path / "root.tar"))
    with open_sandbox(start, session="persistent", limits=None, environment=None) as sandbox:
        assert sandbox.exec("pwd; cat /srv/desk/secret").output == "/\nx\n"


@pytest.mark.parametrize("place", ["nosuch/root.tar", "file/root.tar", "small/root.tar"])
def test_a_tar_that_cannot_be_written_is_the_callers_fault_and_leaves_nothing(
    furnished: str, tmp_path: Path, place: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "small").mkdir()
    with file_size(1 << 20), pytest.raises(UsageError, match=f"{place} cannot be written"):
        export_tar(furnished, tmp_path / place)
    assert list((tmp_path / "small").iterdir()) == []


def test_faults_are_the_callers_and_leave_no_image(furnished: str, monkeypatch: pytest.MonkeyPatch) -> None:
    export_image(furnished, "test-taken", force=True)
    for reference, name, words in [
        (furnished, "test-taken", "--force"),
        (furnished, "No Name", "cannot name an image"),
        ("test-nosuch", "test-none", "docker has no image 'test-nosuch'"),
        (docker_images.bare(), "test-none", "has no bash"),
    ]:
        with pytest.raises(UsageError, match=words):
            export_image(reference, name)
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    with pytest.raises(SandboxUnavailable, match="daemon is down"):
        export_image(furnished, "test-none")
    assert not image_path("test-none").exists()
