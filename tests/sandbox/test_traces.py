"""Traces and traps of the agent's shell show and run what they do in a bash that reads the same
lines; never the loop."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from intercode_sandbox.local import LocalSandbox
from intercode_sandbox.template import Template


@pytest.fixture(scope="module")
def shared(template: Template) -> Iterator[LocalSandbox]:
    with LocalSandbox(template) as made:
        yield made


@pytest.mark.parametrize(
    "actions",
    [
        ["set -x", "echo alive"],
        ["set -x; false; echo $?", "echo $?", "set +x", "echo off"],
        [
            "set -x",
            "x=1",
            "f() { echo f $x; }",
            "f",
            "echo $(echo in)",
            "(exit 3)",
            "for i in 1 2; do echo $i; done",
        ],
        ["set -x", "echo 'a\nb'; echo \"it's\"", "# nothing", "echo $0 $#"],
        ["set -x", "exec 2> /tmp/log", "echo x", "exec 2>&1", "cat /tmp/log"],
        [
            "trap 'echo err' ERR",
            "false",
            "echo $?",
            "(exit 3)",
            "trap -p ERR",
            "trap - ERR",
            "false",
        ],
        ["trap 'echo runs $BASH_COMMAND' DEBUG", "echo a; echo b", "trap - DEBUG", "echo c"],
        ["set -T; trap 'echo runs' DEBUG", "f() { :; }", "f"],
        ["trap 'echo usr' USR1", "kill -USR1 $$", "echo x"],
        ["set -u; trap 'echo err' ERR", "false | cat", "false || false"],
    ],
    ids=lambda actions: actions[0],
)
def test_lines_print_what_they_print_in_bash(sandbox: LocalSandbox, actions: list[str]) -> None:
    ours = "".join(sandbox.exec(action).output for action in actions)
    sandbox.reset()
    sandbox.write("/tmp/lines", "\n".join(actions).encode() + b"\n")
    assert ours == sandbox.exec("bash < /tmp/lines").output


def test_a_fork_has_the_trace_and_the_traps_and_shows_neither_the_loop_nor_its_own_making(
    sandbox: LocalSandbox,
) -> None:
    sandbox.exec("set -x; trap 'echo err' ERR")
    sandbox.exec("x=1")
    with sandbox.fork() as copy:
        for each in (copy, sandbox):
            assert each.exec("false; echo $x").output == "+ false\n++ echo err\nerr\n+ echo 1\n1\n"


def test_a_traced_loop_is_stopped_at_its_time_limit_and_the_session_stays_traced(
    sandbox: LocalSandbox,
) -> None:
    sandbox.exec("set -x; y=2")
    result = sandbox.exec("while :; do :; done", timeout=0.5)
    assert (result.timed_out, result.session_lost) == (True, False)
    assert "__intercode" not in result.output
    assert sandbox.exec("echo $y").output == "+ echo 2\n2\n"


def test_more_traced_actions_than_bash_has_lines_for_run_with_more_pluses(
    sandbox: LocalSandbox,
) -> None:
    sandbox.exec("set -x")
    for number in range(30):
        result = sandbox.exec(f"echo {number}")
        assert (result.output.lstrip("+"), result.session_lost) == (
            f" echo {number}\n{number}\n",
            False,
        )
    assert sandbox.exec("cat <<END\nhere\nEND").output.endswith("cat\nhere\n")
