"""An environment for another language: actions are Perl, the world is a Perl process, the answer is
a sub.

    the sandbox's bash ── "go" ──► fifo ──► perl session.pl     reads the action from a file,
                      ◄── status ─ fifo ──┘                     evaluates it, prints as it goes

Package variables and subs live until the episode ends.

    PYTHONPATH=examples/perl intercode eval perl_env:PerlEnv --data examples/perl --agent gold

A task's `calls` are pairs of a sub's arguments and its expected result, as Perl prints it; the
expected texts never enter the sandbox. A running process cannot be copied, so fork with
`fork(replay=True)`. Requires `apt-get install bubblewrap perl-base`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

from intercode import ExecResult, InterCodeEnv, Language, Sandbox, Score, Task
from intercode.errors import UsageError
from intercode.options import SandboxOptions
from intercode.tasks import DataSet
from intercode.types import GoldRun, Prepared
from intercode_sandbox.local import LocalProvider, LocalSandbox

SESSION = r"""
sub __run { local $SIG{INT} = sub { die "interrupted\n" }; eval "$_[0]\n;1" and $@ = '' }
open my $go, '<', '/dev/shm/go'; open my $done, '>', '/dev/shm/done';
$SIG{INT} = 'IGNORE'; $| = 1; select $done; $| = 1; select STDOUT;
while (<$go>) {
    __run(do { open my $file, '<', '/dev/shm/action'; local $/; <$file> });
    print STDERR $@; print $done $@ ? 1 : 0, "\n";
}
"""
LOST = 222
START = f"""command -v perl >/dev/null && {{
    cd /; mkfifo /dev/shm/go /dev/shm/done; perl /dev/shm/session.pl & perl=$!; disown
    exec 8>/dev/shm/go 9</dev/shm/done
    finish() {{ local status; read -r "$@" -u 9 status; (exit ${{status:-{LOST}}}); }}
}}"""


class PerlEnv(InterCodeEnv):
    Options = SandboxOptions
    language = Language("perl", submission=re.compile(r"submit(?:\s+([A-Za-z_]\w*))?"))
    session_noun = "perl process"

    def __init__(self, tasks: Sequence[Task], make: Callable[[], Sandbox], **how: Any) -> None:
        super().__init__(tasks, **how)
        self.make, self.sandbox = make, make()

    @classmethod
    def prepare_world(cls, data: DataSet, options: SandboxOptions) -> Prepared:
        template = LocalProvider().prepare(image=options.image)
        tasks = [
            replace(task, extra={**task.extra, "submit": task.extra["name"]}) for task in data.tasks
        ]
        make = partial(LocalSandbox, template)
        return Prepared({"make": make}, lambda: {"template": template.digest}, tasks)

    def run_gold(self, task: Task) -> GoldRun:
        self._start()
        shown = self.execute(task.gold)
        wrong = [call for call, same in self._answers(task, "") if not same]
        return GoldRun(
            wrong,
            shown.output,
            tuple(f"the gold fails {task.extra['name']}({call})" for call in wrong),
        )

    def start_episode(self, task: Task) -> None:
        self._start()

    def _start(self) -> None:
        self.sandbox.reset()
        self.sandbox.write("/dev/shm/session.pl", SESSION.encode())
        if self.sandbox.exec(START).exit_code != 0:
            raise UsageError("there is no perl in the sandbox; install the package perl-base")

    def execute(self, action: str) -> ExecResult:
        self.sandbox.write("/dev/shm/action", action.encode())
        result = self.sandbox.exec("echo >&8; finish")
        if result.timed_out:
            result = replace(
                result, exit_code=self.sandbox.exec("kill -INT $perl; finish -t 2").exit_code
            )
        if result.session_lost or result.exit_code == LOST:
            self._start()
            return replace(result, session_lost=True, cwd="/")
        return result

    def reject_submission(self, word: str) -> str | None:
        known = not word or self.execute(f"defined &{word} or die").exit_code == 0
        return None if known else f"There is no sub {word}."

    def score(self) -> Score:
        passed = [same for _, same in self._answers(self.task, self._word)]
        return Score(float(all(passed)), all(passed), {"calls": sum(passed) / len(passed)})

    def _answers(self, task: Task, name: str) -> list[tuple[str, bool]]:
        calls = [
            (f"print join ' ', {name or task.extra['name']}({given})", wanted)
            for given, wanted in task.extra["calls"]
        ]
        return [(call, self.execute(call).output == wanted) for call, wanted in calls]

    def copy_world(self, fork: Self, live: bool) -> None:
        fork.sandbox = self.sandbox.fork() if live else self.make()

    def close_world(self) -> None:
        self.sandbox.close()
