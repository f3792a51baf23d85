"""Options that several commands share, the sections of the help, and the old spellings that still
work."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click

from intercode.cli.completion import NAMES, completing
from intercode.envs import ENVIRONMENTS, all_options, known_options
from intercode.errors import UsageError, did_you_mean_file
from intercode.options import SECTIONS, Option, Options
from intercode.plugins import find_own_modules

Decorator = Callable[[Callable[..., None]], Callable[..., None]]


class _Existing(click.Path):
    """The path of something that exists. The error says what a path is that cannot be looked at, or
    names a file of nearly that name."""

    def __init__(self, **options: Any) -> None:
        super().__init__(exists=True, **options)

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        from intercode.reading import present  # importing it takes as long as the rest of --help

        try:
            is_there = present(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)
        if not is_there:
            self.fail(f"{value!r} does not exist{did_you_mean_file(value)}", param, ctx)
        return super().convert(value, param, ctx)


EXISTING_PATH, EXISTING_FOLDER = _Existing(), _Existing(file_okay=False)
EXISTING_FILE = _Existing(dir_okay=False)


class _RunPath(_Existing):
    """A run folder, a folder of runs, or a recording; a file of a run folder is refused."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        from intercode.reading import present

        path = os.fsdecode(super().convert(value, param, ctx))
        folder = os.path.dirname(path) or "."
        if present(path) == "file" and present(os.path.join(folder, "run.json")):
            self.fail(f"{path} is a file of a run; name its folder, {folder}", param, ctx)
        return path


RUN_PATH = _RunPath()
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
} | dict.fromkeys(("out", "resume", "trust", "retry_errors", "allow_code_change"), "Run")
"""The headings of options that belong to single commands; others appear under "Options"."""
_NOT_STORED = {
    *("out", "resume", "trust", "retry_errors", "allow_code_change", "as_json"),
    "allow_host_network",
}


class Command(click.Command):
    """A command whose help lists its options by purpose. It receives only those of the
    environments' options that differ from their defaults, since each environment has other
    options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        kinds = (str, bool, int, list, tuple)  # else click's mark of a missing argument
        ctx.meta["intercode.given"] = {
            name for name, value in words.items() if isinstance(value, kinds) and value != ()
        }
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        records: dict[str, list[tuple[str, str]]] = {title: [] for title in (*SECTIONS, "Options")}
        declared = {name: option.section for name, option in all_options().items()}
        sections = _OTHER_SECTIONS | declared
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)):
                records[sections.get(str(param.name), "Options")].append(record)
        for title, rows in records.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
        env = ctx.params.get("env")
        for param in self.params:
            if not isinstance(param, _WorldOption):
                continue
            if ctx.params[str(param.name)] == param.unset:
                del ctx.params[str(param.name)]
            elif env in ENVIRONMENTS and env not in param.environments:
                raise UsageError(
                    f"the environment {env} takes no {param.opts[0]}, which is an option of "
                    f"{', '.join(param.environments)}"
                )
        return super().invoke(ctx)


class _WorldOption(click.Option):
    """An option of `environments`; `unset` is its default."""

    def __init__(self, *words: Any, unset: Any, environments: Sequence[str], **how: Any) -> None:
        super().__init__(*words, **how)
        self.unset, self.environments = unset, environments


class Finite(click.FloatRange):
    """A number in a range. Infinity and NaN are refused; for click, NaN lies in every range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        return (
            number
            if math.isfinite(number)
            else self.fail(f"{value} is not a finite number.", param, ctx)
        )


