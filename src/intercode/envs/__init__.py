"""The environments that ship with the package; `make` builds one from plain options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from intercode.doors import V1_NAMES, load
from intercode.envs.rewards import load_reward
from intercode.errors import UsageError, did_you_mean
from intercode.plugins import call_plugin, find_own_modules, load_plugin

if TYPE_CHECKING:
    from intercode.env import InterCodeEnv
    from intercode.factory import EnvFactory
    from intercode.language import Language
    from intercode.options import Option, Options
    from intercode.types import Task

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Return a name of InterCode v1 (docs/from-intercode-v1.md), which nothing here uses."""
        if name not in V1_NAMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return load(f"intercode.interop.v1.interface:{name}")


ENVIRONMENTS = {
    "bash": "intercode.envs.bash.env:BashEnv",
    "ctf": "intercode.envs.ctf.env:CtfEnv",
    "harbor": "intercode.interop.harbor.env:HarborEnv",
    "python": "intercode.envs.python.env:PythonEnv",
    "sql": "intercode.envs.sql.env:SqlEnv",
}
"""The registry of built-in environments, one per line; `make`, the command line and Gymnasium read
it."""


ENTRY_POINTS = "intercode.environments"
"""The entry point group in which a package registers an environment: `awk = "awk_env:AwkEnv"`
enables `intercode eval awk`."""


def environment_class(name: str) -> type[InterCodeEnv]:
    """Return the environment class for a name in the registry, a name that an installed package
    registers, `module:Class` or `path.py:Class`."""
    path = name
    if ":" not in name:
        path = ENVIRONMENTS.get(name) or _installed().get(name, "")
    module, _, attribute = path.partition(":")
    if not (module and attribute):
        known = environment_names()
        raise UsageError(
            f"no environment named {name!r}; there are {', '.join(known)}, module:Class or "
            f"path.py:Class{did_you_mean(name, known)}"
        )
    env_class: type[InterCodeEnv] = load_plugin(path, "environment")
    if not hasattr(env_class, "prepare_world"):
        raise UsageError(
            f"{name} is not an environment; name a class derived from intercode.InterCodeEnv"
        )
    return env_class


def environment_names() -> list[str]:
    """Return the names in the registry, and those that installed packages register."""
    return [*ENVIRONMENTS, *_installed()]


def _installed() -> dict[str, str]:
    """Return the environments that installed packages register, each as `module:Class`."""
    from importlib.metadata import entry_points

    return {entry.name: entry.value for entry in entry_points(group=ENTRY_POINTS)}


def language_of(settings: Mapping[str, Any]) -> Language:
    """Return the language of a stored run, given its settings.

    For a built-in environment, only the language module is imported. A user's own environment is
    imported only if the run is signed by the user; if the import fails, the language is `PLAIN`.
    """
    from intercode.language import PLAIN
    from intercode.runs.signing import is_signed

    env = str(settings.get("env"))
    if env in ENVIRONMENTS:
        language: Language = _module_of(env, "language").LANGUAGE
        return language
    if is_signed(settings):
        find_own_modules()
        with suppress(UsageError):
            return environment_class(env).language
    return PLAIN


def _module_of(env: str, name: str) -> ModuleType:
    """Import a module of a built-in environment's package."""
    return import_module(f"{ENVIRONMENTS[env].rpartition('.env:')[0]}.{name}")


def known_options() -> dict[str, tuple[Any, Option, list[str]]]:
    """Return the options of the built-in environments by name: default, declaration, and the
    environments that accept the option."""
    options: dict[str, tuple[Any, Option, list[str]]] = {}
    for env, declaring in _options_classes():
        for name, default, declaration in declaring.declared():
            options.setdefault(name, (default, declaration, []))[2].append(env)
    return options


def _options_classes() -> Iterator[tuple[str, type[Options]]]:
    for env in ("bash", "sql", "python", "ctf", "harbor"):
        yield env, getattr(_module_of(env, "options"), f"{env.title()}Options")


@cache
def all_options() -> Mapping[str, Option]:
    """Return the options of these environments and those of a run, by name."""
    from intercode.options import RunOptions

    options = {name: option for name, (_, option, _) in known_options().items()}
    for name, _, declaration in RunOptions.declared():
        options[name] = declaration
    return options


@cache
def all_facts() -> frozenset[str]:
    """Return what run.json may contain besides options (`Options.facts`)."""
    from intercode.options import RunOptions

    facts = set(RunOptions.all_facts())
    for _, declaring in _options_classes():
        facts.update(declaring.all_facts())
    return frozenset(facts)


def prepare(env: str, **options: Any) -> EnvFactory:
    """Prepare once what many environments share (data, template, gold outcomes). Each call of the
    returned factory makes an environment.

    The options are the fields of the class's `Options`; a reward may be named `module:function` or
    `path.py:function`. Raises `UsageError` for unknown options and `DataError` for data that cannot
    be read.
    """
    from intercode.factory import EnvFactory

    env_class = environment_class(env)
    if isinstance(reward := options.get("reward"), str) and ":" in reward:
        options["reward"] = load_reward(reward)
    parsed = env_class.Options.of(options, f"the environment {env}")
    factory = call_plugin(env_class.prepare, EnvFactory, parsed)
    return replace(
        factory,
        make=partial(_make, factory, env_class),
        prepare_again=partial(_prepare_again, env, options),
    )


def _prepare_again(env: str, options: Mapping[str, Any], tasks: Sequence[Task]) -> EnvFactory:
    return replace(prepare(env, **options), tasks=tasks)


def _make(factory: EnvFactory, env_class: type[InterCodeEnv]) -> InterCodeEnv:
    """Make an environment. Raises `UsageError` if the class overrides `__init__` with other
    parameters, or without calling `super().__init__`."""
    try:
        env = factory.make()
    except TypeError as error:
        if str(error).startswith(f"{env_class.__qualname__}.__init__()"):
            raise UsageError(
                f"{error}; let it take **how, and give that to super().__init__"
            ) from error
        raise
    if not hasattr(env, "tasks"):
        raise UsageError(
            f"{type(env).__qualname__}.__init__ does not call super().__init__, "
            "which makes it an environment"
        )
    return env


def make(env: str, *, render_mode: str | None = None, **options: Any) -> InterCodeEnv:
    """Make one environment, for example `intercode.make("bash", data=…, tree=…)`. The options are
    the fields of the class's `Options`."""
    environment = prepare(env, **options)()
    modes = environment.metadata.get("render_modes", ())
    if render_mode is not None and render_mode not in modes:
        environment.close()
        raise UsageError(f"render_mode {render_mode!r}: use one of {modes}, or None")
    environment.render_mode = render_mode
    return environment
