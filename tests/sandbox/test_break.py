"""`break` and `continue` see the loops of an action, never those in which actions are read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from intercode_sandbox.local import LocalSandbox
from intercode_sandbox.template import Template

ACTIONS = [
    "for i in 1 2; do break 2; done; echo after",
    "for i in 1 2; do for j in 1 2; do continue 9; done; echo inner; done; echo after",
    "while :; do until false; do break 2; done; echo inner; done; echo after",
    "for i in 1 2; do for j in 1 2; do break; done; echo $i$j; done",
    "echo before; break; echo after",
    "continue 2; (exit 3)",
    "for i in 1; do break 0; done; echo $?",
    "for i in 1 2; do eval 'break 3'; done; echo after",
    "word=break; for i in 1 2; do eval $word 3; done; echo after",
    "f() { for k in 1; do break 5; done; echo f; }; for i in 1 2; do f; done; echo after",
    "(break; echo inner); echo $(continue; echo inner)",
    "trap 'break 5' USR1; for i in 1 2; do kill -USR1 $$; done; echo after",
    "echo 'for i in 1; do break 3; done; echo file; break' > /tmp/file; . /tmp/file; echo after",
    "set -e; break; false || echo after",
    "break; local x; echo $?; return 5; echo $? $# ${FUNCNAME[@]}",
    "echo $LINENO\nbreak\necho $LINENO; nothing",
    "cat <<END; break\n$((1 + 1))\nEND",
    "break; echo 'é'; (exit 7)",
]


@pytest.fixture(scope="module")
def shared(template: Template) -> Iterator[LocalSandbox]:
    with LocalSandbox(template) as made:
        yield made


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_does_what_it_does_in_bash(sandbox: LocalSandbox, action: str) -> None:
    sandbox.exec("x=kept")
    ours = sandbox.exec(action)
    theirs = sandbox.exec("", argv=["bash", "-c", action])
    assert (ours.output, ours.exit_code) == (theirs.output, theirs.exit_code)
    assert sandbox.exec("echo $x").output == "kept\n"


def test_what_such_an_action_sets_stays(sandbox: LocalSandbox) -> None:
    sandbox.exec("(exit 3)")
    first = sandbox.exec("echo $?; set -- a b; declare y=1; alias hi='echo hi'; break; (exit 4)")
    assert first.output.startswith("3\n")
    assert sandbox.exec("echo $? $@ $y; hi").output == "4 a b 1\nhi\n"
    for number in range(40):
        assert sandbox.exec(f"echo $?; break; (exit {number})").exit_code == number
    with sandbox.fork() as copy:
        for each in (copy, sandbox):
            assert each.exec("for i in 1; do break 2; done; echo $@ $y").output == "a b 1\n"


def test_a_break_that_the_text_does_not_show_leaves_the_session_alive(
    sandbox: LocalSandbox,
) -> None:
    sandbox.exec("x=kept; b=break")
    assert not sandbox.exec("for i in 1 2; do $b 2; done").session_lost
    assert sandbox.exec("echo $x").output == "kept\n"


@pytest.mark.parametrize(
    "action",
    [
        "sleep 60; echo after; while :; do break; done; echo after > /tmp/after",
        "while :; do sleep 60; [[ x ]] || break; done; for i in 1; do echo after; done",
        "while :; do :; [[ ! x ]] && break; done; while :; do echo after; done",
        "(sleep 60; echo after); echo $(echo after) | cat; break",
        "if sleep 60; then echo after; else echo after; fi; f() { echo after; }; f; break",
    ],
)
def test_at_its_time_limit_nothing_that_follows_is_executed(
    sandbox: LocalSandbox, action: str
) -> None:
    sandbox.exec("x=kept; set -E")
    result = sandbox.exec(action, timeout=0.3)
    assert (result.output, result.timed_out, result.session_lost) == ("", True, False)
    state = "echo $? $x; trap -p DEBUG; shopt -po errtrace functrace; ls /tmp; f() { echo f; }; f"
    assert sandbox.exec(state).output == "130 kept\nset -o errtrace\nset +o functrace\nf\n"
