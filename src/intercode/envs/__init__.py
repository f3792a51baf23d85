"""The environments that ship with the package; `make` builds one from plain options."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from intercode.errors import UsageError
from intercode.plugins import call_plugin, load_plugin
from intercode.tasks import in_split

if TYPE_CHECKING:
    from intercode.env import EnvFactory, InterCodeEnv

ENVIRONMENTS = {
    "bash": "intercode.envs.bash.env:BashEnv",
    "ctf": "intercode.envs.ctf.env:CtfEnv",
    "python": "intercode.envs.python.env:PythonEnv",
    "sql": "intercode.envs.sql.env:SqlEnv",
}
"""The registry: an environment of the package is one line here, for `make`, the command line and
Gymnasium."""


def environment_class(name: str) -> type[InterCodeEnv]:
    """Return the class behind a name of the registry, or behind the caller's `module:Class` or
    `path.py:Class`."""
    module, colon, attribute = ENVIRONMENTS.get(name, name).partition(":")
    if not (colon and module and attribute):
        raise UsageError(
            f"no environment named {name!r}; "
            f"there are {', '.join(ENVIRONMENTS)}, module:Class or path.py:Class"
        )
    found: type[InterCodeEnv] = load_plugin(f"{module}:{attribute}", "environment")
    if not hasattr(found, "prepare"):
        raise UsageError(
            f"{name} is no environment; name a class derived from intercode.InterCodeEnv"
        )
    return found


def prepare(env: str, *, split: str | None = None, **options: Any) -> EnvFactory:
    """Do once what many environments share (data, template, gold outcomes); each call of the
    factory makes an environment.

    `split` keeps the tasks whose field `split` is that, such as "train"; `limit` then counts these.
    An option that the environment does not take may be None or False. Where its class's `prepare`
    ends in `**how`, it takes those of `InterCodeEnv` as well. Raises `UsageError` for other
    options, and `DataError` for data that cannot be read.
    """
    prepared = _Prepared(env, options, split)
    return replace(prepared.factory, make=prepared.make, facts=prepared.facts)


class _Prepared:
    """An environment's name and options, and the factory made from them. In another process the
    factory is made anew."""

    def __init__(self, env: str, given: dict[str, Any], split: str | None = None) -> None:
        from intercode.env import EnvFactory, InterCodeEnv

        self.env, self.given, self.split, self.found = env, given, split, environment_class(env)
        options = {**given, "limit": None} if split and "limit" in given else given
        limit = given.get("limit")
        own = inspect.signature(self.found.prepare).parameters.values()
        takes_more = any(each.kind is each.VAR_KEYWORD for each in own)
        common = inspect.signature(InterCodeEnv).parameters.values() if takes_more else ()
        named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        accepted = [each.name for each in (*own, *common) if each.kind in named]
        unknown = {name: value for name, value in options.items() if name not in accepted}
        if wrong := sorted(
            name for name, value in unknown.items() if value is not None and value is not False
        ):
            raise UsageError(
                f"the environment {env} takes no {', '.join(wrong)}; it takes {', '.join(accepted)}"
            )
        require_data(self.found, options.get("data"))
        known = {name: value for name, value in options.items() if name not in unknown}
        self.factory = call_plugin(self.found.prepare, EnvFactory, **known)
        if split:
            self.factory = replace(self.factory, tasks=in_split(self.factory.tasks, split)[:limit])

    def __reduce__(self) -> Any:
        return _Prepared, (self.env, self.given, self.split)

    def facts(self) -> dict[str, Any]:
        return self.factory.facts()

    def make(self) -> InterCodeEnv:
        """Raise `UsageError` if an `__init__` of the caller's own takes other parameters than ours,
        or left ours out."""
        try:
            env = self.factory.make()
        except TypeError as error:
            if str(error).startswith(f"{self.found.__qualname__}.__init__()"):
                raise UsageError(
                    f"{error}; let it take **how, and give that to super().__init__"
                ) from error
            raise
        if hasattr(env, "tasks"):
            env.tasks = list(self.factory.tasks) if self.split else env.tasks
            return env
        raise UsageError(
            f"{type(env).__qualname__}.__init__ does not call super().__init__, "
            "which makes it an environment"
        )


def require_data(found: type[InterCodeEnv], data: object) -> None:
    """Raise `UsageError` if a class of the caller's own names no tasks; those of its base class are
    not meant for it."""
    base = next(each for each in found.__mro__ if "prepare" in vars(each))
    inherits = base is not found and base.__module__.startswith("intercode.envs.")
    attribute = "by its attribute `data`, or " if hasattr(base, "data") else ""
    if inherits and not data and not (attribute and found.data):  # type: ignore[attr-defined]
        raise UsageError(
            f"{found.__qualname__} has no tasks; name their file {attribute}with --data"
        )


def make(env: str, *, render_mode: str | None = None, **options: Any) -> InterCodeEnv:
    """Return one environment; `intercode.make("bash", data=…, tree=…)`. The options are those of
    its class's `prepare`."""
    found = prepare(env, **options)()
    if render_mode is not None and render_mode not in (
        modes := found.metadata.get("render_modes", ())
    ):
        found.close()
        raise UsageError(f"render_mode {render_mode!r}: it is one of {modes}, or None")
    found.render_mode = render_mode
    return found
