"""`play`: a person acts at the keyboard, task after task; the run is like any other.

    bash> ls /box                    a line is an action
    bash> ```                        the lines up to the next ``` are one action
      ..> cat <<END
    bash> :tasks                     `:word` speaks to this program, not to the environment
    bash> vim notes                  a program that needs a terminal is refused, and costs no turn

After each task its reference solution is shown. Queries and notes wrap at words; the output of
programs does not.

Ctrl-C clears the line; during an action it ends the action, as its time limit would. A second one
(in SQL the first) ends the program, as Ctrl-D does at the prompt. Control characters that a sandbox
prints become escapes, so they cannot steer the terminal. Piped lines work like typed lines.
"""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from intercode.cli import options as shared
from intercode.options import RunOptions

if TYPE_CHECKING:
    from intercode.env import InterCodeEnv
    from intercode.runs.evaluation import Evaluation
    from intercode.runs.store import RunStore
    from intercode.types import Message, Reply, Task, Tool

FENCE = "```"
HELP = """\
Type an action and press Enter; the sandbox executes it. `submit` (ctf: `submit FLAG`, python: \
`submit NAME`) ends the task.
For an action of several lines, type ``` on a line before it and on a line after it.
:tasks lists the tasks. :skip [ID] leaves this task for the next one or for ID. :quit or Ctrl-D \
ends. :help shows this text."""
HELP_ANSWER = "`submit ANSWER` gives the answer itself, except on tasks marked general."
_COMMAND = re.compile(r":([a-z]+)(?:\s+(.*))?\s*")
FULL_SCREEN = frozenset(
    {"vi", "vim", "nano", "less", "more", "top", "htop", "man", "watch", "emacs", "tmux", "screen"}
)
_WHY = {"agent_fault": ", since the sandbox did not survive", "turns": ", since no turns are left"}


@shared.command()
@shared.env_argument
@shared.world()
@shared.declared(RunOptions, "task", "turns", "seed", turns=100)
@click.option(
    "--show-score",
    "live",
    is_flag=True,
    help="Show after each action the score that a submission would earn now.",
)
@shared.run_folder("runs/ENV-AGENT-TIME")
@shared.allow_code_change
def play(
    env: str,
    live: bool,
    out: str | None,
    resume: str | None,
    allow_code_change: bool,
    **options: Any,
) -> None:
    """Solve the tasks of ENV yourself, in this terminal.

    ENV is bash, sql, python, ctf, harbor, module:Class or path.py:Class. The run records the tasks
    that you submit, not those that you leave.
    """
    from intercode.cli.output import resumable, show_summaries
    from intercode.report.summary import summary
    from intercode.runs.evaluation import Evaluation

    evaluation = Evaluation.plan(env, agent="human", workers=1, **options)
    evaluation.config |= {"live_score": live, "options": shared.options_to_store()}
    with evaluation.open(out, resume=bool(resume), allow_code_change=allow_code_change) as store:
        try:
            with resumable(store), closing(evaluation.factory()) as environment:
                Player(evaluation, store, environment, show_score=live).play_tasks()
        except Quit:
            line = shared.resume_line(store.path)
            _note(f"\nThe open task is not recorded. Continue with {line}")
        finally:
            if episodes := store.episodes():
                show_summaries(
                    [summary({**evaluation.config, "run": str(store.path)}, episodes)], False
                )


class Quit(Exception):
    """The player ends the program."""


class _Skip(Exception):
    """The player turns to another task, which `Player` has moved to the front."""


