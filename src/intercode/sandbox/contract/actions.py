"""`exec`: what an action prints, how it ends, and what of a session lives on."""

from __future__ import annotations

import time

from intercode.errors import UsageError
from intercode.sandbox.base import Sandbox
from intercode.sandbox.contract.words import Clause, raises, same, says


def _prints_in_order(sandbox: Sandbox) -> None:
    """exec: output is stdout and stderr in the order in which they were written."""
    says(sandbox, "echo 1; echo 2 >&2; printf 3; bash -c 'echo 4 >&2'; echo 5", "1\n2\n34\n5\n")


def _tells_the_exit_code(sandbox: Sandbox) -> None:
    """exec: `exit_code` is the action's own; an empty action succeeds."""
    for action, wanted in (("true", 0), ("(exit 7)", 7), ("", 0), ("# nothing", 0), ("no-such-program-here", 127)):
        same(f"exit code of {action!r}", sandbox.exec(action).exit_code, wanted)


def _survives_what_does_not_parse(sandbox: Sandbox) -> None:
    """exec: an action that does not parse fails alone."""
    for action in ("echo 'open", 'echo "open', "if true; then", "cat <<END\nopen", "((", "echo )", "{"):
        sandbox.exec(action)
        says(sandbox, "echo next", "next\n")


def _gives_no_input(sandbox: Sandbox) -> None:
    """exec: standard input is empty and no terminal."""
    says(sandbox, "cat; read -r line || echo none; [ -t 0 ] || echo no terminal", "none\nno terminal\n")


def _takes_any_text(sandbox: Sandbox) -> None:
    """exec: actions of any length and line count; bytes that are not UTF-8 pass, and are shown as \\xNN."""
    long = "x" * 300_000
    same("length of a long action's output", len(sandbox.exec(f": {long}\nprintf %s {'y' * 100_000}").output), 100_000)
    says(sandbox, "printf 'a\\xffb\\0c'", "a\\xffb\0c")
    says(sandbox, "printf %s '\udcfe é'", "\\xfe é")
    with raises("an action with a NUL character", UsageError):
        sandbox.exec("echo \0")


def _runs_a_program(sandbox: Sandbox) -> None:
    """exec: `argv` runs a program of its own in the session's directory, and leaves the session alone."""
    sandbox.exec("cd /tmp; x=1; f() { :; }")
    result = sandbox.exec("", argv=["bash", "-c", 'pwd; echo "${x-unset} $1"; exit 4', "me", "a b"])
    same("output and exit code of argv", (result.output, result.exit_code), ("/tmp\nunset a b\n", 4))
    same("directory after argv", sandbox.exec("pwd").output, "/tmp\n")
    result = sandbox.exec("", argv=["no-such-program-here"])
    same("exit code of an argv that cannot be started", result.exit_code, 127)


def _keeps_the_directory(sandbox: Sandbox) -> None:
    """exec: the working directory lives on, and `cwd` tells it."""
    same("cwd after cd", sandbox.exec("cd /var/tmp").cwd, "/var/tmp")
    says(sandbox, "pwd", "/var/tmp\n")
    sandbox.exec("mkdir -p /tmp/gone/too; cd /tmp/gone/too; rm -rf /tmp/gone")
    says(sandbox, "cd /; echo back", "back\n")


def _stops_at_the_time_limit(sandbox: Sandbox) -> None:
    """exec: at its time-out an action is stopped: `timed_out`, no exit code, what it printed is kept, the next works."""
    sandbox.exec("cd /tmp")
    for action in ("echo early; sleep 60", "echo early; while :; do :; done", "echo early; (trap '' INT TERM; sleep 60)"):
        start = time.monotonic()
        result = sandbox.exec(action, timeout=0.4)
        same(f"end of {action!r}", (result.timed_out, result.exit_code, result.output[:6]), (True, None, "early\n"))
        same(f"stopped {action!r} within 5 s", time.monotonic() - start < 5, True)
        same("the next action after a time-out", sandbox.exec("pwd; echo ok").output, "/tmp\nok\n")


