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
    """A command that may take its options from a file. Its callback plans a run, and returns the
    function that plays it."""

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
            sys.exit(super().invoke(ctx)())
        from intercode.runs.evaluation import new_folder

        out, words = ctx.params["out"], ctx.meta["intercode.words"]
        if out:
            _require_no_other_run(ctx, Path(out), file)
        plans = {}
        for name, options in cells.items():
            place = []
            if out:
                place = ["--out", f"{out}/{name}", "--resume", f"{out}/{name}"]
            run = self.make_context(
                ctx.info_name, [*words, *place], parent=ctx.parent, default_map=options
            )
            del run.params["config"], run.params["print_config"]
            with run:
                plans[name] = run, super().invoke(run)
        folder = out or new_folder(Path("runs"), Path(file).stem, "grid")
        line = ["intercode", str(ctx.info_name), *words]
        if not ctx.params["resume"]:
            line += ["--resume", str(folder)]
        ctx.meta["intercode.resume"] = shlex.join(line)
        runs, status = dict[str, Context](), 0
        for name, (run, play) in plans.items():
            runs[f"{folder}/{name}"] = run
            say(f"intercode: run {len(runs)} of {len(plans)}", err=True)
            with run, redirect_stdout(sys.stderr) if run.params["as_json"] else nullcontext():
                status = max(status, play(out=f"{folder}/{name}", resume=True))
        self._report(ctx, runs)
        sys.exit(status)

    def _report(self, ctx: Context, runs: Mapping[str, Context]) -> None:
        """Report the runs in the order of the file, those of each environment together."""
        from intercode.cli.report import report

        groups = dict[str, list[str]]()
        for folder, run in runs.items():
            env = "" if ctx.params["as_json"] else run.params["env"]
            groups.setdefault(env, []).append(folder)
        for folders in groups.values():
            ctx.invoke(report, runs=folders, as_json=ctx.params["as_json"])


def _require_no_other_run(ctx: Context, folder: Path, file: str) -> None:
    """Raise `UsageError` if several runs cannot be written to `folder`."""
    if present(folder / "run.json"):
        raise UsageError(f"{folder} contains a run, and {file} describes several; choose another")
    if not ctx.params["resume"] and present(folder) and listed(folder):
        raise UsageError(f"{folder} is not empty; continue its runs with --resume {folder}")


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
                texts: list[Any] = [_text(part) for part in _listed(value)]
                if not all(texts):
                    raise UsageError(f"{file}: {name} is empty")
                if param.multiple:
                    texts = [texts]
                elif not texts:
                    raise UsageError(f"{file}: {name} is an empty list")
                elif isinstance(value, list):
                    is_grid = True
                    named.add(str(param.name))
                lists[str(param.name)] = texts
        for chosen in itertools.product(*lists.values()):
            options = dict(zip(lists, chosen, strict=True))
            labels = []
            for option in lists:
                if option in named:
                    label = split_agent(options[option])[0] or options[option]
                    labels.append(re.sub(r"[^\w.]+", "-", label).strip("-.")[:_LONGEST])
            name = "-".join(labels)
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


def _text(value: Any) -> str:
    """Return a value of a table as the command line has it."""
    if isinstance(value, dict):
        return json.dumps(value, default=str)
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value)


def _print_config(ctx: Context) -> None:
    values = {**(ctx.default_map or {}), **ctx.meta["intercode.given"]}
    for name, value in values.items():
        if name not in _OF_CALL:
            chosen = ctx.params.get(name)
            if isinstance(chosen, int | float):
                value = chosen
            click.echo(f"{name} = {json.dumps(value, ensure_ascii=False)}")