class _Text(click.ParamType[str]):
    """A text that is not empty: an empty one comes from an unset variable and would silently select
    the default."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value or self.fail("it is empty.", param, ctx)


TEXT = _Text()


def stack(*options: Decorator) -> Decorator:
    return lambda command: functools.reduce(
        lambda wrapped, option: option(wrapped), reversed(options), command
    )


def own_name(context: click.Context, parameter: click.Parameter, name: str | None) -> str | None:
    """Return `name`; if it may name a module, make the working folder importable. Note ENV for
    errors."""
    if name is None:
        return None
    if parameter.name == "env":
        context.meta["intercode.env"] = name
    if ":" in name and name.partition(":")[0] not in ("replay", "static"):
        find_own_modules()
    return name


def _env(context: click.Context, argument: click.Parameter, name: str | None) -> str | None:
    if name is None:
        folder, otherwise = context.params.get("resume"), ""
        if folder:
            otherwise = f"; {folder} contains no run that names it"
        elif "resume" in context.params:
            otherwise = ", or --resume DIR"
        raise UsageError(f"name ENV{otherwise}")
    return own_name(context, argument, name)


ENV_HELP = "The environment: bash, sql, python, ctf, harbor, module:Class or path.py:Class."
env_argument = click.argument(
    "env", callback=_env, required=False, shell_complete=completing("env")
)


def declared(source: type[Options], *names: str, **defaults: Any) -> Decorator:
    """Add options of `source`: those named, or all. `defaults` replace declared defaults."""
    every = {name: (default, option, ()) for name, default, option in source.declared()}
    return _add({name: every[name] for name in names or every}, defaults)


def world(leave: str = "") -> Decorator:
    """Add the options of all environments but those named in `leave`."""
    left = leave.split()
    return _add({name: entry for name, entry in known_options().items() if name not in left}, {})


def _add(
    entries: Mapping[str, tuple[Any, Option, Sequence[str]]], defaults: Mapping[str, Any]
) -> Decorator:
    return stack(
        *(
            _click_option(name, defaults.get(name, default), one, environments)
            for name, (default, one, environments) in entries.items()
        )
    )


def _click_option(name: str, default: Any, one: Option, environments: Sequence[str]) -> Decorator:
    """Return the decorator of a declared option; the help names the environments that take it,
    unless all do."""
    flag = f"--{(one.flag or name).replace('_', '-')}"
    some = 0 < len(environments) < len(ENVIRONMENTS)
    how: dict[str, Any] = {"help": f"{', '.join(environments)}: {one.help}" if some else one.help}
    if one.metavar:
        how["metavar"] = one.metavar
    if one.kind == "flag":
        how |= {"is_flag": True}
    elif one.kind == "texts":
        how |= {"type": TEXT, "multiple": True}
    elif isinstance(one.kind, tuple):
        how |= {"type": click.Choice(one.kind)}
    elif callable(one.kind) or one.kind in _READERS:
        how |= {"callback": functools.partial(_read, one.kind)}
    else:
        how |= {"type": _TYPES[one.kind]}
    if one.names == "code" and "callback" not in how:
        how["callback"] = own_name
    if one.kind not in ("flag", "texts") and default is not None:
        how |= {"default": default, "show_default": True}
    if name in NAMES:
        how["shell_complete"] = completing(name)
    if one.from_outside:
        how["default"] = one.from_outside
    if not environments:
        return click.option(flag, name, **how)
    return click.option(
        flag, name, cls=_WorldOption, unset=default, environments=environments, **how
    )


def _read(
    kind: str | Callable[[str], Any],
    context: click.Context,
    option: click.Parameter,
    text: str | None,
) -> Any:
    if text is None:
        return None
    try:
        return kind(text) if callable(kind) else _READERS[kind](context, option, text)
    except UsageError as error:
        raise click.BadParameter(str(error)) from error


def _reward(context: click.Context, option: click.Parameter, name: str) -> Any:
    if ":" not in name:  # the environment knows its rewards by name
        return name
    from intercode.envs.rewards import NamedReward
    from intercode.plugins import load_plugin

    own_name(context, option, name)
    reward = load_plugin(name, "reward")
    return NamedReward(name, reward) if callable(reward) else reward


def _shard(context: click.Context, option: click.Parameter, text: str) -> Any:
    from intercode.runner.shards import Shard

    return Shard.parse(text)


_READERS = {"reward": _reward, "shard": _shard}
_TYPES = {
    "text": TEXT,
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
    type=TEXT,
    metavar="PATH",
    help="Where the data of the run are now, which contain its golds. [where they were]",
)
json_flag = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object on stdout and nothing else."
)


def _stored_options(
    context: click.Context, option: click.Parameter, folder: str | None
) -> str | None:
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
    used = {str(param.name) for param in context.command.params} - context.meta["intercode.given"]
    require_trust(
        settings, {name: stored[name] for name in used & stored.keys()}, trust=is_trusted()
    )
    for param in context.command.params:
        if param.name in used & stored.keys():
            _require_value(context, param, stored[param.name], folder)
    context.default_map = stored
    return folder


def _require_value(
    context: click.Context, param: click.Parameter, value: object, folder: str
) -> None:
    """Raise `UsageError` if a stored value is not valid for its option."""
    try:
        param.type_cast_value(context, value)
    except (TypeError, ValueError, click.BadParameter) as error:
        raise UsageError(
            f"{folder}/run.json is damaged: its option {param.name} is {value!r:.100}"
        ) from error


def _one_folder(context: click.Context, option: click.Parameter, folder: str | None) -> str | None:
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
            type=TEXT,
            metavar="DIR",
            callback=_one_folder,
            help=f"Write the run to this new folder. [{default}]",
        ),
        click.option(
            "--resume",
            type=TEXT,
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


def listening(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--host` and `--port`."""
    host = click.option(
        "--host",
        default="127.0.0.1",
        show_default=True,
        metavar="ADDRESS",
        help="Listen on this IP address.",
    )
    port = click.option(
        "--port",
        type=click.IntRange(0, 65535),
        default=0,
        metavar="N",
        help="Listen on this port. [a free one]",
    )
    return host(port(command))


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

    return (
        f"`intercode {command or click.get_current_context().info_name} --resume "
        f"{shlex.quote(str(folder))}`"
    )


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
    stored: dict[str, Any] = {}
    secret = []
    for name, value in context.params.items():
        if (
            isinstance(value, str)
            and "://" in value
            and ("@" in value or "?" in value)
            and name not in _NOT_STORED
        ):
            secret.append(name)
        elif value and name not in _NOT_STORED:
            listed = isinstance(value, list) or (
                isinstance(value, tuple) and all(isinstance(part, float) for part in value)
            )
            stored[name] = ",".join(map(str, value)) if listed else getattr(value, "name", value)
    return {"command": context.info_name, "secret": secret, **stored}
