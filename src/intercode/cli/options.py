"""Options that several commands share, and the sections of the help."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
from click import Context, Parameter

from intercode.cli.completion import NAMES, completing
from intercode.envs import ENVIRONMENTS, all_options, known_options
from intercode.errors import UsageError, did_you_mean_file
from intercode.options import SECTIONS, Option, Options
from intercode.plugins import find_own_modules

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class _Existing(click.Path):
    """The path of something that exists. The error says what a path is that cannot be looked at, or
    names a file of nearly that name."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        from intercode.reading import present  # importing it takes as long as the rest of --help

        try:
            is_there = present(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)
        if not is_there:
            self.fail(f"{value!r} does not exist{did_you_mean_file(value)}", param, ctx)
        return super().convert(value, param, ctx)


EXISTING_PATH, EXISTING_FOLDER = _Existing(True), _Existing(True, file_okay=False)
EXISTING_FILE = _Existing(True, dir_okay=False)


class _RunPath(_Existing):
    """A run folder, a folder of runs, or a recording; a file of a run folder is refused."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        from intercode.reading import present

        path = os.fsdecode(super().convert(value, param, ctx))
        folder = os.path.dirname(path) or "."
        if present(path) == "file" and present(os.path.join(folder, "run.json")):
            self.fail(f"{path} is a file of a run; name its folder, {folder}", param, ctx)
        return path


RUN_PATH = _RunPath(True)
NEW_FILE = click.Path(dir_okay=False, writable=True)
COUNT = click.IntRange(1)

INSTALL_VIEWER = "pip install jinja2 starlette uvicorn"

_OTHER_SECTIONS = {
    "env": "Environment",
    "live": "Reward",
    "judge": "Reward",
    "static": "Run",
    "against": "Tasks",
    "agents": "Agent and model",
    "allow_base_url": "Agent and model",
} | dict.fromkeys(
    ("out", "resume", "trust", "retry_errors", "allow_code_change", "config", "print_config"), "Run"
)
"""The headings of options that belong to single commands; others appear under "Options"."""
_NOT_STORED = {
    *("out", "resume", "trust", "retry_errors", "allow_code_change", "as_json"),
    *("config", "print_config"),
    "allow_host_network",
}


class StrictCommand(click.Command):
    """A command that refuses empty values: one comes from an unset variable, and would silently
    select the default."""

    def given(self, ctx: Context, args: list[str]) -> dict[str, Any]:
        """Return what the command line says, as it stands there, by the parameters' names."""
        given = {}
        for name, value in self.make_parser(ctx).parse_args(args=list(args))[0].items():
            # other values are click's mark of a missing argument
            if isinstance(value, str | bool | int | list | tuple) and value != ():
                given[name] = value
        return given

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        given = ctx.meta["intercode.given"] = self.given(ctx, args)
        for param in self.params:
            value = given.get(str(param.name))
            if value == "" or (isinstance(value, list | tuple) and "" in value):
                raise click.BadParameter("it is empty.", param=param)
        return super().parse_args(ctx, args)


class Command(StrictCommand):
    """A command whose help lists its options by purpose. It receives only those of the
    environments' options that differ from their defaults, since each environment has other
    options."""

    def format_options(self, ctx: Context, formatter: click.HelpFormatter) -> None:
        records: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)):
                name = str(param.name)
                title = _OTHER_SECTIONS.get(name, "Options")
                if name in all_options():
                    title = all_options()[name].section
                records.setdefault(title, []).append(record)
        for title in (*SECTIONS, "Options"):
            if title in records:
                with formatter.section(title):
                    formatter.write_dl(records[title])

    def invoke(self, ctx: Context) -> Any:
        env = ctx.params.get("env")
        for param in self.params:
            if not isinstance(param, _WorldOption):
                continue
            if ctx.params.get(param.name or "", param.unset) == param.unset:
                ctx.params.pop(param.name or "", None)
            elif env in ENVIRONMENTS and env not in param.environments:
                raise UsageError(
                    f"the environment {env} takes no {param.opts[0]}, which is an option of "
                    f"{', '.join(param.environments)}"
                )
        return super().invoke(ctx)


command = functools.partial(click.command, cls=Command)


class _WorldOption(click.Option):
    """An option of `environments`; `unset` is its default."""

    def __init__(self, *words: Any, unset: Any, environments: Sequence[str], **how: Any) -> None:
        super().__init__(*words, **how)
        self.unset, self.environments = unset, environments