class Player:
    """A person who plays the tasks that `store` lacks. For the episode loop this is a `Model` whose
    replies are typed.

    `show_score`: show after each action the score that a submission would earn now.
    """

    name = "keyboard"

    def __init__(
        self, evaluation: Evaluation, store: RunStore, env: InterCodeEnv, *, show_score: bool
    ) -> None:
        from intercode.submission import ANSWER

        self._evaluation, self._store, self._env = evaluation, store, env
        self._open = [task for task in evaluation.tasks if (task.id, 0) not in store.finished()]
        self._help = HELP
        if env.submission is ANSWER and not env.rules.scores_steps:
            self._help += f"\n{HELP_ANSWER}"
        self._show_score = show_score and not env.rules.scores_steps
        if sys.stdin.isatty():
            with suppress(ImportError):
                import readline  # noqa: F401  the arrow keys of input()

    def play_tasks(self) -> None:
        """Play until no task is left. Raises `Quit` when the player ends the program."""
        _note(self._help)
        while self._open:
            with suppress(_Skip):
                self._play(self._open[0])

    def _play(self, task: Task) -> None:
        """Play `task` and record it. A fault of its data is printed, and no episode is recorded."""
        from intercode.agents.baselines import human
        from intercode.errors import DataError
        from intercode.runner.budget import BudgetTracker
        from intercode.runner.episode import play
        from intercode.runner.run import episode_seed
        from intercode.runner.warm_env import naming_task

        _note(f"\ntask {task.id}, {len(self._open)} left")
        budget = BudgetTracker(self._evaluation.limits)
        seed = episode_seed(self._evaluation.options.seed, task.id, 0)
        try:
            with naming_task(task):
                episode = play(self._env, task, human, self, budget, seed=seed)
        except DataError as error:
            _print(f"this task cannot be played: {error}", fg="red")
        else:
            self._store.append(episode)
            if episode.turns:
                _print(episode.turns[-1].observation)
            if episode.success:
                _print("solved", fg="green")
            else:
                why = _WHY.get(str(episode.ended), "")
                _print(f"not solved{why}: {episode.reward:.2f}", fg="red")
            for posed in (task, *task.rounds):
                title = "reference solution"
                for gold in map(str.strip, posed.golds):
                    separator = "\n" if "\n" in gold else " "
                    _print(f"{title}:{separator}{gold}")
                    title = "or"
        self._open.remove(task)

    def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), draw: int = 0
    ) -> Reply:
        """Show the last message and return the action that is typed. Raises `Quit` or `_Skip` to
        leave the episode."""
        from intercode.types import Reply

        signal.signal(signal.SIGINT, signal.default_int_handler)
        if len(messages) == 1:
            _print(_wrap(messages[0]["content"]), bold=True)
        else:
            _print(messages[-1]["content"])
            if self._show_score:
                self._print_score()
        while True:
            text = self._read()
            if command := _COMMAND.fullmatch(text):
                self._obey(command[1], (command[2] or "").strip())
            elif self._env.language.is_shell and (program := _full_screen_program(text)):
                _note(
                    f"{program} needs a terminal, and the sandbox has none. "
                    "Nothing was executed, and no turn is used. To read a file, use `cat`, "
                    "`head` or `sed -n 1,40p`; to write one, `sed -i` or `cat >FILE <<'END'`. "
                    f"`command {program}` starts {program} all the same."
                )
            elif text.strip():
                signal.signal(signal.SIGINT, self._end_action)
                return Reply(text)

    def _end_action(self, *_: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sandbox = getattr(getattr(self._env, "world", None), "sandbox", None)
        if sandbox is None or not sandbox.stop():
            raise KeyboardInterrupt

    def _read(self) -> str:
        """Return an action or a command. Raises `Quit` at the end of the input."""
        name = self._env.language.name
        while True:
            try:
                text = input(f"{name}> ")
                if text == FENCE:
                    text = "\n".join(iter(partial(input, "..".rjust(len(name)) + "> "), FENCE))
                text.encode()  # some locales pass other bytes through as halves of surrogate pairs
                return text
            except EOFError:
                raise Quit from None
            except UnicodeError:
                _note("that is not UTF-8")
            except KeyboardInterrupt:
                _note("\n[Ctrl-D or :quit leaves]")

    def _obey(self, command: str, argument: str) -> None:
        if command == "help":
            _note(self._help)
        elif command == "quit":
            raise Quit
        elif command == "tasks":
            states = {}
            for episode in self._store.episodes():
                states[episode.task] = "solved" if episode.success else "failed"
            states[self._open[0].id] = "now"
            for task in self._evaluation.tasks:
                state = states.get(task.id, "")
                _print(f"{state:6}  {task.id}  {task.query.partition(chr(10))[0][:100]}")
        elif command != "skip":
            _note(f"there is no :{command}; there are :tasks, :skip, :quit, :help")
        else:
            ids = [task.id for task in self._open]
            if argument and argument not in ids:
                _note(f"no task {argument} is left; :tasks lists them")
            else:
                at = ids.index(argument) if argument else 1
                self._open = self._open[at:] + self._open[:at]
                raise _Skip

    def _print_score(self) -> None:
        """Submit in a fork of the episode and print the score; the episode itself stays."""
        from intercode.errors import ForkError

        try:
            with closing(self._env.fork()) as fork:
                score = fork.step("submit")[4].get("score")
        except ForkError as error:
            _note(f"[no score: {error}]")
        else:
            _note("[no score]" if score is None else f"[score {score.reward:.2f}]")


def _full_screen_program(action: str) -> str | None:
    """Return the full-screen program that the first line of a Bash action starts, if any."""
    import shlex

    words = shlex.shlex(action.partition("\n")[0], posix=True, punctuation_chars="|;&")
    words.whitespace_split, words.commenters = True, ""
    begins = True
    with suppress(ValueError):  # a quotation without an end
        for word in words:
            if begins and word in FULL_SCREEN:
                return word
            begins = word != "" and not word.strip("|;&")
    return None


def _wrap(text: str) -> str:
    """Wrap the lines at words to the width of the terminal, if stdout is one, and keep their
    indentation."""
    if not sys.stdout.isatty():
        return text
    import shutil
    import textwrap

    from intercode.report.text import visible

    width, lines = shutil.get_terminal_size().columns, list[str]()
    for line in visible(text).split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        wrapped = textwrap.wrap(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        lines += wrapped or [line]
    return "\n".join(lines)


def _print(text: str, **style: Any) -> None:
    from intercode.report.text import visible

    if not text:
        return
    shown = visible(text)
    if style:
        shown = click.style(shown, **style)
    click.echo(shown)


def _note(text: str) -> None:
    """Print a sentence of this program."""
    _print(_wrap(text), dim=True)
