"""An image of docker's, flattened into the cache: from then on `--image NAME` works without docker.

    docker export ── tar ──► pipe ──► unpacked as the sandboxes' user ──► ROOT/images/NAME, ENV and WORKDIR beside the files

What is left out: owners (inside, all belongs to root), devices, the entry point and the user, which sandboxes do not use.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

from intercode.errors import UsageError
from intercode.sandbox import image as images
from intercode.sandbox import template
from intercode.sandbox.docker.images import exported, inspect

_NO_NAME = re.compile(r"[^a-z0-9_-]+")


def export_image(reference: str, name: str | None = None, *, force: bool = False) -> Path:
    """Keep docker's image `reference` as `name` (by default its own, less registry and characters that a name cannot have).

    Raises `UsageError` for an image that docker does not have, one without bash, and a name that is bad or taken;
    `SandboxUnavailable` where docker does not answer.
    """
    found = inspect(reference, reference)
    name = name or _NO_NAME.sub("-", reference.rpartition("/")[2].removesuffix(":latest").lower())

    def fill(made: Path) -> None:
        root = template.new_tree(made)
        with exported(found) as archive:
            template.untar(Path(found.name), root, archive)
        if not any(os.path.lexists(root / place) for place in ("bin/bash", "usr/bin/bash")):
            raise UsageError(
                f"the image {found.name!r} has no bash, which the local sandbox needs: use it with --sandbox docker"
            )
        images.name_machine(root)
        template.keep_settings(made, dict(found.environment), found.cwd)
        os.utime(made)

    return images.keep_image(name, fill, force=force)


def export_tar(reference: str, target: Path) -> None:
    """The same files as a tar, for `--image TAR` elsewhere; it has no place for ENV and WORKDIR. Complete, or not there."""
    part = target.with_name(f"{target.name}.part")
    found = inspect(reference, reference)
    try:
        with open(part, "wb") as file, exported(found) as archive:
            shutil.copyfileobj(archive, file, 1 << 20)
        part.replace(target)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}") from None
    finally:
        with suppress(OSError):
            part.unlink()
