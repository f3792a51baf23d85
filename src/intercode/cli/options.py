"""Options that several commands share, the sections of the help, and the old spellings that still
work."""

from __future__ import annotations

import functools
import math
import os
import sys
from collections.abc import Callable
from typing import Any

import click

from intercode.errors import UsageError

Decorator = Callable[[Callable[..., None]], Callable[..., None]]
EXISTING_PATH, EXISTING_FOLDER = click.Path(exists=True), click.Path(exists=True, file_okay=False)
NEW_FILE = click.Path(dir_okay=False, writable=True)
COUNT = click.IntRange(1)

SECTIONS = {
    "Tasks": (
        "data gold_fields dump databases assets everything split limit task failed_in shuffle"
        " exclude_broken"
    ),
    "Environment": "env tree setup image engine handicap sandbox session protocol submits tell",
    "Agent and model": "agent model base_url temperature reply_tokens reply_seconds price",
    "Reward": "reward robust live judge",
    "Limits": "turns max_cost max_tokens max_seconds episode_cost episode_tokens episode_seconds",
    "Run": "epochs seed static workers shard on out resume trust retry_errors allow_code_change",
}
"""The headings of a command's help, and the parameters under each; the others stand under
"Options"."""
_SECTION = {name: title for title, names in SECTIONS.items() for name in names.split()}
_NOT_STORED = {"out", "resume", "trust", "retry_errors", "allow_code_change", "as_json"}


class Command(click.Command):
    """A command whose help lists its options by purpose. `given` are the parameters that stand on
    the command line."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        kinds = (str, bool, int, list, tuple)  # else click's mark of a missing argument
        ctx.meta["intercode.given"] = {
            name for name, value in words.items() if isinstance(value, kinds) and value != ()
        }
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        records: dict[str, list[tuple[str, str]]] = {title: [] for title in (*SECTIONS, "Options")}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)):
                records[_SECTION.get(str(param.name), "Options")].append(record)
        for title, rows in records.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


class Renamed(click.Option):
    """An option that also takes its spelling of the last release, `old`; help and messages show the
    new spelling."""

    def __init__(self, *words: Any, old: str, **options: Any) -> None:
        super().__init__(*words, **options)
        self.old = old

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        spellings = self.secondary_opts or self.opts
        spellings.append(self.old)
        super().add_to_parser(parser, ctx)
        spellings.remove(self.old)


class Finite(click.FloatRange):
    """A number in a range. Infinity and NaN are refused; click takes NaN to lie in every range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        return (
            number
            if math.isfinite(number)
            else self.fail(f"{value} is no finite number.", param, ctx)
        )


class _Text(click.ParamType[str]):
    """A text that is not empty: an empty one comes from an unset variable and would select the
    default in silence."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value or self.fail("it is empty.", param, ctx)


TEXT = _Text()


def stack(*options: Decorator) -> Decorator:
    return lambda command: functools.reduce(
        lambda wrapped, option: option(wrapped), reversed(options), command
    )


def find_own_modules() -> None:
    """Append the working folder to `sys.path`, where a console script does not look; last, so that
    it hides no module."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)


def own_name(context: click.Context, parameter: click.Parameter, name: str | None) -> str | None:
    """Take a name that may be of a module in the working folder. Errors name the environment's."""
    if name is None:
        return None
    if parameter.name == "env":
        context.meta["intercode.env"] = name
    if ":" in name and name.partition(":")[0] not in ("replay", "static"):
        find_own_modules()
    return name


def _env(context: click.Context, argument: click.Parameter, name: str | None) -> str | None:
    if name is None:
        folder = context.params["resume"]
        raise UsageError(
            "name ENV"
            + (f"; {folder} holds no run that names it" if folder else ", or --resume DIR")
        )
    return own_name(context, argument, name)


def _gold_fields(
    context: click.Context, option: click.Parameter, text: str | None
) -> list[str] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise click.BadParameter(f"{text!r} is not a list of names, such as gold,gold2")
    return names


def _reward(context: click.Context, option: click.Parameter, name: str | None) -> Any:
    if name is None or name in ("exact", "paper"):
        return name
    if ":" not in name:
        raise click.BadParameter(
            f"{name!r} is not exact, paper, module:function or path.py:function"
        )
    from intercode.envs.rewards import NamedReward
    from intercode.plugins import load_plugin

    own_name(context, option, name)
    found = load_plugin(name, "reward")
    return NamedReward(name, found) if callable(found) else found


