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
from contextlib import nullcontext, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import click
from click import Context

from intercode.agents.named import options_of_model
from intercode.cli.options import EXISTING_FILE, Command, stack
from intercode.cli.output import say
from intercode.errors import UsageError, did_you_mean
from intercode.options import split_agent
from intercode.reading import listed, present, read_toml

_OF_CALL = {"config", "print_config", "resume", "trust", "as_json"}
"""Parameters that a file does not contain."""
_LONGEST = 40
"""The most characters of a value in the name of a run."""

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
            ctx.default_map = next(iter(cells.values()))
        chosen = {**(ctx.default_map or {}), **given}
        options = {**options_of_model(chosen.get("model")), **chosen}
        params = _params(self)
        for name, value in options.items():
            if name not in chosen and name in params:
                ctx.default_map = {name: _text(value), **(ctx.default_map or {})}
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Context) -> Any:
        file = ctx.params.pop("config", None)
        cells = ctx.meta.pop("intercode.cells", {})
        if ctx.params.pop("print_config", False):
            if len(cells) > 1:
                raise UsageError(f"{file} describes {len(cells)} runs; --print-config prints one")
            return _print_config(ctx)
        if set(cells) <= {""}:
            return super().invoke(ctx)
        folder = _folder(ctx, file)
        try:
            runs = self._planned(ctx, folder, cells)
        except BaseException:
            with suppress(OSError):  # they are empty, unless there are earlier runs
                folder.rmdir()
                folder.parent.rmdir()
            raise
        status = 0
        for number, run in enumerate(runs.values(), start=1):
            say(f"intercode: run {number} of {len(runs)}", err=True)
            with run, redirect_stdout(sys.stderr) if run.params["as_json"] else nullcontext():
                try:
                    super().invoke(run)
                except SystemExit as end:
                    status = max(status, int(end.code or 0))
        self._report(ctx, runs)
        sys.exit(status)

    def _planned(
        self, ctx: Context, folder: Path, cells: Mapping[str, dict[str, Any]]
    ) -> dict[str, Context]:
        """Return a context for each run, by its folder; raise an error if one cannot be played."""
        words = ctx.meta["intercode.words"]
        line = ["intercode", str(ctx.info_name), *words]
        if not ctx.params["resume"]:
            line += ["--resume", str(folder)]
        ctx.meta["intercode.resume"] = shlex.join(line)
        runs = {}
        ctx.meta["intercode.planning"] = True
        for name, options in cells.items():
            place = str(folder / name)
            words = [*ctx.meta["intercode.words"], "--out", place, "--resume", place]
            run = self.make_context(ctx.info_name, words, parent=ctx.parent, default_map=options)
            del run.params["config"], run.params["print_config"]
            with run:
                super().invoke(run)
            runs[place] = run
        ctx.meta["intercode.planning"] = False
        return runs

    def _report(self, ctx: Context, runs: Mapping[str, Context]) -> None:
        """Report the runs in the order of the file, those of each environment together."""
        from intercode.cli.report import report

        groups = dict[str, list[str]]()
        for folder, run in runs.items():
            env = "" if ctx.params["as_json"] else run.params["env"]
            groups.setdefault(env, []).append(folder)
        for folders in groups.values():
            ctx.invoke(report, runs=folders, as_json=ctx.params["as_json"])


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


def _cells(command: Command, given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the options of each run that a file describes, without what the command line says, by
    the run's name, which is "" if there is one run and no list."""
    file, params = given["config"], _params(command)
    content = read_toml(file)
    of_file = _listed(content.pop("env", []))
    envs = _listed(given.get("env", of_file))
    is_grid, tables = len(envs) > 1, {}
    for name, value in content.items():
        if isinstance(value, dict) and name not in params:
            tables[name] = value
            if name not in [*envs, *of_file]:
                hint = did_you_mean(name, [*params, *envs])
                raise UsageError(f"{file}: [{name}] is neither an option nor ENV{hint}")
    if not envs:
        raise UsageError(f'{file}: name ENV, such as env = "bash"')
    cells = dict[str, dict[str, Any]]()
    for env in envs:
        lists, named = {"env": [env]}, {"env", "agent", "model"}
        for name, value in {**content, **tables.get(env, {})}.items():
            if name in tables:
                continue
            param = params.get(name.replace("-", "_"))
            if param is None:
                raise UsageError(f"{file}: {name} is no option{did_you_mean(name, params)}")
            if param.name not in given:
                lists[str(param.name)] = _values(param, value, f"{file}: {name}")
                if isinstance(value, list) and not param.multiple:
                    is_grid = True
                    named.add(str(param.name))
        for chosen in itertools.product(*lists.values()):
            options = dict(zip(lists, chosen, strict=True))
            name = "-".join(_label(options[option]) for option in lists if option in named)
            if name in cells:
                raise UsageError(f"{file}: two runs would be called {name!r}")
            cells[name] = options
    return cells if is_grid else {"": options}


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


def _values(param: click.Parameter, value: Any, where: str) -> list[Any]:
    """Return the values of an option, one for each run."""
    texts = [_text(part) for part in _listed(value)]
    if not all(texts):
        raise UsageError(f"{where} is empty")
    if param.multiple:
        return [texts]
    if not texts:
        raise UsageError(f"{where} is an empty list")
    return texts


def _text(value: Any) -> str:
    """Return a value of a table as the command line has it."""
    if isinstance(value, dict):
        return json.dumps(value, default=str)
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value)


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