class Finite(click.FloatRange):
    """A number in a range. Infinity and NaN are refused; for click, NaN lies in every range."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


def stack(*options: Decorator) -> Decorator:
    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def own_name(context: Context, parameter: Parameter, name: str | None) -> str | None:
    """Return `name`; if it may name a module, make the working folder importable. Note ENV for
    errors."""
    if name is None:
        return None
    if parameter.name == "env":
        context.meta["intercode.env"] = name
    if ":" in name and name.partition(":")[0] not in ("replay", "static"):
        find_own_modules()
    return name


def _env(context: Context, argument: Parameter, name: str | None) -> str | None:
    if name is not None:
        return own_name(context, argument, name)
    otherwise = ""
    if folder := context.params.get("resume"):
        otherwise = f"; {folder} contains no run that names it"
    elif "resume" in context.params:
        otherwise = ", or --resume DIR"
    raise UsageError(f"name ENV{otherwise}")


ENV_HELP = "The environment: bash, sql, python, ctf, harbor, module:Class or path.py:Class."
env_argument = click.argument(
    "env", callback=_env, required=False, shell_complete=completing("env")
)


def declared(source: type[Options], *names: str, **defaults: Any) -> Decorator:
    """Add options of `source`: those named, or all. `defaults` replace declared defaults."""
    options = []
    for name, default, option in source.declared():
        if not names or name in names:
            options.append(_click_option(name, defaults.get(name, default), option))
    return stack(*options)


def world(leave: str = "") -> Decorator:
    """Add the options of all environments but those named in `leave`."""
    options = []
    for name, (default, option, environments) in known_options().items():
        if name not in leave.split():
            options.append(_click_option(name, default, option, environments))
    return stack(*options)


def _click_option(
    name: str, default: Any, option: Option, environments: Sequence[str] = ()
) -> Decorator:
    """Return the decorator of a declared option; the help names the environments that take it,
    unless all do."""
    flag, kind = f"--{(option.flag or name).replace('_', '-')}", option.kind
    how: dict[str, Any] = {"help": option.help}
    if 0 < len(environments) < len(ENVIRONMENTS):
        how["help"] = f"{', '.join(environments)}: {option.help}"
    if option.metavar:
        how["metavar"] = option.metavar
    if option.names == "code":
        how["callback"] = own_name
    if kind == "flag":
        how["is_flag"] = True
    elif kind == "texts":
        how |= {"multiple": True}
    elif isinstance(kind, tuple):
        how["type"] = click.Choice(kind)
    elif callable(kind) or kind in _READERS:
        how["callback"] = functools.partial(_read, kind)
    else:
        how["type"] = _TYPES[kind]
    if kind not in ("flag", "texts") and default is not None:
        how |= {"default": default, "show_default": True}
    if name in NAMES:
        how["shell_complete"] = completing(name)
    if option.from_outside:
        how["default"] = option.from_outside
    if environments:
        how |= {"cls": _WorldOption, "unset": default, "environments": environments}
    return click.option(flag, name, **how)


def _read(
    kind: str | Callable[[str], Any],
    context: Context,
    option: Parameter,
    text: str | None,
) -> Any:
    if text is None:
        return None
    try:
        return kind(text) if callable(kind) else _READERS[kind](context, option, text)
    except UsageError as error:
        raise click.BadParameter(str(error)) from error


def _reward(context: Context, option: Parameter, name: str) -> Any:
    if ":" not in name:  # the environment knows its rewards by name
        return name
    from intercode.envs.rewards import NamedReward
    from intercode.plugins import load_plugin

    own_name(context, option, name)
    reward = load_plugin(name, "reward")
    return NamedReward(name, reward) if callable(reward) else reward


def _shard(context: Context, option: Parameter, text: str) -> Any:
    from intercode.runner.shards import Shard

    return Shard.parse(text)


_READERS = {"reward": _reward, "shard": _shard}
_TYPES = {
    "text": click.STRING,
    "count": COUNT,
    "integer": click.INT,
    "positive": Finite(0, min_open=True),
    "number": Finite(0),
    "path": EXISTING_PATH,
    "folder": EXISTING_FOLDER,
}
allow_code_change = click.option(
    "--allow-code-change",
    is_flag=True,
    help=(
        "With --resume: continue although your own code (agent, reward, environment) or a file "
        "of replies has changed."
    ),
)


def out_file(metavar: str, text: str) -> Decorator:
    """Add `--out` as the parameter `file`: `out` is the run's folder, which the help lists
    elsewhere."""
    path = click.Path(dir_okay=False)
    return click.option("--out", "file", type=path, metavar=metavar, help=text)


trust = click.option(
    "--trust",
    is_flag=True,
    expose_value=False,
    help=(
        "Load the code, and use the files and addresses, that a run from elsewhere names; "
        "and sign it as yours."
    ),
)
data_now = click.option(
    "--data",
    metavar="PATH",
    help="Where the data of the run are now, which contain its golds. [where they were]",
)
json_flag = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object on stdout and nothing else."
)


def _stored_options(context: Context, option: Parameter, folder: str | None) -> str | None:
    """Take the options that the user leaves out from the run in `folder`, if it holds a run."""
    if folder is None or not os.path.exists(os.path.join(folder, "run.json")):
        return folder
    from intercode.runs.store import stream_run
    from intercode.runs.trust import require_trust

    settings = stream_run(folder)[0]
    options = settings.get("options", {})
    if (command := options.get("command", context.info_name)) != context.info_name:
        raise UsageError(
            f"{folder} was made by `intercode {command}`; "
            f"continue with {resume_line(folder, command)}"
        )
    stored = {name: value for name, value in options.items() if name not in _NOT_STORED}
    given = context.meta["intercode.given"] | (context.default_map or {})
    params = [p for p in context.command.params if p.name in stored and p.name not in given]
    used = {param.name or "": stored[param.name or ""] for param in params}
    require_trust(settings, used, trust=is_trusted())
    for param in params:
        value = stored[param.name or ""]
        try:
            param.type_cast_value(context, value)
        except (TypeError, ValueError, click.BadParameter) as error:
            raise UsageError(
                f"{folder}/run.json is damaged: its option {param.name} is {value!r:.100}"
            ) from error
    context.default_map = {**stored, **(context.default_map or {})}
    return folder


def _one_folder(context: Context, option: Parameter, folder: str | None) -> str | None:
    resumed: str | None = context.params["resume"]
    if folder and resumed and folder != resumed:
        raise UsageError(
            f"--out {folder} and --resume {resumed} name two folders; leave --out away"
        )
    return folder or resumed


def run_folder(default: str) -> Decorator:
    """Add `--out` and `--resume`; the latter is parsed first, since its run contains the values of
    the other options."""
    return stack(
        click.option(
            "--out",
            metavar="DIR",
            callback=_one_folder,
            help=f"Write the run to this new folder. [{default}]",
        ),
        click.option(
            "--resume",
            metavar="DIR",
            is_eager=True,
            callback=_stored_options,
            help=(
                "Continue the run in this folder with its own options; "
                "start a new run there if it holds none."
            ),
        ),
        trust,
    )


def is_trusted() -> bool:
    """Return whether `--trust` appears on the command line."""
    return "trust" in click.get_current_context().meta["intercode.given"]


listening = stack(
    click.option(
        "--host",
        default="127.0.0.1",
        show_default=True,
        metavar="ADDRESS",
        help="Listen on this IP address.",
    ),
    click.option(
        "--port",
        type=click.IntRange(0, 65535),
        default=0,
        metavar="N",
        help="Listen on this port. [a free one]",
    ),
)
"""Adds `--host` and `--port`."""


@contextmanager
def listening_at(host: str, port: int) -> Iterator[None]:
    """Raise `UsageError` if the block cannot listen there."""
    try:
        yield
    except ValueError:
        raise UsageError(f"--host {host}: give an IP address or localhost") from None
    except OSError as error:
        raise UsageError(
            f"{host} port {port} cannot be used: {error.strerror}; choose another with --port"
        ) from error


def lacks_viewer(what: str, error: ImportError) -> UsageError:
    """Return the error that names the packages which `what` needs."""
    return UsageError(f"{what} needs more packages ({error.name}): {INSTALL_VIEWER}")


def resume_line(folder: object, command: str | None = None) -> str:
    """Return the shell line that continues a run of this command, or of `command`."""
    import shlex

    context = click.get_current_context()
    if line := context.meta.get("intercode.resume"):
        return f"`{line}`"
    return f"`intercode {command or context.info_name} --resume {shlex.quote(str(folder))}`"


def options_to_store() -> dict[str, Any]:
    """Return this command and its options for `--resume`, without secrets and options that apply to
    one call.

    Raises `UsageError` if a resumed run left out an option as secret and the user does not give it
    again.
    """
    context = click.get_current_context()
    for name in (context.default_map or {}).get("secret", ()):
        if name in context.params and not context.params[name]:
            raise UsageError(
                f"--{name.replace('_', '-')} was not stored, "
                "since it may hold a password; give it again"
            )
    stored: dict[str, Any] = {"command": context.info_name, "secret": []}
    for name, value in context.params.items():
        if not value or name in _NOT_STORED:
            continue
        if isinstance(value, str) and "://" in value and ("@" in value or "?" in value):
            stored["secret"].append(name)
        elif isinstance(value, list) or (
            isinstance(value, tuple) and all(isinstance(part, float) for part in value)
        ):
            stored[name] = ",".join(map(str, value))
        else:
            stored[name] = getattr(value, "name", value)
    return stored