ENV_HELP = "The environment: bash, sql, python, ctf, module:Class or path.py:Class."
env_argument = click.argument("env", callback=_env, required=False)
data_options = stack(
    click.option(
        "--data",
        type=TEXT,
        metavar="NAME|FILE|DIR",
        help="Read the tasks from a downloaded data set, a file or a folder. [the starter tasks]",
    ),
    click.option(
        "--gold-fields",
        callback=_gold_fields,
        metavar="FIELD,…",
        help=(
            "Name the fields of a task that hold a gold (a reference solution); matching any of"
            " them is enough. [gold]"
        ),
    ),
    click.option(
        "--tree",
        type=EXISTING_PATH,
        help="Put these files at / in the sandbox: a folder or a tar file.",
    ),
    click.option(
        "--setup",
        type=EXISTING_PATH,
        help="Run this Bash script once in the sandbox, after --tree is in place.",
    ),
    click.option(
        "--image",
        type=TEXT,
        metavar="NAME|DIR|DOCKERFILE",
        help=(
            "Take the programs of the sandbox from an image: one that `intercode image build` made,"
            " or a folder with a root file system; with --sandbox docker, a Docker image or a"
            " Dockerfile. [this machine's /usr]"
        ),
    ),
    click.option(
        "--dump", type=EXISTING_PATH, help="sql: Load the databases from this MySQL dump."
    ),
    click.option(
        "--databases",
        type=EXISTING_PATH,
        help="sql: Load NAME.sql and NAME.sqlite files from this folder.",
    ),
    click.option(
        "--engine",
        type=TEXT,
        callback=own_name,
        metavar="NAME",
        help=(
            "sql: Use this database engine: sqlite, mariadb, module:Class or path.py:Class."
            " [sqlite; mariadb with --dump]"
        ),
    ),
    click.option(
        "--show-schema",
        "handicap",
        cls=Renamed,
        old="--handicap",
        is_flag=True,
        help="sql: Show the agent the tables and columns at the start.",
    ),
    click.option(
        "--robust",
        is_flag=True,
        help=(
            "sql: Run each solved task again on variant data (other rows), and report how many"
            " still succeed."
        ),
    ),
    click.option(
        "--assets",
        type=EXISTING_PATH,
        help="ctf: Read the files of task ID from ID/ or ID.tar in this folder.",
    ),
    click.option(
        "--keep-unplayable",
        "everything",
        cls=Renamed,
        old="--all",
        is_flag=True,
        help="ctf: Keep tasks that need a network or a missing file, or whose gold is not a flag.",
    ),
    click.option("--limit", type=COUNT, metavar="N", help="Use the first N tasks only."),
)
protocol = click.option(
    "--protocol",
    type=click.Choice(["submit", "paper"]),
    default="submit",
    show_default=True,
    help=(
        "Decide when to score: once, when the agent submits; or after each action, as the paper"
        " did."
    ),
)
scoring_options = stack(
    click.option(
        "--reward",
        callback=_reward,
        metavar="exact|paper|module:function|path.py:function",
        help=(
            "Score strictly (exact), as the paper did, or by your own function. [exact, or your"
            " environment's own; paper with --protocol paper]"
        ),
    ),
    click.option(
        "--session",
        type=click.Choice(["persistent", "stateless"]),
        help=(
            "Keep one shell for an episode, or start one for each action. [persistent; stateless"
            " with --protocol paper]"
        ),
    ),
    click.option(
        "--feedback",
        "tell",
        cls=Renamed,
        old="--tell",
        type=click.Choice(["nothing", "number", "case"]),
        help=(
            "python: After a wrong submission, show nothing, the first failed public test's number,"
            " or that test. [number]"
        ),
    ),
    click.option(
        "--max-submissions",
        "submits",
        cls=Renamed,
        old="--submits",
        type=COUNT,
        metavar="N",
        help="python, ctf: Allow N submissions in an episode. [1]",
    ),
    click.option(
        "--sandbox",
        type=TEXT,
        callback=own_name,
        metavar="local|pod|docker|module:Class|path.py:Class",
        help=(
            "bash, python, ctf: Run the actions in this kind of sandbox, or in one of your own. "
            "[local; pod where no namespaces can be made]"
        ),
    ),
)
task = click.option(
    "--task", type=TEXT, multiple=True, metavar="ID", help="Use only this task. May be repeated."
)
split = click.option(
    "--split",
    type=TEXT,
    metavar="NAME",
    help="Use only the tasks whose field `split` is NAME, such as train or test.",
)
seed = click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="Start the random numbers from this number.",
)


