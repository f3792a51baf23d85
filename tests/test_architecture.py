"""The order of the rooms: what keeps the house small."""

import ast
import functools
import importlib
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from kept import needs_bwrap

from intercode import doors, errors, types
from intercode.cli import main
from intercode.runs.formats import Format, format_named

SOURCE = Path(__file__).parents[1] / "src" / "intercode"
LIBRARY = SOURCE.with_name("intercode_sandbox")

# From the ground up; a room may import rooms on lower floors, and modules of its own. The modules
# of `runs` are on many floors.
FLOORS = [
    {"types", "errors", "submission", "doors"},
    {"protocol", "language", "reading"},
    {"plugins", "sandbox", "spaces", "blame", "runs.signing"},
    {"options", "user"},
    {"tasks", "agents", "models", "runs.store", "runs.rows", "runs.segments"},
    {"hooks", "runs.formats"},
    {"env"},
    {"factory"},
    {"envs", "testing"},
    {"runs.trust"},
    {"runner"},
    {"validate", "rescoring"},
    {"runs.evaluation"},
    {"report"},
    {"runs", "runs.index"},
    {"runs.folders"},
    {"cli"},
    {"train", "view", "generate", "redteam", "interop"},
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
WINGS = FLOORS[-1]
LANGUAGES = {path.name for path in (SOURCE / "envs").iterdir() if (path / "env.py").exists()}


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@functools.cache
def imports() -> list[tuple[str, str]]:
    """Each module and a module of intercode that it imports, in functions and for type checking as
    well."""
    found = []
    for path in SOURCE.rglob("*.py"):
        here = (
            ".".join(path.relative_to(SOURCE).with_suffix("").parts)
            .removesuffix("__init__")
            .removesuffix(".")
        )
        for node in ast.walk(tree_of(path)):
            if (
                isinstance(node, ast.ImportFrom)
                and node.level == 0
                and str(node.module).split(".")[0] == "intercode"
            ):
                module = str(node.module).removeprefix("intercode").removeprefix(".")
                found += [
                    (here, f"{module}.{alias.name}".removeprefix(".")) for alias in node.names
                ]
            elif isinstance(node, ast.Import):
                found += [
                    (here, alias.name[10:])
                    for alias in node.names
                    if alias.name.startswith("intercode.")
                ]
    return found


def room_of(module: str) -> str:
    """Return the room of a module; one of `runs` is a room of its own."""
    parts = module.split(".")
    return next(
        (room for room in (".".join(parts[:2]), parts[0]) if parts[0] == "runs" and room in FLOOR),
        parts[0],
    )


def test_imports_point_down() -> None:
    outer = ("", "__main__")
    rooms = {(room_of(here), room_of(there)) for here, there in imports() if here not in outer}
    assert {here for here, _ in rooms} <= set(FLOOR)
    inner = {(here, there) for here, there in rooms if there in FLOOR and there != here}
    assert [(here, there) for here, there in inner if FLOOR[there] >= FLOOR[here]] == []


def test_a_language_imports_no_other() -> None:
    for here, there in imports():
        room, target = here.split("."), there.split(".")
        if room[0] == "envs" and len(room) > 2:
            others = LANGUAGES - {room[1]}
            assert not (target[0] == "envs" and target[1] in others), f"{here} imports {there}"


def test_a_wing_imports_no_other_and_nothing_imports_an_adapter() -> None:
    for here, there in imports():
        wing, target = here.split(".")[0], there.split(".")[0]
        assert not ({wing, target} <= WINGS and wing != target), f"{here} imports {there}"
        if there.startswith("train.adapters"):  # which import frameworks
            assert here.startswith("train.adapters"), f"{here} imports {there}"


def test_every_door_leads_somewhere_and_help_says_what_a_command_does() -> None:
    for name in doors.PARTS:
        assert doors.part(name)
    for commands in doors.COMMANDS.values():
        for name, (_, line) in commands.items():
            command = main.get_command(click.Context(main), name)
            assert command is not None
            assert (command.name, command.get_short_help_str(90)) == (name, line)
    for name in doors.FORMATS:
        assert isinstance(format_named(name), Format)
    for old, new in doors.MOVED.items():
        if not old.endswith(".") and ".adapters." not in new:
            assert importlib.import_module(old) is importlib.import_module(new)
    assert len(doors.MOVED) <= 40


def test_the_house_has_few_rooms_and_the_documents_name_each() -> None:
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text("utf-8")
    files = {path.name for path in SOURCE.glob("*.py")} - {"__init__.py", "__main__.py"}
    rooms = files | {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert len(rooms) <= 32
    assert [room for room in rooms if room.removesuffix(".py") not in page] == []


def test_the_sandbox_is_a_library_that_imports_the_standard_library_alone() -> None:
    for path in LIBRARY.rglob("*.py"):
        for node in ast.walk(tree_of(path)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [str(node.module)]
            own = set() if "guest" in path.parts else {LIBRARY.name}
            if "adapters" in path.parts:
                continue
            roots = {name.partition(".")[0] for name in names}
            assert roots <= {*sys.stdlib_module_names, "_blake2", *own}, path


@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="needs a system Python")
def test_the_sandbox_opens_with_nothing_but_its_source_on_the_path() -> None:
    needs_bwrap()
    code = (
        "import intercode_sandbox\n"
        "with intercode_sandbox.open_sandbox() as box: print(box.exec('echo hi').output)"
    )
    command = ["/usr/bin/python3", "-S", "-c", code]
    environment = {"PYTHONPATH": str(SOURCE.parent), "HOME": os.environ["HOME"]}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "hi"


def test_old_import_paths_give_the_modules_that_took_their_place() -> None:
    for path in LIBRARY.rglob("*.py"):
        name = ".".join(path.relative_to(LIBRARY).with_suffix("").parts)
        if not name.startswith(("guest", "__init__", "adapters")):  # which import frameworks
            old = importlib.import_module(f"intercode.sandbox.{name.removesuffix('.__init__')}")
            assert old is importlib.import_module(str(old.__spec__ and old.__spec__.name))
            assert old.__name__.startswith("intercode_sandbox.")
    for here, there in ((errors, "errors"), (types, "results")):
        library = importlib.import_module(f"intercode_sandbox.{there}")
        for name, value in vars(library).items():
            if getattr(value, "__module__", "") == library.__name__:
                assert getattr(here, name) is value


def test_ray_is_imported_by_the_cluster_alone_and_only_when_it_is_used() -> None:
    def names(node: ast.AST) -> list[str]:
        found = [node.module or ""] if isinstance(node, ast.ImportFrom) and node.level == 0 else []
        return found + (
            [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        )

    using = set()
    for path in SOURCE.rglob("*.py"):
        tree = tree_of(path)
        if any(name.split(".")[0] == "ray" for node in ast.walk(tree) for name in names(node)):
            using.add(".".join(path.relative_to(SOURCE).parts[:2]))
        assert not any(name.split(".")[0] == "ray" for node in tree.body for name in names(node)), (
            path
        )
    assert using == {"train.cluster"}


def test_locals_are_named_after_what_they_hold() -> None:
    banned = {"found", "each", "made", "kept", "own", "theirs"}
    bindings = set()
    for path in SOURCE.rglob("*.py"):
        for function in () if "starter" in path.parts else ast.walk(tree_of(path)):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                for node in ast.walk(function):
                    match node:
                        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                            if name in banned:
                                bindings.add(f"{path.relative_to(SOURCE)}:{node.lineno}: {name}")
    assert sorted(bindings) == []


def test_every_planted_fault_can_be_planted() -> None:
    root = SOURCE.parents[1]
    for patch in sorted((root / "tests" / "planted").glob("*.patch")):
        command = ["git", "apply", "--check", str(patch)]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), patch.name
