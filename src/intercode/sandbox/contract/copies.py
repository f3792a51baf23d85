"""`reset`, `fork` and `close`: what is left behind, what is taken along, what is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from intercode.errors import ForkError, UsageError
from intercode.sandbox.base import Sandbox
from intercode.sandbox.contract.words import Clause, raises, same, says


def _resets_all(sandbox: Sandbox) -> None:
    """reset: nothing of the past is left: files, processes, directory, variables, shared memory."""
    sandbox.exec("cd /tmp; x=1; umask 0; echo > /tmp/f; rm /etc/passwd; echo > /dev/shm/f; ulimit -n 20; echo > /var/tmp/f")
    sandbox.exec("setsid sleep 4321 > /dev/null 2>&1 & exec 9> /tmp/open")
    sandbox.reset()
    same("diff after reset", sandbox.diff(), {})
    says(sandbox, "pwd; echo ${x-unset} $(umask); ls -A /tmp /dev/shm; ls /etc/passwd; ls -A /var/tmp",
          "/\nunset 0022\n/dev/shm:\n\n/tmp:\n/etc/passwd\n")  # fmt: skip
    says(
        sandbox,
        "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c '[s]leep 4321'; [ $(ulimit -n) -gt 20 ] && echo many",
        "0\nmany\n",
    )


def _forks_files(sandbox: Sandbox) -> None:
    """fork: a second sandbox in the same files and directory; neither sees the other from then on."""
    sandbox.exec(
        "mkdir -p /tmp/d; cd /tmp/d; echo a > a; ln a b; ln -s a l; mkfifo -m 640 p; chmod 4755 a; rm -rf /var; mkdir /var"
    )
    sandbox.exec("rm /etc/passwd; touch -d 2001-02-03 $'n\\n'; mkdir deep; touch deep/x; echo > /etc/new")
    with sandbox.fork() as twin:
        same("diff of the copy", twin.diff(), sandbox.diff())
        says(twin, "pwd; ls -A /var; stat -c %y $'n\\n' | cut -c 1-10; ls /etc/passwd 2> /dev/null", "/tmp/d\n2001-02-03\n")
        says(twin, "echo more >> b; cat a; rm -r deep; echo > /tmp/twin; touch /etc/passwd", "a\nmore\n")
        says(sandbox, "cat a b; ls deep; ls /tmp; ls /etc/passwd 2> /dev/null", "a\na\nx\nd\n")
        same("limits and session of the copy", (twin.limits, twin.session), (sandbox.limits, sandbox.session))
        with twin.fork() as third:
            says(third, "cat a; ls /tmp", "a\nmore\nd\ntwin\n")
        sandbox.reset()
        says(twin, "cat a", "a\nmore\n")
    says(sandbox, "echo alive", "alive\n")


def _refuses_to_fork_processes(sandbox: Sandbox) -> None:
    """fork: a process that still runs raises ForkError naming it, and does no harm."""
    begun = "until read -r name < /proc/$!/comm && [ $name = sleep ]; do :; done"  # by builtins: no number is used up
    sandbox.exec(f"sleep 300 > /dev/null 2>&1 & echo $! > /tmp/pid; {begun}")
    with raises("fork with a running process", ForkError) as words:
        sandbox.fork().close()
    same("the error names the process", "sleep" in words[0], True)
    sandbox.exec("kill $(cat /tmp/pid); while kill -0 $(cat /tmp/pid); do :; done", timeout=5)
    sandbox.fork().close()


def _closes_twice(sandbox: Sandbox) -> None:
    """close: may be called twice, and after the sandbox was used."""
    sandbox.exec("sleep 300 &")
    sandbox.close()
    sandbox.close()


def _is_closed(sandbox: Sandbox) -> None:
    """close: everything but close raises UsageError afterwards; a copy lives on."""
    twin = sandbox.fork()
    sandbox.close()
    uses: list[Callable[[], Any]] = [sandbox.diff, sandbox.reset, sandbox.fork]
    uses += [lambda: sandbox.exec("true"), lambda: sandbox.read("/etc/passwd"), lambda: sandbox.write("/tmp/x", b"")]
    with twin:
        for use in uses:
            with raises("use after close", UsageError):
                use()
        says(twin, "echo alive", "alive\n")


_STATE = """
x='a b' y=$'two\\nlines'; export E='e e'; declare -r fixed=1; declare -i number=3; list=(1 'b c'); declare -A map=([k]='v w')
f() { echo "f $*"; }; alias hi='echo hello'; set -o noclobber; shopt -s nullglob; trap 'echo usr1' USR1
umask 027; set -- 'p q' r
"""
_SHOW = """
echo "$x|$y|$(bash -c 'echo "$E"')|$fixed|${list[1]}|${map[k]}|$1 $2 $#"; number+=4; echo $number; f 1; hi; umask
echo /no/match*; shopt -po noclobber; kill -USR1 $$; fixed=2
"""


def _forks_the_session(sandbox: Sandbox) -> None:
    """fork, persistent: the copy has variables, functions, aliases, options, traps, arguments, umask and last status."""
    sandbox.exec(_STATE)
    sandbox.exec("(exit 42)")
    with sandbox.fork() as twin:
        same("last status in the copy", twin.exec("echo $?").output, "42\n")
        same("state of the copy", twin.exec(_SHOW).output, sandbox.exec(_SHOW).output)
        twin.exec("x=other")
        says(sandbox, 'echo "$x"', "a b\n")
        same("a variable of the copy", twin.exec("echo $x; echo $?").output, "other\n0\n")


def _refuses_to_fork_descriptors(sandbox: Sandbox) -> None:
    """fork, persistent: an open descriptor raises ForkError naming it; closed again, it is no longer in the way."""
    sandbox.exec("exec 7> /tmp/held")
    with raises("fork with an open descriptor", ForkError) as words:
        sandbox.fork().close()
    same("the error names the descriptor", "7" in words[0] and "/tmp/held" in words[0], True)
    sandbox.exec("exec 7>&-")
    sandbox.fork().close()


BOTH: list[Clause] = [_resets_all, _forks_files, _refuses_to_fork_processes]
PERSISTENT: list[Clause] = [_forks_the_session, _refuses_to_fork_descriptors]
ENDS: list[Clause] = [_closes_twice, _is_closed]
