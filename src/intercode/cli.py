"""The command line: it parses, calls, and prints; what is done is done elsewhere.

Imports stay inside the commands, pathlib's and json's too, so that `intercode --help` costs little more than click itself.
Exit status: 0 done, 1 the checked thing fell short, 2 wrong usage, 3 an infrastructure fault, 130 interrupted.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import click

from intercode.errors import IntercodeError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from intercode.types import Episode

Command = Callable[..., None]


class _Group(click.Group):
    """Turns our errors into exit statuses, in this one place."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except IntercodeError as error:
            click.echo(f"intercode: {error}", err=True)
            sys.exit(2 if isinstance(error, UsageError) else 3)
        except (KeyboardInterrupt, click.exceptions.Abort) as interrupt:
            click.echo(f"intercode: {interrupt or 'interrupted'}", err=True)
            sys.exit(130)


def _stack(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    return lambda command: functools.reduce(lambda wrapped, option: option(wrapped), reversed(options), command)


def _price(context: click.Context, option: click.Parameter, text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        tokens_in, tokens_out = (float(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not two numbers, such as 0.15,0.60") from None
    if not (0 <= tokens_in < float("inf") and 0 <= tokens_out < float("inf")):
        raise click.BadParameter(f"{text!r} is no price: both numbers are 0 or more")
    return tokens_in, tokens_out


_world = _stack(
    click.option("--data", metavar="NAME|FILE|DIR", help="Tasks: a downloaded set, a task file or a folder. [starter set]"),
    click.option("--tree", type=click.Path(exists=True), help="Files that are placed at / (folder or tar)."),
    click.option("--setup", type=click.Path(exists=True), help="Bash script that runs once inside, after the tree is placed."),
    click.option(
        "--image",
        metavar="NAME|ROOTFS|Dockerfile",
        help="Userland: a built image, or a root file system; for docker an image or a Dockerfile. [this machine's /usr]",
    ),
    click.option("--dump", type=click.Path(exists=True), help="sql: a MySQL dump with the databases."),
    click.option("--databases", type=click.Path(exists=True), help="sql: a folder of databases, NAME.sql or NAME.sqlite."),
    click.option(
        "--engine",
        metavar="sqlite|mariadb|URL",
        help="sql: the server. [sqlite; mariadb for a MySQL dump where it is installed]",
    ),
    click.option("--handicap", is_flag=True, help="sql: show the schema in the first observation."),
    click.option("--robust", is_flag=True, help="sql: play each solved task on second contents as well, and report it."),
    click.option("--assets", type=click.Path(exists=True), help="ctf: a folder with ID/ or ID.tar, the files of each task."),
    click.option("--all", "everything", is_flag=True, help="ctf: keep tasks that need a network, files or another gold."),
    click.option("--limit", type=click.IntRange(1), help="Only the first N tasks."),
)
_protocol = click.option("--protocol", type=click.Choice(["submit", "paper"]), default="submit", show_default=True)
_scoring = _stack(
    click.option("--reward", type=click.Choice(["exact", "paper"]), help="[exact; paper under the paper's protocol]"),
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
    click.option("--sandbox", type=click.Choice(["local", "docker"]), help="bash, ctf: what the actions run in. [local]"),
)
_workers = click.option("--workers", type=click.IntRange(1), default=2, show_default=True)
_out = _stack(
    click.option("--out", type=click.Path(), help="Run folder. [runs/ENV-AGENT-TIME]"),
    click.option("--resume", is_flag=True, help="Go on with the run in --out."),
)
_json = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else.")


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="intercode")
def main() -> None:
    """Interactive coding as a reinforcement-learning environment: measure agents whose actions are code."""


def _module(context: click.Context, parameter: click.Parameter, name: str) -> str:
    """A name that may be of a module in the working folder, where a console script does not look by itself."""
    here = os.getcwd()
    if ":" in name and name.partition(":")[0] not in ("replay", "static") and here not in sys.path:
        sys.path.insert(0, here)
    return name


@main.command("eval")
@click.argument("env", callback=_module)
@_world
@click.option(
    "--agent",
    callback=_module,
    default="try_again",
    show_default=True,
    help="try_again, gold, noop, retrieval, replay:PATH, static:PATH or module:function.",
)
@click.option(
    "--model",
    help="Model name at an OpenAI-compatible endpoint ($INTERCODE_BASE_URL, $OPENAI_API_KEY), or scripted:FILE.",
)
@click.option("--turns", type=click.IntRange(1), default=10, show_default=True, help="Actions before the submission.")
@click.option("--epochs", type=click.IntRange(1), default=1, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--temperature", type=float, default=0.0, show_default=True)
@click.option("--reply-tokens", type=click.IntRange(1), metavar="N", help="Cut each reply at N tokens. [the server's limit]")
@click.option("--price", callback=_price, metavar="IN,OUT", help="What a million tokens cost in and out, in US dollars.")
@click.option(
    "--max-cost", type=click.FloatRange(0, min_open=True), metavar="USD", help="Stop the run at this cost; needs --price."
)
@click.option("--max-tokens", type=click.IntRange(1), help="Stop the run at this many tokens.")
@click.option("--max-seconds", type=click.FloatRange(0, min_open=True), help="Stop the run after this time.")
@_protocol
@_scoring
@_workers
@_out
@_json
def evaluate(env: str, **options: Any) -> None:
    """Let an agent act on every task of ENV (bash, sql, python, ctf, or module:Class) and score it."""
    _carry_out(env, **options)


@main.command()
@click.argument("predictions", type=click.Path(exists=True, dir_okay=False))
@click.option("--env", callback=_module, required=True, metavar="ENV", help="bash, sql, python, ctf, or module:Class.")
@_world
@_protocol
@_scoring
@_workers
@_out
@_json
def score(predictions: str, env: str, **options: Any) -> None:
    """Score PREDICTIONS that were made beforehand: JSONL {"task", "action"}, or one action a line in the order of the tasks."""
    _carry_out(env, agent=f"static:{predictions}", turns=1, **options)


def _carry_out(env: str, *, out: str | None, resume: bool, workers: int, as_json: bool, **options: Any) -> None:
    from intercode.report import summary
    from intercode.runner.evaluation import Evaluation

    if resume and out is None:
        raise UsageError("--resume needs --out with the run's folder")
    evaluation = Evaluation.plan(env, **options)
    if left_out := evaluation.config.get("left_out"):
        click.echo(f"intercode: {len(left_out)} tasks are left out (run.json says why; --all plays them)", err=True)
    with evaluation.open(out, resume=resume, workers=workers) as store:
        click.echo(f"run: {store.path}", err=True)
        with _resumable(store.path), _progress(len(evaluation.tasks) * evaluation.epochs, quiet=as_json) as tick:
            config, episodes = evaluation.run(store, workers=workers, on_episode=tick)
    found = summary(config, episodes)
    _show_summaries([found], as_json)
    _show_reasons(episodes)
    if evaluation.stopped:
        click.echo(f"intercode: stopped early: {evaluation.stopped}; go on with --resume --out {found['run']}", err=True)
    if evaluation.fault:
        raise evaluation.fault
    sys.exit(3 if found["errors"] else 0)


@main.command()
@click.argument("env", callback=_module)
@_world
@_protocol
@_scoring
@_workers
@_json
def check(env: str, workers: int, as_json: bool, **options: Any) -> None:
    """Find broken tasks: golds that fail, differ between executions or do not score, and tasks that doing nothing solves."""
    from intercode.envs import prepare
    from intercode.runner.check import PASSES
    from intercode.runner.check import check as examine

    setting = prepare(env, max_turns=None, **options)
    with _bar("checking", PASSES * len(setting.tasks), quiet=as_json) as advance:
        found = examine(setting, setting.tasks, workers=workers, tick=lambda: advance("checking"))
    if as_json:
        _print_json(found)
    else:
        for finding in found["broken"]:
            click.echo(f"task {finding['task']}: {finding['why']}")
        click.echo(
            f"{found['tasks']} tasks: gold succeeds on {found['gold_ok']}, {found['nondeterministic']} differ between two "
            f"executions, doing nothing succeeds on {found['noop_paid']}"
        )
    sys.exit(1 if found["broken"] else 0)


@main.command()
@click.argument("log", type=click.Path(exists=True))
@click.option("--env", callback=_module, required=True, metavar="ENV", help="bash, sql, python, ctf, or module:Class.")
@_world
@_scoring
@_workers
@_json
def replay(log: str, env: str, workers: int, as_json: bool, **options: Any) -> None:
    """Execute a recording again (a run folder, or the first system's log) and compare it turn by turn.

    Protocol, reward and session are the recording's own (a log of the first system: the paper's); --reward and --session
    change the latter two.
    """
    from intercode.runner.replay import prepare_replay
    from intercode.runner.replay import replay as execute

    recording, setting, tasks = prepare_replay(log, env, **options)
    with _progress(len(tasks), quiet=as_json) as tick:
        found = execute(recording, setting, tasks, workers=workers, on_episode=tick)
    if as_json:
        _print_json(found)
        return
    for row in found["disagreements"]:
        click.echo(f"task {row['task']} turn {row['turn']}: {row['recorded']} then, {row['replayed']} now: {row['action']!r}")
    click.echo(
        f"{found['agree']} of {found['turns']} rewards agree ({found['agreement']:.1%}), "
        f"{found['observations_equal']} observations are equal; success {found['recorded_success_rate']:.1%} then, "
        f"{found['replayed_success_rate']:.1%} now"
    )


@main.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(exists=True), metavar="RUN...")
@click.option("--force", is_flag=True, help="Put runs with different userlands into one table all the same.")
@_json
def report(runs: tuple[str, ...], force: bool, as_json: bool) -> None:
    """Success rates with 95 % intervals, of one run or of several side by side."""
    from intercode.report import require_comparable, summary
    from intercode.store import read_run

    found = [read_run(path) for path in runs]
    require_comparable([config for config, _ in found], force=force)
    _show_summaries([summary(config, episodes) for config, episodes in found], as_json)
    for config, episodes in found:
        _show_reasons(episodes, f" in {config['run']}" if len(found) > 1 else "")


@main.group()
def data() -> None:
    """Public data sets: what there is, and how to get it."""


@data.command("list")
def data_list() -> None:
    """Names, sizes and licences of the public data sets."""
    from intercode.tasks import list_entries

    for entry in list_entries():
        note = "" if entry.checked else "  (address not verified)"
        click.echo(f"{entry.name:14} {entry.count:5} tasks  {entry.env:7} {entry.licence:24} {entry.description}{note}")


@data.command("get")
@click.argument("name")
def data_get(name: str) -> None:
    """Download a data set into the cache, verified; an interrupted download goes on where it stopped."""
    from intercode.tasks import get

    click.echo(get(name))


@main.group()
def image() -> None:
    """Userlands: root file systems with a listed set of packages."""


@image.command("build")
@click.argument("name")
@click.option("--package", "packages", multiple=True, help="A Debian package; may be repeated. [a set for shell tasks]")
@click.option("--packages-file", type=click.File(), help="A file with one package per line.")
@click.option("--suite", default="bookworm", show_default=True)
@click.option("--force", is_flag=True, help="Replace an image of that name.")
def image_build(name: str, packages: tuple[str, ...], packages_file: IO[str] | None, suite: str, force: bool) -> None:
    """Make the image NAME with mmdebstrap; use it with --image NAME."""
    from intercode.sandbox.image import DEFAULT_PACKAGES, build_image

    listed = packages_file.read().split() if packages_file else []
    chosen = [*packages, *listed] or list(DEFAULT_PACKAGES)
    path = build_image(name, chosen, suite=suite, force=force, progress=lambda line: click.echo(line, err=True))
    click.echo(path)


@main.command()
@click.option("--clean", is_flag=True, help="First remove what processes that are gone have left.")
@_json
def doctor(clean: bool, as_json: bool) -> None:
    """What works on this machine, and the line that mends what does not."""
    from intercode.doctor import clean as remove
    from intercode.doctor import examine

    for removed in remove() if clean else ():
        click.echo(f"removed {removed}", err=True)
    findings = examine()
    if as_json:
        _print_json({"findings": [finding._asdict() for finding in findings]})
    else:
        for finding in findings:
            mark = {True: "ok  ", False: "FAIL", None: "note"}[finding.ok]
            click.echo(f"{mark}  {finding.what}: {finding.detail}")
            if finding.mend and not finding.ok:
                click.echo(f"      mend: {finding.mend}")
    sys.exit(1 if any(finding.ok is False for finding in findings) else 0)


def _print_json(found: object) -> None:
    import json

    click.echo(json.dumps(found))


def _show_summaries(summaries: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        _print_json(summaries[0] if len(summaries) == 1 else {"runs": summaries})
        return
    from rich.console import Console

    from intercode.report import hardness_table, table

    Console().print(table(summaries))
    if (levels := hardness_table(summaries)) is not None:
        Console().print("success % by hardness", levels, sep="\n")
    for summary in summaries:
        click.echo(f"run: {summary['run']}")


def _show_reasons(episodes: Sequence[Episode], where: str = "") -> None:
    from intercode.report import reasons

    if listed := reasons(episodes):
        click.echo("\n  ".join([f"intercode: errors{where}:", *listed]), err=True)


@contextmanager
def _resumable(folder: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; go on with --resume --out {folder}") from None


@contextmanager
def _progress(total: int, *, quiet: bool) -> Iterator[Callable[[Episode], None]]:
    """A bar with the success so far."""
    solved: list[bool] = []
    with _bar("episodes", total, quiet=quiet) as advance:

        def tick(episode: Episode) -> None:
            solved.append(episode.success)
            advance(f"success {sum(solved) / len(solved):6.1%}")

        yield tick


@contextmanager
def _bar(what: str, total: int, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A bar on stderr, where that is a terminal; what is yielded makes one step and may change its text."""
    if quiet or not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda text: bar.update(task, advance=1, description=text)
