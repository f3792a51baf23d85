"""Runs whose options are in a file: `eval --config FILE.toml`.

    agent = ["react", "try_again"]      a list: a run for each combination of such values
    turns = 8
    [sql]                               options of one environment
    engine = "mysql"

The command line takes precedence. If there are several runs, each is a folder in one folder, and
`--resume` continues them all.
"""

from __future__ import annotations

import itertools
import json
import re
import shlex
import sys
from collections.abc import Mapping
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

import click
from click import Context

from intercode.cli.options import EXISTING_FILE, Command, stack
from intercode.cli.output import say
from intercode.errors import UsageError, did_you_mean
from intercode.options import split_agent
from intercode.reading import listed, present, read_toml

_OF_CALL = {"config", "print_config", "resume", "trust", "as_json"}
"""Parameters that a file does not contain."""
_LONGEST = 40
"""The most characters of a value in the name of a run."""
Cell = tuple[str, dict[str, Any]]
"""One run: the name of its folder, and its options."""

config_options = stack(
    click.option(
        "--config",
        type=EXISTING_FILE,
        metavar="FILE",
        help="Take options from a TOML file; lists make one run for each combination.",
    ),
    click.option(
        "--print-config",
        is_flag=True,
        help="Print the options of this command as such a file, and play nothing.",
    ),
)


class GridCommand(Command):
    """A command that may take its options from a file."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        given = self.given(ctx, args)
        asks_help = not set(args).isdisjoint(self.get_help_option_names(ctx))
        if "config" in given and not asks_help and ctx.default_map is None:
            ctx.meta["intercode.words"] = list(args)
            cells = ctx.meta["intercode.cells"] = _cells(self, given)
            ctx.default_map = cells[0][1]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Context) -> Any:
        file = ctx.params.pop("config")
        cells = ctx.meta.pop("intercode.cells", ())
        if ctx.params.pop("print_config"):
            if len(cells) > 1:
                raise UsageError(f"{file} describes {len(cells)} runs; --print-config prints one")
            return _print_config(ctx)
        if len(cells) < 2:
            return super().invoke(ctx)
        folder = _folder(ctx, file)
        words = ["intercode", str(ctx.info_name), *ctx.meta["intercode.words"]]
        ctx.meta["intercode.resume"] = shlex.join([*words, "--resume", str(folder)])
        runs = []
        for name, options in cells:
            place = str(folder / name)
            words = [*ctx.meta["intercode.words"], "--out", place, "--resume", place]
            runs.append(
                self.make_context(ctx.info_name, words, parent=ctx.parent, default_map=options)
            )
        status = 0
        for number, run in enumerate(runs, start=1):
            say(f"intercode: run {number} of {len(runs)}", err=True)
            with run, redirect_stdout(sys.stderr) if run.params["as_json"] else nullcontext():
                try:
                    self.invoke(run)
                except SystemExit as end:
                    status = max(status, int(end.code or 0))
        from intercode.cli.report import report

        ctx.invoke(report, runs=[str(folder)], as_json=ctx.params["as_json"])
        sys.exit(status)


def _folder(ctx: Context, file: str) -> Path:
    """Return the folder of several runs."""
    from intercode.runs.evaluation import new_folder

    if not ctx.params["out"]:
        return new_folder(Path("runs"), Path(file).stem, "grid")
    folder = Path(ctx.params["out"])
    if present(folder / "run.json"):
        raise UsageError(f"{folder} contains a run, and {file} describes several; choose another")
    if not ctx.params["resume"] and present(folder) and listed(folder):
        raise UsageError(f"{folder} is not empty; continue its runs with --resume {folder}")
    return folder


def _cells(command: Command, given: Mapping[str, Any]) -> list[Cell]:
    """Return the runs that a file describes, without what the command line says."""
    file, params = given["config"], _params(command)
    content = read_toml(file)
    envs = _listed(given.get("env", content.pop("env", [])))
    tables = {}
    for name, value in content.items():
        if isinstance(value, dict) and name not in params:
            tables[name] = value
            if name not in envs:
                hint = did_you_mean(name, [*params, *envs])
                raise UsageError(f"{file}: [{name}] is neither an option nor ENV{hint}")
    cells = dict[str, dict[str, Any]]()
    for env in envs:
        lists = {"env": [env]}
        for name, value in {**content, **tables.get(env, {})}.items():
            word = name.replace("-", "_")
            if word not in params and name not in tables:
                raise UsageError(f"{file}: {name} is no option{did_you_mean(word, params)}")
            if name not in tables and params[word].name not in given:
                lists[str(params[word].name)] = _values(params[word], value)
        for values in itertools.product(*lists.values()):
            varied = [
                value
                for value, choices in zip(values, lists.values(), strict=True)
                if len(choices) > 1 or (len(envs) > 1 and choices == [env])
            ]
            name = "-".join(map(_label, varied))
            if name in cells:
                raise UsageError(f"{file}: two runs would be called {name!r}")
            cells[name] = dict(zip(lists, values, strict=True))
    if not cells:
        raise UsageError(f"{file}: a list is empty, or ENV is missing")
    return list(cells.items())


def _params(command: Command) -> dict[str, click.Parameter]:
    """Return the parameters that a file may contain, by each of their names."""
    params = {}
    for param in command.params:
        for word in (str(param.name), *param.opts):
            if param.name not in _OF_CALL:
                params[word.lstrip("-").replace("-", "_")] = param
    return params


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _values(param: click.Parameter, value: Any) -> list[Any]:
    """Return the values of an option, one for each run."""
    texts = []
    for part in _listed(value):
        texts.append(json.dumps(part) if isinstance(part, dict) else str(part))
    return [texts] if param.multiple else texts


def _label(value: object) -> str:
    text = split_agent(str(value))[0] or str(value)
    return re.sub(r"[^\w.]+", "-", text).strip("-.")[:_LONGEST]


def _print_config(ctx: Context) -> None:
    values = {**(ctx.default_map or {}), **ctx.meta["intercode.given"]}
    for name, value in values.items():
        if name not in _OF_CALL:
            chosen = ctx.params.get(name)
            if isinstance(chosen, int | float):
                value = chosen
            click.echo(f"{name} = {json.dumps(value, ensure_ascii=False)}")
