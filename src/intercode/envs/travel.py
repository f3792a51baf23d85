"""Which of an agent's files travel to the sandbox of the tests: decided by place, by ending, and by
what the golds changed.

    stays behind                                                   unless
    system folders, folders on PATH, libraries, package folders,   `verify_system` names it
    dot files of a home, files that pytest and Python start with
    hidden entries, configuration and modules with the name of     `verify_system` names it, a gold
    one of Python's own, in the folders where the tests start,     changed it or, if there is no
    and in all above them; entries of /tmp and /run                gold, the query names it
    links into /proc or /dev, and those that lead nowhere          a gold left a link that leads to
    before the tests are written, or into a folder of the tests    the same path

A file that stays behind has the image's content for the tests, or is missing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import PurePosixPath
from posixpath import dirname, join, normpath
from typing import Protocol

from intercode.types import Change
from intercode_sandbox.base import Sandbox
from intercode_sandbox.transfer import carry_over

Changes = Mapping[str, str | None]
"""The paths that a task's golds changed; for a link, with its target."""
_SYSTEM = ("/usr", "/bin", "/sbin", "/opt", "/etc", "/boot", "/dev", "/proc", "/sys")
_LIBRARIES = re.compile(r"/lib(?:32|64|x32|exec)?(?:/|$)")
_SCRATCH = ("/tmp", "/var/tmp", "/run")
"""Folders in which the tests may write files of their own."""
_DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom"))
_STEERING = re.compile(
    r"""/(?:
        (?:site-packages|dist-packages|node_modules)(?:/|$)   # installed packages
        | (?:conftest|sitecustomize|usercustomize|pytest)\.py$
        | \.?pytest\.(?:ini|toml)$ | [^/]*\.pth$ | (?:_?pytest|pluggy|unittest)/
    | (?:rspec|minitest|diff/lcs|luassert|busted)(?:/|\.(?:rb|lua)$)          # of lib/ and src/
    | Test/(?:More|Simple|Builder|Deep|Exception|Most)\b | Test2/ | TAP/
    )""",
    re.VERBOSE,
)
"""Paths that change what Python does, at any depth: `/app/conftest.py`, but not
`/app/conftest.txt`."""
CONFIGURATION = re.compile(
    r"""(?:
        \.(?: bazel | bzl | cabal | cfg | cmake | conf | config | dist | edn | env | exs | gemspec
            | gradle | ini | json[5c]? | kts | lock | mk | mod | nix | opts | project | \w*proj
            | properties | props | runsettings | sbt | settings | sln | targets | toml | work | xml
            | ya?ml )
        | \.(?:config|conf|setup|workspace)\.[cm]?[jt]sx?
        | rc(?:\.\w+)?
        | [Ff]ile(?:\.(?:[cm]?[jt]s|rb|py|lua|pl))?
        | \.(?: ac | build | clj | dependencies | dhall | nimble | nims | ninja | PL | rockspec
            | script | sum | tcl | zon )
        | -preset\.[cm]?[jt]s | _helper\.rb | [Pp]est\.php | build\.(?:rs|zig|boot)
        | CMakeLists\.txt | meson_options\.txt | Package\.swift | gems\.rb
        | (?:premake5|xmake)\.lua
        | ^(?: BUILD | WORKSPACE | DESCRIPTION | Kbuild | SConscript | SConstruct | configure | dune
            | dune-project | gradlew | mvnw | rust-toolchain | wscript )
        | ^(?: all | build | check | lint | run | tests? | verify )  # a target of make
    )$""",
    re.VERBOSE,
)
"""The endings of files that configure programs: `tox.ini`, `jest.config.ts`, `GNUmakefile`, but not
`answer.txt` or `main.py`."""
_PYTHONS_OWN = sys.stdlib_module_names - {"test"}
"""The modules of Python that tests may import; a folder `test` is often the agent's."""
_ENTERS = re.compile(
    r"""(?:^|[;&|({\s])
    (?: (?:cd|pushd)\s+(?:--\s+)? | -C\s* | --(?:directory|prefix|rootdir|chdir|cwd|project)[=\s] )
    (["']?)([\w.+/-]+)\1(?=[\s;&|)]|$)""",
    re.VERBOSE,
)
"""A folder in which a script starts something: `cd /srv/app`, `make -C app`; not `cd "$HOME"`."""
_LOOK = r"""
kinds=() paths=()
say() { kinds+=("$1") paths+=("$2"); }
say start "$PWD"
for home in "$HOME" /root /home/*; do [[ -d $home ]] && say home "$home"; done
for pair; do say "${pair%%=*}" "${pair#*=}"; done
IFS=:; for folder in $PATH; do [[ -d $folder ]] && say path "$folder"; done
realpath -mz -- "${paths[@]}" | for kind in "${kinds[@]}"; do
    IFS= read -rd '' path && printf '%s\t%s\n' "$kind" "$path"
done
find / -xdev -name pyvenv.cfg -printf 'path\t%h\n' 2>/dev/null
:
"""
"""Print where the tests start, the homes, the folders of programs and the virtual environments of a
sandbox, and where the paths in the arguments lead, such as /bin to /usr/bin."""
_LINKS = "/.changes.links"
_DROP_LINKS = f"""
while IFS= read -rd '' link; do
    place=$(readlink -f -- "$link")
    case $place in
        /dev/null | /dev/zero | /dev/full | /dev/random | /dev/urandom) continue ;;
        /dev | /dev/* | /proc | /proc/*) ;;
        *) inside=
            for folder; do [[ $place/ == "$folder"/* ]] && inside=1; done
            [[ -e $link && ! $inside ]] && continue ;;
    esac
    rm -f -- "$link" && printf '%q\\n' "$link"
done <{_LINKS}
rm -f {_LINKS}
"""
"""Remove the links that may not travel and print them, quoted; the arguments are the folders of the
tests."""


