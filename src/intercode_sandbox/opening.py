"""Open a sandbox without an environment or tasks: `intercode.sandbox(…)`.

with intercode.sandbox() as box:
    done = box.exec(["python3", "-c", "print(input())"], stdin=b"hello")
    done.exit_code, done.stdout, done.stderr
    box.exec("cd /tmp; x=1").output  # a text is an action of the session, whose state stays
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from intercode_sandbox import base
from intercode_sandbox.arguments import Word, text, variables
from intercode_sandbox.base import Limits, Network
from intercode_sandbox.client import GuestSandbox
from intercode_sandbox.errors import UsageError
from intercode_sandbox.host import ENVIRONMENT
from intercode_sandbox.pod import usual_provider_name


def open_sandbox(
    image: Word | None = None,
    *,
    provider: Literal["local", "docker", "pod"] | None = None,
    tree: Word | None = None,
    setup: Word | None = None,
    limits: Limits | None = None,
    environment: Mapping[str, Word] | None = None,
    cwd: Word | None = None,
    network: Network = "none",
    root: bool = False,
) -> GuestSandbox:
    """Open a sandbox. Close it, or use it in a `with` statement.

    Args:
        image: as for `--image`: a built image, a root file system, a Dockerfile, or for docker an
            image's name; by default this machine's /usr.
        provider: `local`, `docker` or `pod`; by default what `eval` uses here.
        tree: a folder or tar to put at /.
        setup: a Bash script that runs once, after `tree` is in place.
        environment: variables besides the image's.
        cwd: the folder where commands begin and relative paths lead to, by default the image's.
        network: "host" shares this machine's network (docs/security.md lists what that opens).
        root: let programs install packages, give files away and become other users; Docker's
            always may.
    """
    if network not in get_args(Network):
        raise UsageError(f"network={network!r}: it is one of {', '.join(get_args(Network))}")
    source = base.provider(provider or usual_provider_name())
    origin: dict[str, Any] = {"image": text("image", image)} if image else {}
    if tree:
        origin["tree"] = Path(text("tree", tree))
    if setup:
        origin["setup"] = Path(text("setup", setup))
    start = source.prepare(**origin)
    options: dict[str, Any] = {"limits": limits}
    if cwd:
        options["cwd"] = text("cwd", cwd)
    if network != "none":
        options["network"] = network
    if root:
        options["root"] = True
    if environment:
        usual = dict(getattr(start, "environment", ()))
        options["environment"] = {**ENVIRONMENT, **usual, **variables(environment)}
    sandbox = source.sandbox(start, **options)
    assert isinstance(sandbox, GuestSandbox)
    return sandbox