def _shard(context: click.Context, option: click.Parameter, text: str | None) -> Any:
    from intercode.runner.shards import Shard

    return text and Shard.parse(text)


shard = click.option(
    "--shard",
    callback=_shard,
    metavar="I/N",
    help="Play part I of N of the episodes only; `intercode merge` makes one run of all parts.",
)
workers = click.option(
    "--workers",
    type=COUNT,
    default=2,
    show_default=True,
    metavar="N",
    help="Run N episodes at once.",
)
allow_code_change = click.option(
    "--allow-code-change",
    cls=Renamed,
    old="--mended",
    is_flag=True,
    help=(
        "With --resume: continue although your own code (agent, reward, environment) or a file of"
        " replies has changed."
    ),
)
exclude_broken = click.option(
    "--exclude-broken",
    is_flag=True,
    help=(
        "Leave out the tasks that `intercode check` calls broken; runs `check` first if it has not"
        " seen these tasks."
    ),
)


def out_file(metavar: str, text: str) -> Decorator:
    """Add `--out` as the parameter `file`: `out` is the run's folder, which the help lists
    elsewhere."""
    path = click.Path(dir_okay=False)
    return click.option(
        "--out", "file", cls=Renamed, old="--output", type=path, metavar=metavar, help=text
    )


trust = click.option(
    "--trust",
    is_flag=True,
    expose_value=False,
    help=(
        "Load the code, and use the files and addresses, that a run from elsewhere names; and sign"
        " it as yours."
    ),
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
    from intercode.store import stream_run
    from intercode.trust import require_trust

    settings = stream_run(folder)[0]
    options = settings.get("options", {})
    if (command := options.get("command", context.info_name)) != context.info_name:
        raise UsageError(
            f"{folder} was made by `intercode {command}`; go on with {resume_line(folder, command)}"
        )
    stored = {name: value for name, value in options.items() if name not in _NOT_STORED}
    used = {str(param.name) for param in context.command.params} - context.meta["intercode.given"]
    require_trust(
        settings, {name: stored[name] for name in used & stored.keys()}, trust=is_trusted()
    )
    context.default_map = stored
    return folder


def _one_folder(context: click.Context, option: click.Parameter, folder: str | None) -> str | None:
    resumed: str | None = context.params["resume"]
    if folder and resumed and folder != resumed:
        raise UsageError(
            f"--out {folder} and --resume {resumed} name two folders; leave --out away"
        )
    return folder or resumed


def run_folder(default: str) -> Decorator:
    """Add `--out` and `--resume`; the latter is parsed first, since its run holds the values of the
    other options."""
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
                "Continue the run in this folder with its own options; start a new run there if it"
                " holds none."
            ),
        ),
        trust,
    )


def is_trusted() -> bool:
    """Return whether `--trust` stands on the command line."""
    return "trust" in click.get_current_context().meta["intercode.given"]


def resume_line(folder: object, command: str | None = None) -> str:
    """Return the shell line that continues a run of this command, or of `command`."""
    import shlex

    return (
        f"`intercode {command or click.get_current_context().info_name} --resume"
        f" {shlex.quote(str(folder))}`"
    )


def options_to_store() -> dict[str, Any]:
    """Return this command and its options for `--resume`, without secrets and without options of a
    single call.

    Raises `UsageError` if a resumed run left out an option as secret and the user does not give it
    again.
    """
    context = click.get_current_context()
    for name in (context.default_map or {}).get("secret", ()):
        if name in context.params and not context.params[name]:
            raise UsageError(
                f"--{name.replace('_', '-')} was not stored, since it may hold a password; give it"
                " again"
            )
    kept: dict[str, Any] = {}
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
            kept[name] = ",".join(map(str, value)) if listed else getattr(value, "name", value)
    return {"command": context.info_name, "secret": secret, **kept}
