"""An image of docker's becomes one of the cache, with what it says of its sessions; faults are
named."""

from __future__ import annotations

import subprocess
from pathlib import Path

import docker_images
import pytest

from intercode.errors import UsageError
from intercode_sandbox.base import provider
from intercode_sandbox.docker.images import DockerImage, export_image, export_tar
from intercode_sandbox.identity import identity
from intercode_sandbox.image import image_path

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.usefixtures("module_cache")]
SHOWN = 'pwd; echo "$GREETING|$PATH"; stat -c "%A %U %n" /srv/desk/*; cat /etc/hostname'


@pytest.fixture(scope="module")
def furnished(
    image: DockerImage, module_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """An image with ENV, WORKDIR, another owner, a setuid program and a file that others may not
    read; it is exported."""
    folder = tmp_path_factory.mktemp("furnished")
    lines = [
        f"FROM {image.name}",
        'ENV GREETING="hello there" PATH=/srv/bin:/usr/bin:/bin',
        "WORKDIR /srv/desk",
    ]
    lines += [
        "RUN cp /bin/true own && chmod 4755 own && echo x > secret && chmod 600 secret && "
        "chown 33 secret"
    ]
    (folder / "Dockerfile").write_text("\n".join(lines) + "\n")
    tag = f"{docker_images.SHELF}:furnished"
    subprocess.run(
        ["docker", "build", "--quiet", "--tag", tag, str(folder)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    export_image(tag)
    return tag


@pytest.mark.parametrize("backend", ["docker", "local"])
def test_variables_and_the_folder_of_work_come_along(furnished: str, backend: str) -> None:
    kind = provider(backend)
    start = kind.prepare(image=furnished if backend == "docker" else "intercode-test-furnished")
    owner = "root" if backend == "local" else "www-data"
    desk = image_path("intercode-test-furnished") / "tree/srv/desk"
    assert {file.lstat().st_uid for file in desk.iterdir()} == {identity().uid}
    with kind.sandbox(start) as sandbox:
        assert sandbox.exec(SHOWN).output.splitlines() == [
            *("/srv/desk", "hello there|/srv/bin:/usr/bin:/bin"),
            *("-rwsr-xr-x root /srv/desk/own", f"-rw------- {owner} /srv/desk/secret", "intercode"),
        ]
        sandbox.exec("cd /; touch /srv/desk/new; unset GREETING")
        sandbox.reset()
        assert (
            sandbox.exec("pwd; echo $GREETING; ls").output
            == "/srv/desk\nhello there\nown\nsecret\n"
        )


def test_a_tar_is_a_root_file_system_for_elsewhere(furnished: str, tmp_path: Path) -> None:
    export_tar(furnished, tmp_path / "root.tar")
    local = provider("local")
    with local.sandbox(local.prepare(image=str(tmp_path / "root.tar"))) as sandbox:
        assert sandbox.exec("pwd; cat /srv/desk/secret").output == "/\nx\n"


def test_faults_are_the_callers_and_leave_no_image(furnished: str, tmp_path: Path) -> None:
    for reference, name, words in [
        (furnished, None, "--force"),
        (furnished, "No Name", "cannot name an image"),
        ("test-nosuch", "test-none", "docker has no image 'test-nosuch'"),
        (docker_images.bare(), "test-none", "has no bash"),
    ]:
        with pytest.raises(UsageError, match=words):
            export_image(reference, name)
    assert not image_path("test-none").exists()
    with pytest.raises(UsageError, match=r"nosuch/root.tar cannot be written"):
        export_tar(furnished, tmp_path / "nosuch/root.tar")
