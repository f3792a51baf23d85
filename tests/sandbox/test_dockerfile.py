"""Dockerfiles for local sandboxes: by docker and by buildah, with an image in place of FROM."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from base_image import base_image, require_builder

from intercode.errors import UsageError
from intercode_sandbox.local import LocalProvider

pytestmark = [pytest.mark.slow, pytest.mark.alone]

DOCKERFILE = """
FROM debian:bookworm-slim AS letters
RUN mkdir /made && echo "$(cat /proc/self/uid_map | tr -s ' ')" > /made/map && ls /proc > /made/proc
FROM --platform=linux/amd64 nowhere.invalid/team/base:1
ENV BUILDER={builder} TWO="two words"
WORKDIR /app
COPY --from=letters /made /app/made
COPY dev/note.txt .
RUN printf 'SELECT 1\\n\\
FROM note' > query && useradd -m ada && chown ada note.txt
"""


@pytest.fixture(params=["docker", "buildah"])
def builder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name: str = request.param
    require_builder(name, monkeypatch)
    return name


def provider() -> LocalProvider:
    made = LocalProvider()
    made.stand_in = base_image()
    return made


def test_it_is_built_once_and_keeps_its_variables_and_folder(builder: str, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(DOCKERFILE.format(builder=builder))
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "note.txt").write_text("a note\n")
    images = provider()
    start = images.prepare(image=str(tmp_path))
    assert images.prepare(image=str(tmp_path / "Dockerfile")).digest == start.digest
    with images.sandbox(start) as sandbox:
        assert sandbox.exec('pwd; echo "$BUILDER, $TWO"; cat note.txt query').output == (
            f"/app\n{builder}, two words\na note\nSELECT 1\nFROM note"
        )
        ids = sandbox.exec("cat made/map").output.split("\n")[0].split()
        processes = [
            name for name in sandbox.exec("cat made/proc").output.split() if name.isdigit()
        ]
    if builder == "buildah":  # an ordinary user's ids, and no process of this machine
        assert ids[1] != "0"
        assert len(processes) < 20


def test_a_failing_build_says_its_last_lines(builder: str, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(
        f"FROM debian:bookworm-slim\nRUN echo {builder} lacks a part >&2; exit 3\n"
    )
    images, begun = provider(), time.monotonic()
    with pytest.raises(UsageError, match=rf"(?s)it does not build.*{builder} lacks a part"):
        images.prepare(image=str(tmp_path))
    seconds, begun = time.monotonic() - begun, time.monotonic()
    for _ in range(20):  # it is not tried again
        with pytest.raises(UsageError, match=f"{builder} lacks a part"):
            images.prepare(image=str(tmp_path))
    assert (time.monotonic() - begun) / 20 < seconds / 2


def test_an_image_that_was_built_here_is_begun_from(builder: str, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {base_image()}\nRUN echo {builder} > /by\n")
    images = LocalProvider()
    with images.sandbox(images.prepare(image=str(tmp_path))) as sandbox:
        assert sandbox.exec("cat /by; python3 -c 'print(1)'").output == f"{builder}\n1\n"