def _caps_the_output(sandbox: Sandbox) -> None:
    """exec: output is whole up to the limit; beyond it the kept part is a prefix and `overflow` tells the rest apart."""
    limit = sandbox.limits.output

    def prints(count: int, last: str) -> str:
        return f"head -c {count} /dev/zero | tr '\\0' x; printf {last}"

    whole, over = sandbox.exec(prints(limit - 1, "y")), sandbox.exec(prints(limit, "y"))
    same("length and overflow at the limit", (len(whole.output), whole.overflow), (limit, None))
    same("length of what is kept", len(over.output), limit)
    same("overflow is a digest", isinstance(over.overflow, str) and len(over.overflow) >= 32, True)
    same("overflow of equal output", sandbox.exec(prints(limit, "y")).overflow, over.overflow)
    same("overflow of other output differs", sandbox.exec(prints(limit, "z")).overflow != over.overflow, True)


def _keeps_the_session(sandbox: Sandbox) -> None:
    """persistent: variables, functions, aliases, options, last status and background jobs live on between actions."""
    sandbox.exec("x='a b'; f() { echo \"f $1\"; }; alias hi='echo hello'; set -o noclobber; sleep 300 &")
    says(sandbox, "echo $x; f 1; hi; set -o | grep noclobber | tr -d ' \\t'", "a b\nf 1\nhello\nnoclobberon\n")
    says(sandbox, "jobs -r | grep -c sleep; kill %1; wait %1; echo $?", "1\n143\n")
    same("exit code of false", sandbox.exec("false").exit_code, 1)
    says(sandbox, "echo $?", "1\n")
    says(sandbox, "(exit 42)", "")
    says(sandbox, "echo $? $_ > /dev/null; echo $?", "0\n")


def _keeps_descriptors(sandbox: Sandbox) -> None:
    """persistent: descriptors and coprocesses live on, and cost the session nothing when they end."""
    sandbox.exec("coproc cat; exec 7> /tmp/seven; mapfile -t lines < <(echo substituted)")
    says(sandbox, 'echo sent >&"${COPROC[1]}"; read -r line <&"${COPROC[0]}"; echo "$line ${lines[0]}"', "sent substituted\n")
    says(sandbox, "echo x >&7; exec 7>&-; cat /tmp/seven; kill $COPROC_PID; wait $COPROC_PID; echo $?", "x\n143\n")
    result = sandbox.exec("(exit 3)")
    same("exit code and loss afterwards", (result.exit_code, result.session_lost), (3, False))


def _keeps_the_session_at_time_outs(sandbox: Sandbox) -> None:
    """persistent: a time-out ends what the action started; variables and earlier jobs stay."""
    sandbox.exec("x=1; sleep 300 & first=$!")
    result = sandbox.exec("sleep 301 & echo early; f() { sleep 60; }; f | cat", timeout=0.4)
    same("end of the action", (result.timed_out, result.session_lost), (True, False))
    left = "1\nearlier job\nnone later\n"
    shown = sandbox.exec("echo $x; kill -0 $first && echo earlier job; kill -0 $! 2> /dev/null || echo none later").output
    same("what is left", shown[-len(left) :], left)  # the shell may tell first which job was killed


def _announces_a_lost_session(sandbox: Sandbox) -> None:
    """persistent: a shell that ends is replaced in the same directory, and the result says so."""
    sandbox.exec("cd /tmp; x=1")
    for action in ("exit 3", "exec true", "kill -9 $$"):
        same(f"session_lost after {action!r}", sandbox.exec(action).session_lost, True)
        result = sandbox.exec("pwd; echo ${x-unset}")
        same(f"next action after {action!r}", (result.output, result.session_lost), ("/tmp\nunset\n", False))
        sandbox.exec("x=1")


def _keeps_only_the_directory(sandbox: Sandbox) -> None:
    """stateless: every action has a new shell in the directory where the last one ended."""
    result = sandbox.exec("x=1; f() { :; }; set -f; cd /tmp; exit 3")
    same("exit code, loss, cwd", (result.exit_code, result.session_lost, result.cwd), (3, False, "/tmp"))
    says(sandbox, "pwd; echo $? ${x-unset}; type f 2> /dev/null; case $- in *f*) echo kept;; esac", "/tmp\n0 unset\n")


BOTH: list[Clause] = [
    _prints_in_order,
    _tells_the_exit_code,
    _survives_what_does_not_parse,
    _gives_no_input,
    _takes_any_text,
    _runs_a_program,
    _keeps_the_directory,
    _stops_at_the_time_limit,
    _caps_the_output,
]
PERSISTENT: list[Clause] = [_keeps_the_session, _keeps_descriptors, _keeps_the_session_at_time_outs, _announces_a_lost_session]
STATELESS: list[Clause] = [_keeps_only_the_directory]
