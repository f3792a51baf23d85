"""Print the way of a reader who follows a gold from `start_episode`, and a score from `score`,
through the source. It is a report, not a bound.

    .venv/bin/python scripts/walk.py                      # all built-in environments
    .venv/bin/python scripts/walk.py [--list] intercode.envs.bash.env:BashEnv start_episode
    .venv/bin/python scripts/walk.py [--list] --plain     # one plain starter task of each

    files      those that the reader visits; the library of sandboxes counts as one
    functions  those that the reader reads, depth first, each at its first call; all branches
    stays      a stay in a file lasts until a call leads to an unread function in another file
    returns    the stays in a file that was left before

`--list` prints the functions, with the file where a stay begins. Properties count as calls, and so
do functions that are passed as arguments; lambdas and nested functions are read where they stand.
The library of sandboxes is not read further.

With `--plain` nothing is inferred: a starter task that is compared with a gold (in Python: that has
asserts) is played, and the functions are those that are called, each at its first call. This is the
way of a reader who follows one kind of task. What caches return is not executed, and not read.

The class of a value is known from annotations, arguments, assignments and what functions return.
This is loose: a container is taken for what it contains. A call of an abstract method or of an
unknown value is counted, not followed, unless texts or containers have a method of that name.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import groupby
from pathlib import Path
from pkgutil import resolve_name
from types import CodeType, FrameType, ModuleType, NoneType, UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, get_args, get_origin

if TYPE_CHECKING:
    from intercode.types import Task

PROJECT, LIBRARY = "intercode", "intercode_sandbox"
ENVIRONMENTS = ("bash.env:BashEnv", "sql.env:SqlEnv", "python.env:PythonEnv", "ctf.env:CtfEnv")
PLAIN = (str, bytes, float, list, dict, set, re.Match)
Types = tuple[Any, ...]
"""What a value may be: classes for instances, `Ref`s for classes, functions and modules."""


@dataclass(frozen=True)
class Ref:
    """A module, a class or a function. `owner` is the type of a method's `self`, `place` the class
    with the method or, for `super()`, the class to look behind."""

    object: Any
    owner: Any = None
    place: Any = None
    is_property: bool = False


@cache
def functions_in(file: str) -> dict[int, ast.FunctionDef]:
    """Return the functions in a file by their first lines."""
    text = Path(file).read_text("utf-8") if Path(file).is_file() else ""
    return {
        min([node.lineno, *(part.lineno for part in node.decorator_list)]): node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef)
    }


def tree_of(function: Any) -> ast.FunctionDef | None:
    """Return the syntax tree of a function of the project or the library, None for others."""
    package = str(getattr(function, "__module__", "")).partition(".")[0]
    code = getattr(function, "__code__", None) if package in (PROJECT, LIBRARY) else None
    return functions_in(code.co_filename).get(code.co_firstlineno) if code else None


def is_protocol(cls: Any) -> bool:
    return bool(getattr(cls, "_is_protocol", False))


def is_abstract(cls: Any) -> bool:
    return cls is Any or is_protocol(cls) or inspect.isabstract(cls)


def join(function: Callable[[Any], Types], things: Iterable[Any]) -> Types:
    """Return the types that the function returns for all things, without base classes of others."""
    types = dict.fromkeys(value for thing in things for value in function(thing))
    bases = {base for cls in types if isinstance(cls, type) for base in cls.__mro__[1:]}
    return tuple(value for value in types if value not in bases | {Any, NoneType, UnionType})


def types_in(hint: Any, owner: Any) -> Types:
    """Return the classes that a hint names; `owner` is the type of `self`."""
    for cls in getattr(owner, "__mro__", ()) if isinstance(hint, TypeVar) else ():
        for base in vars(cls).get("__orig_bases__", ()):
            names = getattr(get_origin(base), "__parameters__", ())
            hint = dict(zip(names, get_args(base), strict=False)).get(hint, hint)
    origin = owner if hint is Self else get_origin(hint) or hint
    parts = tuple(cls for part in get_args(hint) for cls in types_in(part, owner))
    return (origin, *parts) if isinstance(origin, type) else parts


def evaluate(hint: Any, names: dict[str, Any]) -> Any:
    try:
        return eval(hint, names) if isinstance(hint, str) else hint
    except NameError:  # imported for type checkers only
        return Any


def refer(value: Any, owner: Any = None, place: Any = None) -> Types:
    """Return a reference to a module, a class or a function, and the type of any other value."""
    is_property = isinstance(value, property | cached_property)
    for kind, name in ((property, "fget"), (cached_property, "func"), (classmethod, "__func__")):
        value = getattr(value, name) if isinstance(value, kind) else value
    if isinstance(value, staticmethod):
        owner, value = None, value.__func__
    if isinstance(value, type | ModuleType) or inspect.isroutine(value):
        return (Ref(inspect.unwrap(value), owner, place, is_property),)  # type: ignore[arg-type]
    return (type(value),)


def imported(name: str) -> Types:
    return refer(resolve_name(name))


@cache
def members(thing: Any, name: str) -> Types:
    """Return what an attribute of an instance, a class or a module may be."""
    ref = thing if isinstance(thing, Ref) else Ref(thing, thing)
    if not isinstance(ref.object, type):
        return refer(getattr(ref.object, name, None))
    owner, classes, types = ref.owner or ref, ref.object.__mro__, list[Any]()
    for place in classes[classes.index(ref.place) + 1 if ref.place else 0 :]:
        value = vars(place).get(name)
        if isinstance(value, type | property) or inspect.isroutine(value):
            return refer(value, owner, place)
        hint, names = inspect.get_annotations(place).get(name), sys.modules[place.__module__]
        types += types_in(evaluate(hint, vars(names)), owner)
        for function in filter(tree_of, vars(place).values()):
            types += scope_of(Ref(function, owner, place)).types_of(f".{name}")
    return join(lambda thing: (thing,), types)


class Scope:
    """What the names in a function may be. `.name` is an attribute of `self`, `return` what the
    function returns. `call` is the call in the scope `caller` that led here."""

    unfinished: ClassVar[set[tuple[Any, str]]] = set()
    """Functions and names whose types are being inferred."""

    def __init__(self, ref: Ref, call: ast.Call | None = None, caller: Any = None) -> None:
        tree = tree_of(ref.object)
        assert tree
        self.ref, self.tree, self.names = ref, tree, ref.object.__globals__
        self.sources = defaultdict[str, list[Callable[[], Types]]](list)
        names = [argument.arg for argument in (*tree.args.posonlyargs, *tree.args.args)]
        self.me = names.pop(0) if ref.owner and names else ""
        self.sources[self.me].append(lambda: (ref.owner,))
        if call:
            passed = [*zip(names, call.args, strict=False)]
            passed += [(word.arg, word.value) for word in call.keywords if word.arg]
            for name, value in passed:
                self.sources[name].append(partial(caller.infer, value))
        for node in ast.walk(tree):
            self.note(node)

    def note(self, node: ast.AST) -> None:
        """Note what a part of the tree says of names."""
        match node:
            case ast.arg(arg=name, annotation=hint):
                self.sources[name].append(partial(self.hinted, hint))
            case ast.FunctionDef(name=name) if node is not self.tree:
                self.sources[name].append(lambda: (Ref(node),))
            case ast.Return(value=ast.expr() as value):
                self.sources["return"].append(partial(self.infer, value))
            case ast.ImportFrom(module=str(module), names=aliases):
                for alias in aliases:
                    source = partial(imported, f"{module}.{alias.name}")
                    self.sources[alias.asname or alias.name].append(source)
            case ast.AnnAssign(target=target, annotation=hint):
                self.bind(target, partial(self.hinted, hint))
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self.bind(target, partial(self.infer, value))
            case (
                ast.NamedExpr(target=target, value=value)
                | ast.For(target=target, iter=value)
                | ast.comprehension(target=target, iter=value)
                | ast.withitem(optional_vars=ast.expr() as target, context_expr=value)
            ):
                self.bind(target, partial(self.infer, value))

    def bind(self, target: ast.expr, source: Callable[[], Types]) -> None:
        for node in ast.walk(target):
            match node:
                case ast.Name(id=name, ctx=ast.Store()):
                    self.sources[name].append(source)
                case ast.Attribute(value=ast.Name(id=self.me), attr=name, ctx=ast.Store()):
                    self.sources[f".{name}"].append(source)

    def hinted(self, hint: ast.expr | None) -> Types:
        return types_in(evaluate(ast.unparse(hint), self.names), self.ref.owner) if hint else ()

    def types_of(self, name: str) -> Types:
        if (key := (self.ref.object, name)) in self.unfinished:
            return ()
        self.unfinished.add(key)
        types = join(lambda source: source(), self.sources.get(name, ()))
        self.unfinished.discard(key)
        return types

    def refer(self, node: ast.expr) -> Types:
        """Return what an expression may be; a property is not read yet."""
        match node:
            case ast.Name(id=name):
                value = self.names.get(name, vars(builtins).get(name))
                return self.types_of(name) if name in self.sources else refer(value)
            case ast.Attribute(value=value, attr=name):
                return join(partial(members, name=name), self.infer(value))
        return self.infer(node)

    def infer(self, node: ast.expr) -> Types:
        """Return the types of an expression, or of all its parts."""
        match node:
            case ast.Name():
                return self.refer(node)
            case ast.Attribute():
                return join(self.value_of, self.refer(node))
            case ast.Call(func=ast.Name(id="super")):
                return (Ref(self.ref.owner, self.ref.owner, self.ref.place),)
            case ast.Call(func=function):
                return join(partial(self.result, call=node), self.infer(function))
            case ast.Lambda():
                return (Ref(node),)
        children = ast.iter_child_nodes(node)
        return join(self.infer, (child for child in children if isinstance(child, ast.expr)))

    def value_of(self, thing: Any) -> Types:
        return self.result(thing) if isinstance(thing, Ref) and thing.is_property else (thing,)

    def result(self, thing: Any, call: ast.Call | None = None) -> Types:
        """Return what a call may return: a function of others, its arguments."""
        if not isinstance(thing, Ref) or isinstance(thing.object, type):
            return (thing.object if isinstance(thing, Ref) else thing,)
        if tree := tree_of(thing.object):
            types = scope_of(thing).hinted(tree.returns)
            if not types or any(map(is_abstract, types)):
                types += Scope(thing, call, self).types_of("return")
            return types
        receiver = [call.func.value] if call and isinstance(call.func, ast.Attribute) else []
        return join(self.infer, [*receiver, *(call.args if call else [])])


@cache
def scope_of(ref: Ref) -> Scope:
    return Scope(ref)


def called(thing: Any) -> Types:
    """Return the methods that a call of a thing calls, or the thing itself."""
    if not isinstance(thing, Ref):
        return () if thing is Callable else members(thing, "__call__")
    if not isinstance(thing.object, type):
        return (thing,)
    names = ("__init__", "__post_init__")
    return thing, *join(partial(members, thing.object), names)


def loads_in(tree: ast.FunctionDef) -> list[tuple[Any, ast.Call | None]]:
    """Return what a function loads or calls, as a reader meets it, with the call."""
    nodes: list[Any] = [node for statement in tree.body for node in ast.walk(statement)]
    calls = {node.func: node for node in nodes if isinstance(node, ast.Call)}
    names = [node for node in nodes if isinstance(node, ast.Name | ast.Attribute)]
    loads = {node: None for node in names if isinstance(node.ctx, ast.Load)} | calls
    places = sorted(loads, key=lambda node: (node.end_lineno, node.end_col_offset))
    return [(node, loads[node]) for node in places]


class Walk:
    """The way from a method of a class: `way` has the depth and the file of each function.
    `unknown` counts the calls that are not followed."""

    def __init__(self, cls: type, method: str) -> None:
        self.way: dict[Any, tuple[int, str]] = {}
        self.unknown = 0
        for ref in members(cls, method):
            self.read(ref)

    def read(self, ref: Ref, depth: int = 0, *where: Any) -> bool:
        """Read a function of the project, unless it has been read; return False for an abstract
        one. `where` is the call, and the scope in which it stands."""
        function, tree = ref.object, tree_of(ref.object)
        if tree is None or function in self.way:
            return True
        if function.__module__.partition(".")[0] == LIBRARY:
            self.way[function] = depth, LIBRARY
            return True
        if is_protocol(ref.place) or hasattr(function, "__isabstractmethod__"):
            return False
        self.way[function] = depth, function.__code__.co_filename.rpartition(f"/{PROJECT}/")[2]
        scope = Scope(ref, *where)
        for node, call in loads_in(tree):
            things = scope.refer(node)
            refs = join(called, things) if call else things
            followed = [
                self.read(thing, depth + 1, call, scope) for thing in refs if isinstance(thing, Ref)
            ]
            plain = not things and any(hasattr(cls, getattr(node, "attr", "")) for cls in PLAIN)
            self.unknown += call is not None and not any(followed) and not plain
        return True


# -- a plain task ----------------------------------------------------------------------------------


class Trace:
    """The functions that are called while the trace is set, each at its first call."""

    def __init__(self) -> None:
        self.way: dict[CodeType, str] = {}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code, caller = frame.f_code, frame.f_back
        file = file_of(code)
        if event != "call" or not file or "<" in code.co_qualname:
            return
        if file == LIBRARY and caller and file_of(caller.f_code) == LIBRARY:
            return
        self.way.setdefault(code, file)


def file_of(code: CodeType) -> str:
    """Return the file of a function of the project, as this script prints it; "" for others."""
    _, source, path = code.co_filename.rpartition("/src/")
    package, _, file = path.partition("/")
    if not source or package not in (PROJECT, LIBRARY):
        return ""
    return LIBRARY if package == LIBRARY else file


def is_plain(task: Task) -> bool:
    return not task.general and not {"verify", "test_cases", "follow_up"} & task.extra.keys()


def plain_ways() -> Iterator[tuple[str, dict[CodeType, str]]]:
    """Play the gold of the first plain task of each environment, after another episode."""
    import intercode

    for name in ("bash", "sql", "python", "ctf"):
        factory = intercode.prepare(name)
        task, other = [task for task in factory.tasks if is_plain(task)][:2]
        with closing(factory()) as env:
            env.reset(options={"task": other.id})
            starting, scoring = Trace(), Trace()
            sys.setprofile(starting)
            env.start_episode(task)
            sys.setprofile(None)
            env.reset(options={"task": task.id})
            env.step(task.gold)
            sys.setprofile(scoring)
            env.score()
            sys.setprofile(None)
        yield f"{name}.start_episode", starting.way
        yield f"{name}.score", scoring.way


def show(title: str, way: Iterable[tuple[int, str, str]], *, listed: bool) -> None:
    """Print the figures of a way: the depth, file and name of each function."""
    way = list(way)
    stays = [file for file, _ in groupby(file for _, file, _ in way)]
    before = ""
    for depth, file, name in way if listed else ():
        print(f"{'' if file == before else file:36}{'  ' * depth}{name}")
        before = file
    files = len(set(stays))
    print(f"{title:36}{files:9}{len(way):11}{len(stays):7}{len(stays) - files:9}")


def main(*arguments: str) -> None:
    paths = [argument for argument in arguments if not argument.startswith("--")]
    methods = ("start_episode", "score")
    built_in = [(f"intercode.envs.{name}", method) for name in ENVIRONMENTS for method in methods]
    listed = "--list" in arguments
    print(f"{'':36}    files  functions  stays  returns")
    if "--plain" in arguments:
        for title, calls in plain_ways():
            show(
                title, ((0, file, code.co_qualname) for code, file in calls.items()), listed=listed
            )
        return
    unknown = 0
    for path, method in [tuple(paths)] if paths else built_in:
        walk = Walk(resolve_name(path), method)
        way = ((depth, file, function.__qualname__) for function, (depth, file) in walk.way.items())
        show(f"{path.rpartition(':')[2]}.{method}", way, listed=listed)
        unknown += walk.unknown
    print(f"calls not followed: {unknown}")


if __name__ == "__main__":
    main(*sys.argv[1:])
