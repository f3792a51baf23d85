"""The order of the rooms: what keeps the house small."""

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from kept import needs_bwrap

from intercode import errors, types

SOURCE = Path(__file__).parents[1] / "src" / "intercode"
LIBRARY = SOURCE.with_name("intercode_sandbox")

# From the ground up; a room may import rooms on lower floors, and modules of its own.
FLOORS = [
    {"types", "errors", "tfidf", "submission", "doors"},
    {"protocol", "language"},
    {"plugins", "sandbox", "signing"},
    {"options"},
    {"tasks", "agents", "models", "store"},
    {"env"},
    {"envs", "testing"},
    {"paper", "trust", "atif"},
    {"runner"},
    {"attacks", "validate", "rescoring", "rollouts", "generate"},
    {"evaluation"},
    {"adapters"},
    {"report", "doctor", "export"},
    {"view", "cluster", "runs"},
    {"cli"},
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
LANGUAGES = {path.name for path in (SOURCE / "envs").iterdir() if (path / "env.py").exists()}


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
        for node in ast.walk(ast.parse(path.read_text())):
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


def test_imports_point_down() -> None:
    rooms = {(here.split(".")[0], there.split(".")[0]) for here, there in imports() if here}
    assert {here for here, _ in rooms} <= set(FLOOR)
    inner = {(here, there) for here, there in rooms if there in FLOOR and there != here}
    assert [(here, there) for here, there in inner if FLOOR[there] >= FLOOR[here]] == []


def test_a_language_the_adapters_and_the_papers_wing_stand_alone() -> None:
    for here, there in imports():
        room, target = here.split("."), there.split(".")
        if room[0] == "envs" and len(room) > 2:
            others = LANGUAGES - {room[1], *(["bash"] if room[1] == "harbor" else [])}
            assert not (target[0] == "envs" and target[1] in others), f"{here} imports {there}"
        # environments name the wing in a string, `rewards`, and load it when asked
        if target[0] == "paper":
            assert room[0] in {"paper", "rescoring", "evaluation", "cli"}, f"{here} imports {there}"
        if target[0] == "adapters":  # which import frameworks
            assert room[0] == "adapters", f"{here} imports {there}"


def test_the_sandbox_is_a_library_that_imports_the_standard_library_alone() -> None:
    for path in LIBRARY.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [str(node.module)]
            own = set() if "guest" in path.parts else {LIBRARY.name}
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
        if not name.startswith(("guest", "__init__")):
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
        tree = ast.parse(path.read_text())
        if any(name.split(".")[0] == "ray" for node in ast.walk(tree) for name in names(node)):
            using.add(path.relative_to(SOURCE).parts[0])
        assert not any(name.split(".")[0] == "ray" for node in tree.body for name in names(node)), (
            path
        )
    assert using == {"cluster"}


def test_locals_are_named_after_what_they_hold() -> None:
    banned = {"found", "each", "made", "kept", "own", "theirs"}
    bindings = set()
    for path in SOURCE.rglob("*.py"):
        for function in ast.walk(ast.parse("" if "starter" in path.parts else path.read_text())):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                for node in ast.walk(function):
                    match node:
                        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                            if name in banned:
                                bindings.add(f"{path.relative_to(SOURCE)}:{node.lineno}: {name}")
    assert sorted(bindings) == []
