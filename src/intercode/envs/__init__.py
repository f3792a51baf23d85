"""The environments that ship with the package; `make` builds one from plain options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from intercode.errors import UsageError
from intercode.plugins import call_plugin, import_plugin

if TYPE_CHECKING:
    from intercode.env import EnvFactory, InterCodeEnv

ENVIRONMENTS = {
    "bash": "intercode.envs.bash.env:BashEnv",
    "ctf": "intercode.envs.ctf.env:CtfEnv",
    "python": "intercode.envs.python.env:PythonEnv",
    "sql": "intercode.envs.sql.env:SqlEnv",
}


def environment_class(name: str) -> type[InterCodeEnv]:
    """The class behind `bash`, …, or `module:Class` or `path.py:Class` of the caller's own."""
    module, colon, attribute = ENVIRONMENTS.get(name, name).partition(":")
    if not (colon and module and attribute):
        raise UsageError(f"no environment named {name!r}; there are {', '.join(ENVIRONMENTS)}, module:Class or path.py:Class")
    found: type[InterCodeEnv] = load(f"{module}:{attribute}", "environment")
    if not hasattr(found, "prepare"):
        raise UsageError(f"{name} is no environment; name a class derived from intercode.InterCodeEnv")
    return found


def load(name: str, what: str) -> Any:
    """What `module:attribute` or `path.py:attribute` names; `what` it should be stands in the error."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_plugin(module), attribute)
    except Exception as error:  # whatever a module of the user's own does wrong
        hint = "; PYTHONPATH names further folders to look in" if isinstance(error, ModuleNotFoundError) else ""
        raise UsageError(f"{what} {name!r} cannot be loaded: {type(error).__name__}: {error}{hint}") from error


def prepare(env: str, **options: Any) -> EnvFactory:
    """Do once what many environments share (data, template, gold outcomes); each call of the result makes one.

    An option that the environment does not take may be None or False: not given. Where its class's `prepare` ends in
    `**how`, it takes those of `InterCodeEnv` as well.
    """
    from dataclasses import replace

    from intercode.env import EnvFactory

    found = environment_class(env)
    accepted = _accepted(found)
    unknown = {name: value for name, value in options.items() if name not in accepted}
    given = sorted(name for name, value in unknown.items() if value is not None and value is not False)
    if given:
        raise UsageError(f"the environment {env} takes no {', '.join(given)}; it takes {', '.join(accepted)}")
    require_data(found, options.get("data"))
    factory = call_plugin(found.prepare, EnvFactory, **{name: value for name, value in options.items() if name not in unknown})
    return replace(factory, make=lambda: _made(factory.make, f"{found.__qualname__}.__init__"))


def require_data(found: type[InterCodeEnv], data: object) -> None:
    """Raises `UsageError` if a class of the caller's own names no tasks; those of its base class are not meant for it."""
    base = next(each for each in found.__mro__ if "prepare" in vars(each))
    inherits = base is not found and base.__module__.startswith("intercode.envs.")
    says = "by its attribute `data`, or " if hasattr(base, "data") else ""
    if inherits and not data and not (says and found.data):  # type: ignore[attr-defined]
        raise UsageError(f"{found.__qualname__} has no tasks; name their file {says}with --data")


def _made(make: Callable[[], InterCodeEnv], name: str) -> InterCodeEnv:
    """Raises `UsageError` if an `__init__` of the caller's own takes other parameters than ours, or left ours out."""
    try:
        env = make()
    except TypeError as error:
        if str(error).startswith(f"{name}()"):
            raise UsageError(f"{error}; let it take **how, and give that to super().__init__") from error
        raise
    if hasattr(env, "tasks"):
        return env
    raise UsageError(f"{type(env).__qualname__}.__init__ does not call super().__init__, which makes it an environment")


def _accepted(found: type[InterCodeEnv]) -> list[str]:
    from intercode.env import InterCodeEnv

    own = inspect.signature(found.prepare).parameters.values()
    rest = {each.kind for each in own} & {inspect.Parameter.VAR_KEYWORD}
    common = inspect.signature(InterCodeEnv).parameters.values() if rest else ()
    return [each.name for each in (*own, *common) if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]


def make(env: str, *, render_mode: str | None = None, **options: Any) -> InterCodeEnv:
    """One environment; `intercode.make("bash", data=…, tree=…)`. The options are those of its class's `prepare`."""
    made = prepare(env, **options)()
    if render_mode is not None and render_mode not in (modes := made.metadata.get("render_modes", ())):
        made.close()
        raise UsageError(f"render_mode {render_mode!r}: it is one of {modes}, or None")
    made.render_mode = render_mode
    return made
