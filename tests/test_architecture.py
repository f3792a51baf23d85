"""The order of the rooms: what keeps the house small."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "intercode"

# From the ground up; a room may import rooms on lower floors, and modules of its own.
FLOORS = [
    {"types", "errors", "tfidf", "submission"},
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


def test_a_language_a_sandbox_the_adapters_and_the_papers_wing_stand_alone() -> None:
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
        if room[0] == "sandbox" and target[0] != "sandbox":
            assert target[0] in ({"errors", "types"} if "guest" not in room else ()), (
                f"{here} imports {there}"
            )


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