class Work(Protocol):
    """Where an agent worked."""

    def lend_sandbox(self) -> Sandbox:
        """Return the sandbox, in which the caller may change files outside the session."""
        ...

    def share_services(self, other: Sandbox) -> None:
        """Give programs in another sandbox the ports of the task's services."""

    def service_box(self, name: str) -> Sandbox:
        """Return the sandbox of a service. Raises `DataError` if there is none."""
        ...

    def end_processes(self) -> None:
        """End all processes inside, the session's too."""


@dataclass
class Route:
    """The way from an agent's sandbox to the sandbox `box`, in which the tests start in `cwd`.

    `system` are the system paths that travel, all of them if None. `golds` are the changes of the
    golds, or None on the way of a gold's own work; `query` is the query of a task without a gold.
    `ours` are the folders of the tests; `scripts` are their shell scripts, and `variables` what
    they get.
    """

    box: Sandbox
    variables: Mapping[str, str]
    cwd: str | None
    system: tuple[str, ...] | None
    golds: Changes | None
    query: str
    ours: Collection[str]
    scripts: Iterable[str] = ()

    def travel(self, source: Sandbox) -> tuple[dict[str, Change], list[str]]:
        """Bring the changed files of `source` into the box; return the changes that arrived, and
        the paths that stayed behind. Raises `TooLarge`."""
        changes, left_behind = carry_over(source, self.box, self._stays)
        links = []
        for path, change in changes.items():
            if change.type == "link" and self._leads_elsewhere(path, change):
                links.append(path)
        if links:
            names = "".join(f"{path}\0" for path in links).encode("utf-8", "surrogateescape")
            self.box.write(_LINKS, names)
            words = ["bash", "-c", _DROP_LINKS, "bash", *self.ours]
            dropped = self.box.exec("", argv=words, cwd="/", timeout=60).output.splitlines()
            left_behind += dropped
            changes = {path: change for path, change in changes.items() if path not in dropped}
        return changes, left_behind

    @cached_property
    def places(self) -> dict[str, list[str]]:
        """The paths that matter, by kind: `home`, `path` (folders of programs), `subject` (what
        `system` names), `start` (folders in which the tests start), `above` (these and all above
        them, but `/`)."""
        named = {name for _, name in _ENTERS.findall("\n;\n".join(self.scripts))}
        folders = ["", *(name for name in named if name.startswith("/"))]
        subjects = list(self.system or ())
        pairs = [f"subject={path}" for path in subjects]
        pairs += sorted({f"start={join(at, name)}" for at, name in product(folders, named)})
        variables = [f"{name}={value}" for name, value in self.variables.items()]
        words = ["env", *variables, "bash", "-c", _LOOK, "bash", *pairs]
        look = self.box.exec("", argv=words, cwd=self.cwd, timeout=60)
        places: dict[str, list[str]] = {"home": [], "path": [], "subject": subjects, "start": []}
        for line in look.output.splitlines():
            kind, _, path = line.partition("\t")
            if kind in places and path not in ("", "/"):
                places[kind].append(path)
        above = set(places["start"])
        for start in places["start"]:
            above.update(map(str, PurePosixPath(start).parents))
        places["above"] = sorted(above - {"/"})
        return places

    def _stays(self, path: str, change: Change) -> bool:
        if self.system is None:
            return is_within(path, self.ours)
        places = self.places
        if is_within(path, places["subject"]):
            return False
        folders = [*self.ours, *_SYSTEM, *places["path"]]
        homes = places["home"]
        if is_within(path, folders) or _LIBRARIES.match(path) or _STEERING.search(path):
            return True
        if any(path.startswith(f"{home}/.") for home in homes):
            return True
        # it would stand in the place of a folder that contains such a path
        if change.type != "dir" and any(is_within(place, [path]) for place in (*homes, *folders)):
            return True
        if change.type == "link" and self.golds is not None:
            target = _leads_to(path, change.target)
            if is_within(target, ("/proc", "/dev")) and target not in _DEVICES:
                return self._leads_elsewhere(path, change)
        entry = self._steering_entry(path, change)
        return bool(entry) and not self._is_meant(entry)

    def _leads_elsewhere(self, path: str, change: Change) -> bool:
        """Return whether the golds, if there are any, left no link that leads where this does."""
        if self.golds is None:
            return False
        target = self.golds.get(path)
        return target is None or _leads_to(path, change.target) != _leads_to(path, target)

    def _steering_entry(self, path: str, change: Change) -> str:
        """Return the entry of a folder where the tests start, or above, that could steer them and
        that the path is, or is in; "" if there is none."""
        scratch = next((at for at in _SCRATCH if path.startswith(f"{at}/")), None)
        if scratch:
            return "/".join(path.split("/")[: scratch.count("/") + 2])
        for folder in ("", *self.places["above"]):
            prefix = f"{folder}/"
            if not path.startswith(prefix):
                continue
            name, _, inside = path[len(prefix) :].partition("/")
            module, _, ending = name.partition(".")
            if name.startswith("."):
                return prefix + name
            if not inside and change.type != "dir" and CONFIGURATION.search(name):
                return prefix + name
            is_module = ending in ("py", "pyc") or name[-3:] == ".so" or inside == "__init__.py"
            if module in _PYTHONS_OWN and is_module:  # Python would import it in place of its own
                return prefix + name
        return ""

    def _is_meant(self, entry: str) -> bool:
        """Return whether the golds change the entry or, without a gold, the query names it."""
        if self.query:
            words = {word.rstrip(".") for word in re.findall(r"[\w./+-]+", self.query)}
            return not words.isdisjoint((entry, entry.rpartition("/")[2]))
        return self.golds is None or any(is_within(path, [entry]) for path in self.golds)


def _leads_to(path: str, target: str | None) -> str:
    """Return the path to which a link leads if no folder on the way is a link."""
    return normpath(join(dirname(path), target or ""))


def is_within(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)
