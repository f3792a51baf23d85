"""Build a Dockerfile for local sandboxes: by docker where its daemon answers, else by buildah.

    Dockerfile ──► docker build     ── docker export ──┐
               └─► buildah build    ── --output tar ───┴─► ROOT/layers/KEY, with ENV and WORKDIR

A build may use the network, as `docker build` does, and the folder of the Dockerfile is its
context. KEY is a digest of that folder and of the stand-in, an image of this package that is used
for a FROM. buildah runs as the sandboxes' user in new namespaces of users, mounts and processes,
with chroot isolation: a stranger's Dockerfile cannot write this machine's files, but it can reach
the network, loopback too. buildah keeps the images that it has pulled in ROOT/buildah. It shows the
build this machine's proxy variables, and its certificates and indexes for pip; none of them stays
in the image. Left out are file owners, entry point and user.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from configparser import RawConfigParser
from math import inf
from pathlib import Path

from intercode_sandbox import cache, template
from intercode_sandbox import image as local_images
from intercode_sandbox.docker import images
from intercode_sandbox.docker.daemon import docker
from intercode_sandbox.errors import NO_BUILD, SandboxUnavailable, UsageError
from intercode_sandbox.identity import identity

# Waits in a new user namespace until its ids are mapped, then becomes a program with its own
# processes, which ends with this process.
_ENTER = (
    "echo; read -r _ || exit; exec setpriv --pdeathsig KILL unshare --mount --pid --fork "
    '--kill-child --mount-proc "$@"'
)
_STEP = re.compile(r"(?:\[\d+/\d+\] )?STEP ")
_IDS = 65_536
# Where root maps the ids of a build but 0 to; nothing on the machine should belong to them.
_FIRST_ID = 1_000_000
# Seconds in which a Dockerfile that did not build is not tried again.
_REMEMBERED = 600.0
# When and why a Dockerfile did not build, by the key of its layer.
_failures: dict[str, tuple[float, str]] = {}
_PIP = "/etc/xdg/pip"
_PIP_SETTINGS = ("cert", "extra-index-url", "index-url", "proxy", "timeout", "trusted-host")
_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy")


def find_dockerfile(image: str | None) -> Path | None:
    """Return the Dockerfile that a value of `--image` is or contains, if any."""
    if image is None or ("/" not in image and local_images.image_path(image).is_dir()):
        return None
    path = Path(image)
    if (path / "Dockerfile").is_file():
        return path / "Dockerfile"
    return path if "dockerfile" in path.name.lower() and path.is_file() else None


def build_dockerfile(dockerfile: Path, stand_in: template.Template | None) -> template.Template:
    """Return the template with the files that a Dockerfile makes, built if it is not in the cache.

    Raises `UsageError`, with the last lines of the build, if the Dockerfile does not build, and
    `SandboxUnavailable` if this machine has nothing that builds it.
    """
    bases = _bases(dockerfile, stand_in)
    context = template.folder_digest(dockerfile.parent, times=False)
    digests = [f"{name}={base.digest}" for name, base in bases.items()]
    key = template.hash_of("dockerfile", dockerfile.name, context, *digests)

    def fill(layer: Path) -> None:
        when, why = _failures.get(key, (-inf, ""))
        if time.monotonic() - when < _REMEMBERED:
            raise UsageError(why)
        try:
            if has_docker():
                tags = {name: images.import_tree(base) for name, base in bases.items()}
                images.keep_files(images.make_image(str(dockerfile), bases=tags), layer)
            else:
                _Buildah(layer.parent).build(dockerfile.resolve(), bases, layer)
        except UsageError as error:
            _failures[key] = time.monotonic(), str(error)
            raise

    return template.of_layer(cache.folder("layers", key, fill))


def _bases(dockerfile: Path, stand_in: template.Template | None) -> dict[str, template.Template]:
    """Return what stands for the images that a Dockerfile begins from: those that were built or
    kept here, and `stand_in` for others."""
    bases = {}
    for name in images.from_names(dockerfile):
        path = local_images.image_path(local_images.own_name(name))
        if "/" not in name and path.is_dir():
            bases[name] = template.of_layer(path)
        elif stand_in:
            bases[name] = stand_in
    return bases


def has_docker() -> bool:
    """Return whether a docker daemon answers."""
    try:
        docker("version")
    except (SandboxUnavailable, UsageError):
        return False
    return True


class _Buildah:
    """buildah, with its files in ROOT/buildah, and those of one build in `work`."""

    def __init__(self, work: Path) -> None:
        program = shutil.which("buildah")
        needed = ["unshare", "setpriv"]
        if not identity().other:
            needed += ["newuidmap", "newgidmap"]
        if program is None or not all(map(shutil.which, needed)):
            raise SandboxUnavailable(
                "building a Dockerfile needs a docker daemon or buildah, and there is neither; "
                "run: apt-get install buildah uidmap util-linux"
            )
        self._work = work
        store = cache.root() / "buildah"
        store.mkdir(exist_ok=True)
        identity().own(store)
        proxies = {*_PROXIES, *map(str.upper, _PROXIES)}
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(work)}
        for name, value in os.environ.items():
            if name in proxies:
                self._environment[name] = value
        places = ["--root", str(store), "--runroot", str(work / "run")]
        places += ["--short-name-alias-conf", str(store / "names.conf")]
        for driver in ("overlay", "vfs"):  # the former is faster, but not possible on overlays
            self._command = [program, *places, "--storage-driver", driver]
            if self._run("images")[0] == 0:
                break

    def build(self, dockerfile: Path, bases: Mapping[str, template.Template], layer: Path) -> None:
        archive = self._work / "root.tar"
        id_file = self._work / "id"
        pip = self._work / "pip"
        context = self._work / "context"
        for folder in (pip, context):
            folder.mkdir()
            identity().own(folder)
        _write_pip_settings(pip)
        # the user of the build may not be able to enter the folder itself
        pack = ["tar", "-C", str(dockerfile.parent), "-c", "."]
        with subprocess.Popen(pack, stdout=subprocess.PIPE) as packed:
            unpack = ["tar", "-C", str(context), "-xpo", "-f", "-"]
            subprocess.run(unpack, stdin=packed.stdout, check=True, **identity().popen())
        options = ["--isolation", "chroot", "--volume", f"{pip}:{_PIP}:ro"]
        for name, base in bases.items():
            options.append(f"--build-context={name}=container-image://{self._import(base)}")
        options += ["--iidfile", str(id_file), "--output", f"type=tar,dest={archive}"]
        words = ["build", *options, "-f", str(context / dockerfile.name), str(context)]
        status, log = self._run(*words, progress=_print_step)
        if status:
            raise UsageError(
                f"{dockerfile}: {NO_BUILD}; buildah's last lines:\n{images.last_lines(log)}"
            )
        image = id_file.read_text().strip()
        config = json.loads(self._must("inspect", "--type", "image", image))["OCIv1"]["config"]
        with open(archive, "rb") as file:
            name = str(dockerfile)
            local_images.fill_layer(layer, file, name, template.settings_of(config))
        self._must("rmi", "--force", image)

    def _import(self, base: template.Template) -> str:
        """Return buildah's name for a local template of one layer."""
        name = f"localhost/intercode/made:{base.digest}"
        if self._run("inspect", "--type", "image", name)[0] == 0:
            return name
        container = self._must("from", "--quiet", "scratch")
        self._must("add", "--quiet", container, f"{base.layers[0] / template.TREE}/", "/")
        variables = [f"--env={key}={value}" for key, value in base.environment.items()]
        command = f"--cmd={json.dumps(base.command)}"
        self._must("config", command, f"--workingdir={base.cwd}", *variables, container)
        self._must("commit", "--quiet", "--rm", container, name)
        return name

    def _must(self, *words: str) -> str:
        status, output = self._run(*words)
        if status:
            raise SandboxUnavailable(f"buildah {words[0]} failed: {output[-600:]}")
        return output

    def _run(self, *words: str, progress: images.Progress | None = None) -> tuple[int, str]:
        """Return the status and the output of a command of buildah, in a new user namespace."""
        enter = ["unshare", "--user", "sh", "-c", _ENTER, "sh", *self._command, *words]
        with subprocess.Popen(
            enter,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd="/",
            env=self._environment,
            **identity().popen(),
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdout.readline()
            _map_ids(process.pid)
            process.stdin.write("\n")
            process.stdin.close()
            return images.follow(process, progress, images.BUILD_SECONDS)


def _print_step(line: str) -> None:
    if _STEP.match(line):
        print(line, file=sys.stderr)


def _map_ids(pid: int) -> None:
    """Map all ids of a new user namespace: 0 to the sandboxes' user, others to ids of nobody.

    Raises `SandboxUnavailable` if this user has no subordinate ids.
    """
    user = identity()
    for kind, id in (("uid", user.uid), ("gid", user.gid)):
        ranges: Sequence[str] = ("0", str(id), "1", "1", str(_FIRST_ID), str(_IDS - 1))
        try:
            if user.other:
                Path(f"/proc/{pid}/{kind}_map").write_text(
                    f"{' '.join(ranges[:3])}\n{' '.join(ranges[3:])}\n"
                )
                continue
            ranges = (*ranges[:3], "1", *_subordinate(f"/etc/sub{kind}"))
            subprocess.run([f"new{kind}map", str(pid), *ranges], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise SandboxUnavailable(
                "buildah needs a range of ids, which this user does not have here; run: "
                "usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER"
            ) from error


def _subordinate(file: str) -> tuple[str, str]:
    """Return the first of the caller's subordinate ids, and how many there are."""
    names = {pwd.getpwuid(os.getuid()).pw_name, str(os.getuid())}
    for line in Path(file).read_text().splitlines():
        name, *numbers = line.strip().split(":")
        if name in names:
            first, count = numbers
            return first, str(min(int(count), _IDS - 1))
    raise FileNotFoundError


def _write_pip_settings(folder: Path) -> None:
    """Write where pip finds packages on this machine, and its certificates."""
    config = RawConfigParser()
    text = "[global]\n"
    own_file = os.environ.get("PIP_CONFIG_FILE", "")
    config.read(["/etc/pip.conf", Path.home() / ".config/pip/pip.conf", own_file])
    for name in _PIP_SETTINGS:
        variable = f"PIP_{name.upper().replace('-', '_')}"
        value = os.environ.get(variable) or config.get("global", name, fallback="") or ""
        if name == "cert" and os.path.isfile(value):
            shutil.copyfile(value, folder / "certificates.crt")
            value = f"{_PIP}/certificates.crt"
        if value:
            text += f"{name} = {value}\n"
    (folder / "pip.conf").write_text(text)
