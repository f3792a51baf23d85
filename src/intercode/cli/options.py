"""The options that several commands share, as stacks of decorators; the file that a newcomer reads to add one."""

from __future__ import annotations

import functools
import math
import os
import sys
from collections.abc import Callable
from typing import Any

import click

from intercode.errors import UsageError

Command = Callable[..., None]
THERE, FOLDER = click.Path(exists=True), click.Path(exists=True, file_okay=False)
NEW_FILE = click.Path(dir_okay=False, writable=True)


def stack(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    return lambda command: functools.reduce(lambda wrapped, option: option(wrapped), reversed(options), command)


class Finite(click.FloatRange):
    """A number in a range that is neither infinite nor NaN, which lies in every range for click."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        return number if math.isfinite(number) else self.fail(f"{value} is no finite number.", param, ctx)


class _Text(click.ParamType[str]):
    """Some text; an empty one comes from a variable that was never set, and would mean the default."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value or self.fail("it is empty.", param, ctx)


TEXT = _Text()
_EACH_TIME = {"out", "resume", "retry_errors", "mended", "as_json"}


def find_own_modules() -> None:
    """Those in the working folder, where a console script does not look by itself; last, so that they hide no others."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)


def in_here(context: click.Context, parameter: click.Parameter, name: str | None) -> str | None:
    """A name that may be of a module in the working folder; the environment's stands in errors."""
    if name is None:
        return None
    if parameter.name == "env":
        context.meta["intercode.env"] = name
    if ":" in name and name.partition(":")[0] not in ("replay", "static"):
        find_own_modules()
    return name


def _names(context: click.Context, option: click.Parameter, text: str | None) -> list[str] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise click.BadParameter(f"{text!r} is not a list of names, such as gold,gold2")
    return names


def _played(context: click.Context, argument: click.Parameter, name: str | None) -> str | None:
    if name is None:
        folder = context.params["resume"]
        raise UsageError("name ENV" + (f"; {folder} holds no run that names it" if folder else ", or --resume DIR"))
    return in_here(context, argument, name)


ENV_HELP = "bash, sql, python, ctf, module:Class or path.py:Class."
played = click.argument("env", callback=_played, required=False)


def _reward(context: click.Context, option: click.Parameter, name: str | None) -> Any:
    if name is None or name in ("exact", "paper"):
        return name
    if ":" not in name:
        raise click.BadParameter(f"{name!r} is not exact, paper, module:function or path.py:function")
    from intercode.envs import load
    from intercode.envs.rewards import NamedReward

    in_here(context, option, name)
    found = load(name, "reward")
    return NamedReward(name, found) if callable(found) else found


world = stack(
    click.option(
        "--data", type=TEXT, metavar="NAME|FILE|DIR", help="Tasks: a downloaded set, a task file or a folder. [starter set]"
    ),
    click.option(
        "--gold-fields",
        callback=_names,
        metavar="FIELD,…",
        help="The fields of a record that hold golds, any of which may match. [gold]",
    ),
    click.option("--tree", type=THERE, help="Files that are placed at / (tar, or folder less any __pycache__)."),
    click.option("--setup", type=THERE, help="Bash script that runs once inside, after the tree is placed."),
    click.option(
        "--image",
        type=TEXT,
        metavar="NAME|ROOTFS|Dockerfile",
        help="Userland: a built image, or a root file system; for docker an image or a Dockerfile. [this machine's /usr]",
    ),
    click.option("--dump", type=THERE, help="sql: a MySQL dump with the databases."),
    click.option("--databases", type=THERE, help="sql: a folder of databases, NAME.sql or NAME.sqlite."),
    click.option(
        "--engine",
        type=TEXT,
        metavar="sqlite|mariadb",
        help="sql: the server. [sqlite; mariadb for a MySQL dump]",
    ),
    click.option("--handicap", is_flag=True, help="sql: show the schema in the first observation."),
    click.option("--robust", is_flag=True, help="sql: play each solved task on second contents as well, and report it."),
    click.option("--assets", type=THERE, help="ctf: a folder with ID/ or ID.tar, the files of each task."),
    click.option("--all", "everything", is_flag=True, help="ctf: keep tasks that need a network, files or another gold."),
    click.option("--limit", type=click.IntRange(1), help="Only the first N tasks."),
)


protocol = click.option("--protocol", type=click.Choice(["submit", "paper"]), default="submit", show_default=True)
scoring = stack(
    click.option(
        "--reward",
        callback=_reward,
        metavar="exact|paper|module:function|path.py:function",
        help="What an outcome is worth. [the environment's own, else exact; paper under the paper's protocol]",
    ),
    click.option(
        "--session",
        type=click.Choice(["persistent", "stateless"]),
        help="[persistent; stateless under the paper's protocol]",
    ),
    click.option(
        "--tell",
        type=click.Choice(["nothing", "number", "case"]),
        help="python: what is told of a wrong submission: the first failed public test's number, or that test. [number]",
    ),
    click.option("--submits", type=click.IntRange(1), help="python, ctf: how many submissions may be made. [1]"),
    click.option(
        "--sandbox",
        type=click.Choice(["local", "docker"]),
        help="bash, python, ctf: what the actions run in. [local]",
    ),
)
task = click.option("--task", type=TEXT, multiple=True, metavar="ID", help="Only this task; may be repeated.")
workers = click.option("--workers", type=click.IntRange(1), default=2, show_default=True)


def _stored(context: click.Context, option: click.Parameter, folder: str | None) -> str | None:
    """Take from the run in `folder` what is not given besides; a folder without a run has nothing to give."""
    if folder is None or not os.path.exists(os.path.join(folder, "run.json")):
        return folder
    from intercode.store import stream_run

    then = stream_run(folder, once=True)[0].get("options", {})
    if (command := then.get("command", context.info_name)) != context.info_name:
        raise UsageError(f"{folder} was made by `intercode {command}`; go on with {resume_line(folder, command)}")
    context.default_map = then
    return folder


def _one_folder(context: click.Context, option: click.Parameter, folder: str | None) -> str | None:
    resumed: str | None = context.params["resume"]
    if folder and resumed and folder != resumed:
        raise UsageError(f"--out {folder} and --resume {resumed} name two folders; leave --out away")
    return folder or resumed


def out(default: str) -> Callable[[Command], Command]:
    """`--resume` is parsed first, wherever it stands, since the run that it names has the values of the other options."""
    return stack(
        click.option("--out", type=TEXT, metavar="DIR", callback=_one_folder, help=f"Folder of a new run. [{default}]"),
        click.option(
            "--resume", type=TEXT, metavar="DIR", is_eager=True, callback=_stored,
            help="Go on with the run in DIR, with its options; begin it there if there is none.",
        ),
    )  # fmt: skip


def resume_line(folder: object, command: str | None = None) -> str:
    """The line that goes on with a run of this command."""
    import shlex

    return f"`intercode {command or click.get_current_context().info_name} --resume {shlex.quote(str(folder))}`"


def given_options() -> dict[str, Any]:
    """This command and its options, for `--resume`: without those that each call has anew, and without secrets."""
    context = click.get_current_context()
    for name in (context.default_map or {}).get("secret", ()):
        if not context.params[name]:
            raise UsageError(f"--{name.replace('_', '-')} was not stored, since it may hold a password; give it again")
    kept = {}
    for name, value in context.params.items():
        if value and name not in _EACH_TIME:
            listed = isinstance(value, list) or (isinstance(value, tuple) and all(isinstance(part, float) for part in value))
            kept[name] = ",".join(map(str, value)) if listed else getattr(value, "name", value)
    secret = [
        name for name, value in kept.items() if isinstance(value, str) and "://" in value and ("@" in value or "?" in value)
    ]
    return {"command": context.info_name, "secret": secret, **{name: kept[name] for name in kept if name not in secret}}


mended = click.option(
    "--mended",
    is_flag=True,
    help="Go on although the code of an agent, a reward or an environment, or a file of actions or replies, is another now.",
)
exclude = click.option(
    "--exclude-broken",
    is_flag=True,
    help="Leave out the tasks that `check` calls broken: by its findings in the cache, else it is run first.",
)
json_flag = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else.")
