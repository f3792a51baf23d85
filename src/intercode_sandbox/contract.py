"""The contract of `Sandbox` as clauses that can be tested on the sandboxes of any provider.

A clause is one sentence of the contract (its docstring), tested on a sandbox just after `reset`; it
raises AssertionError if broken.

Hostile actions are not covered: a provider needs tests of its own for those.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from intercode_sandbox.base import Sandbox
from intercode_sandbox.errors import ForkError, UsageError
from intercode_sandbox.results import Change, Completed

_ALIVE = "echo alive", "alive\n"


def check_sandbox(make: Callable[[], Sandbox]) -> None:
    """Raise AssertionError naming every clause that sandboxes from `make` break. Takes some
    seconds.

    `make` returns a new sandbox at each call, always of the same session; inside there are bash,
    coreutils and `find`, the file /etc/passwd and the folders /var/tmp and /tmp.
    """
    broken = ""
    with make() as sandbox:
        clauses = _BOTH + _SESSION[sandbox.session]
        if type(sandbox).run is not Sandbox.run:
            clauses += _RUN
        if type(sandbox).seal is not Sandbox.seal:
            clauses += _SEAL
        for clause in clauses:
            sandbox.reset()
            broken += failure(clause, sandbox)
    for clause in _ENDS:
        with make() as sandbox:
            broken += failure(clause, sandbox)
    if broken:
        raise AssertionError(f"the sandbox breaks its contract:{broken}")


def failure(clause: Callable[..., None], *arguments: Any) -> str:
    """Return the line that says how the clause is broken, or ""."""
    try:
        clause(*arguments)
    except Exception as error:  # an unfinished sandbox may raise anything
        name = clause.__name__.strip("_")
        promise = " ".join(str(clause.__doc__).split())
        return f"\n  - {promise} [{name}] {type(error).__name__}: {error}"
    return ""


# -- how clauses are written: an AssertionError names the subject, the actual and the expected value


def same(subject: str, actual: Any, expected: Any = True, where: str = "") -> None:
    """Raise `AssertionError` with the first difference, by its path, if two values differ."""
    if actual == expected:
        return
    keys: Iterable[Any] = ()
    if isinstance(actual, list | tuple) and isinstance(expected, list | tuple):
        keys = range(min(len(actual), len(expected)))
    elif isinstance(actual, dict) and isinstance(expected, dict):
        keys = actual.keys() & expected.keys()
    for key in keys:
        same(subject, actual[key], expected[key], f"{where or ', at '}[{key!r}]")
    raise AssertionError(f"{subject}{where}: {actual!r} instead of {expected!r}")


def prints(sandbox: Sandbox, *steps: str | tuple[str, str]) -> None:
    """Execute actions; of a pair, the second text is what the action must print."""
    for step in steps:
        if isinstance(step, str):
            sandbox.exec(step)
        else:
            action, expected = step
            same(f"`{action}` prints", sandbox.exec(action).output, expected)


def raises(
    subject: str,
    kind: type[BaseException],
    call: Callable[..., Any],
    *arguments: Any,
    **options: Any,
) -> str:
    """Return the message of the error that the call must raise."""
    try:
        call(*arguments, **options)
    except kind as error:
        return str(error)
    raise AssertionError(f"{subject} raises nothing instead of {kind.__name__}")


# -- exec: output, end, and the state that a session keeps -----------------------------------------


def _prints_in_order(sandbox: Sandbox) -> None:
    """exec: output is stdout and stderr in the order in which they were written."""
    prints(sandbox, ("echo 1; echo 2 >&2; printf 3; bash -c 'echo 4 >&2'; echo 5", "1\n2\n34\n5\n"))


def _returns_the_exit_code(sandbox: Sandbox) -> None:
    """exec: `exit_code` is the action's own; an empty action succeeds."""
    codes = {"true": 0, "(exit 7)": 7, "": 0, "# nothing": 0, "no-such-program-here": 127}
    for action, expected in codes.items():
        same(f"exit code of {action!r}", sandbox.exec(action).exit_code, expected)


def _survives_syntax_errors(sandbox: Sandbox) -> None:
    """exec: a syntax error fails its own action only."""
    broken = "echo 'open", 'echo "open', "if true; then", "cat <<END\nopen", "((", "echo )", "{"
    for action in broken:
        prints(sandbox, action, ("echo next", "next\n"))


def _gives_no_input(sandbox: Sandbox) -> None:
    """exec: standard input is empty and not a terminal."""
    action = "cat; read -r line || echo none; [ -t 0 ] || echo no terminal"
    prints(sandbox, (action, "none\nno terminal\n"))


def _takes_any_text(sandbox: Sandbox) -> None:
    """exec: actions may have any length and number of lines; bytes that are not UTF-8 are printed
    as \\xNN."""
    long = f": {'x' * 300_000}\nprintf %s {'y' * 100_000}"
    same("length of a long action's output", len(sandbox.exec(long).output), 100_000)
    prints(sandbox, ("printf 'a\\xffb\\0c'", "a\\xffb\0c"), ("printf %s '\udcfe é'", "\\xfe é"))
    raises("an action with a NUL character", UsageError, sandbox.exec, "echo \0")


def _runs_a_program(sandbox: Sandbox) -> None:
    """exec: `argv` runs a separate program in the session's directory, and changes nothing in the
    session."""
    sandbox.exec("cd /tmp; x=1; f() { :; }")
    result = sandbox.exec("", argv=["bash", "-c", 'pwd; echo "${x-unset} $1"; exit 4', "me", "a b"])
    same(
        "output and exit code of argv", (result.output, result.exit_code), ("/tmp\nunset a b\n", 4)
    )
    prints(sandbox, ("pwd", "/tmp\n"))
    result = sandbox.exec("", argv=["no-such-program-here"])
    same("exit code of an argv that cannot be started", result.exit_code, 127)


def _keeps_the_directory(sandbox: Sandbox) -> None:
    """exec: the working directory is kept, and `cwd` names it."""
    same("cwd after cd", sandbox.exec("cd /var/tmp").cwd, "/var/tmp")
    removing = "mkdir -p /tmp/gone/too; cd /tmp/gone/too; rm -rf /tmp/gone"
    prints(sandbox, ("pwd", "/var/tmp\n"), removing, ("cd /; echo back", "back\n"))


def _stops_at_the_time_limit(sandbox: Sandbox) -> None:
    """exec: a timeout stops the action: `timed_out`, no exit code; its output until then is kept,
    and the next action works."""
    start = time.monotonic()
    sandbox.exec("cd /tmp")
    limit = max(0.4, 5 * (time.monotonic() - start))  # a slow machine needs longer to print at all
    for rest in ("sleep 60", "while :; do :; done", "(trap '' INT TERM; sleep 60)"):
        action = f"echo early; {rest}"
        start = time.monotonic()
        result = sandbox.exec(action, timeout=limit)
        end = result.timed_out, result.exit_code, result.output[:6]
        same(f"end of {action!r}", end, (True, None, "early\n"))
        same(f"stopped {action!r} within 5 s", time.monotonic() - start < limit + 5)
        prints(sandbox, ("pwd; echo ok", "/tmp\nok\n"))


def _caps_the_output(sandbox: Sandbox) -> None:
    """exec: output is complete up to the limit; beyond it, a prefix is kept, and `overflow` is a
    digest of the whole output."""
    limit = sandbox.limits.output
    whole = sandbox.exec(f"head -c {limit - 1} /dev/zero | tr '\\0' x; printf y")
    same("length and overflow at the limit", (len(whole.output), whole.overflow), (limit, None))
    fill = f"head -c {limit} /dev/zero | tr '\\0' x; printf "
    cut = sandbox.exec(f"{fill}y")
    same("length of what is kept", len(cut.output), limit)
    same("overflow is a digest", isinstance(cut.overflow, str) and len(cut.overflow) >= 32)
    same("overflow of equal output", sandbox.exec(f"{fill}y").overflow, cut.overflow)
    same("overflow of other output differs", sandbox.exec(f"{fill}z").overflow != cut.overflow)


def _keeps_the_session(sandbox: Sandbox) -> None:
    """persistent: variables, functions, aliases, options, last status and background jobs are kept
    between actions."""
    prints(
        sandbox,
        "x='a b'; f() { echo \"f $1\"; }; alias hi='echo hello'; set -o noclobber; sleep 300 &",
        (
            "echo $x; f 1; hi; set -o | grep noclobber | tr -d ' \\t'",
            "a b\nf 1\nhello\nnoclobberon\n",
        ),
        ("jobs -r | grep -c sleep; kill %1; wait %1; echo $?", "1\n143\n"),
    )
    same("exit code of false", sandbox.exec("false").exit_code, 1)
    prints(
        sandbox,
        ("echo $?", "1\n"),
        ("(exit 42)", ""),
        ("echo $? $_ > /dev/null; echo $?", "0\n"),
    )


def _keeps_descriptors(sandbox: Sandbox) -> None:
    """persistent: descriptors and coprocesses are kept, and do not hurt the session when they
    end."""
    prints(
        sandbox,
        "coproc cat; exec 7> /tmp/seven; mapfile -t lines < <(echo substituted)",
        (
            'echo sent >&"${COPROC[1]}"; read -r line <&"${COPROC[0]}"; echo "$line ${lines[0]}"',
            "sent substituted\n",
        ),
        (
            "echo x >&7; exec 7>&-; cat /tmp/seven; kill $COPROC_PID; wait $COPROC_PID; echo $?",
            "x\n143\n",
        ),
    )
    result = sandbox.exec("(exit 3)")
    same("exit code and loss afterwards", (result.exit_code, result.session_lost), (3, False))


def _keeps_the_session_at_timeouts(sandbox: Sandbox) -> None:
    """persistent: a timeout ends the processes of its action; variables and earlier jobs stay."""
    sandbox.exec("x=1; sleep 300 & first=$!")
    result = sandbox.exec("sleep 301 & echo early; f() { sleep 60; }; f | cat", timeout=0.4)
    same("end of the action", (result.timed_out, result.session_lost), (True, False))
    expected = "1\nearlier job\nnone later\n"
    output = sandbox.exec(
        "echo $x; kill -0 $first && echo earlier job; kill -0 $! 2> /dev/null || echo none later"
    ).output
    # the shell may first print which job was killed
    same("processes left", output[-len(expected) :], expected)


def _announces_a_lost_session(sandbox: Sandbox) -> None:
    """persistent: a shell that ends is replaced in the same directory, and `session_lost` is
    true."""
    sandbox.exec("cd /tmp")
    for action in ("exit 3", "exec true", "kill -9 $$"):
        sandbox.exec("x=1")
        same(f"session_lost after {action!r}", sandbox.exec(action).session_lost)
        result = sandbox.exec("pwd; echo ${x-unset}")
        subject = f"next action after {action!r}"
        same(subject, (result.output, result.session_lost), ("/tmp\nunset\n", False))


def _keeps_only_the_directory(sandbox: Sandbox) -> None:
    """stateless: every action has a new shell in the directory where the last one ended."""
    result = sandbox.exec("x=1; f() { :; }; set -f; cd /tmp; exit 3")
    end = result.exit_code, result.session_lost, result.cwd
    same("exit code, loss, cwd", end, (3, False, "/tmp"))
    action = "pwd; echo $? ${x-unset}; type f 2> /dev/null; case $- in *f*) echo kept;; esac"
    prints(sandbox, (action, "/tmp\n0 unset\n"))


def _ends_all_processes(sandbox: Sandbox) -> None:
    """end_processes: ends background jobs and daemons; files stay, and the next action works."""
    sandbox.exec("cd /tmp; (setsid bash -c 'sleep 1; echo late > /tmp/late' &) ; echo x > /tmp/x")
    sandbox.end_processes()
    time.sleep(1.2)
    prints(sandbox, ("cat /tmp/x; ls /tmp", "x\nx\n"))


# -- run, copy_in, copy_out ------------------------------------------------------------------------


def _runs_beside_the_session(sandbox: Sandbox) -> None:
    """run: a program with stdin, env, cwd, and separate stdout and stderr; it neither sees nor
    changes the session."""
    sandbox.exec("cd /tmp; export X=session; mkdir -p /var/tmp/d")
    script = 'read -r line; pwd; echo "$line $X $Y $1"; echo e >&2; cd /; exit 4'
    result = sandbox.run(
        ["bash", "-c", script, "me", "a b"],
        stdin=b"in",
        env={"X": "own", "Y": "y"},
        cwd="/var/tmp/d",
    )
    same("what bash did", result, Completed(4, b"/var/tmp/d\nin own y a b\n", b"e\n"))
    exported = {"persistent": "session", "stateless": ""}[sandbox.session]
    prints(sandbox, ("pwd; echo ${X-}", f"/tmp\n{exported}\n"))
    below = sandbox.run(["pwd"]).stdout.decode().strip().rstrip("/") + "/tmp/below"
    sandbox.exec(f"mkdir -p {below}")
    same("a relative cwd", sandbox.run(["pwd"], cwd="tmp/below").stdout.decode(), f"{below}\n")
    raises("a missing cwd", OSError, sandbox.run, ["true"], cwd="/no/such/folder")
    for command in ([], ["echo", "\0"], "true"):
        raises(f"{command!r} as a command", UsageError, sandbox.run, command)


def _runs_with_a_shell_s_status(sandbox: Sandbox) -> None:
    """run: the exit code is that of a shell: 128 + N after signal N, 127 for a missing program,
    126 for one that is not executable."""
    sandbox.write("/tmp/script", b"exit 5", mode=0o755)
    for command, expected in (
        (["true"], 0),
        (["bash", "-c", "kill -TERM $$"], 143),
        (["bash", "-c", "kill -KILL $$"], 137),
        (["no-such-program-here"], 127),
        (["/etc/passwd"], 126),
        (["/tmp/script"], 5),
    ):
        same(f"exit code of {command}", sandbox.run(command).exit_code, expected)


def _runs_any_bytes(sandbox: Sandbox) -> None:
    """run: stdin and output are any bytes; beyond `output` bytes, the rest is dropped, and `limits`
    says so. A program need not read its input."""
    data = bytes(range(256)) * 40_000
    same("what cat printed", sandbox.run(["cat"], stdin=data, output=1 << 30).stdout == data)
    cut = sandbox.run(["cat"], stdin=data, output=1000)
    same("the first bytes", cut, Completed(0, data[:1000], b"", limits=("output",)))
    nothing = Completed(0, b"", b"")
    same("a program that does not read", sandbox.run(["true"], stdin=data), nothing)
    same("without stdin", sandbox.run(["cat"]), nothing)


def _runs_until_the_time_limit(sandbox: Sandbox) -> None:
    """run: a timeout ends the program with all that it started, and nothing else; the output until
    then is kept."""
    sleeper = "echo $$ > /tmp/sleeper-$0; exec sleep 300"
    sandbox.write("/tmp/sleep", sleeper.encode())
    sandbox.exec("bash -c '. /tmp/sleep' session > /dev/null 2>&1 &")
    script = "echo early; (setsid bash -c '. /tmp/sleep' daemon &); bash -c '. /tmp/sleep' child"
    both = "until [[ -s /tmp/sleeper-session && -s /tmp/sleeper-other ]]; do sleep .05; done"
    find = "for f in /tmp/sleeper-*; do kill -0 $(< $f) && echo ${f#*-}; done 2> /dev/null"
    with ThreadPoolExecutor(1) as threads:
        other = threads.submit(sandbox.run, ["bash", "-c", sleeper, "other"], timeout=60)
        try:
            start = time.monotonic()
            same("a wait", sandbox.run(["bash", "-c", both], timeout=60).exit_code, 0)
            # a slow machine needs longer to start bash
            limit = max(1, 5 * (time.monotonic() - start))
            result = sandbox.run(["bash", "-c", script], timeout=limit)
            same("end of the command", result, Completed(None, b"early\n", b"", timed_out=True))
            alive = sandbox.run(["bash", "-c", find]).stdout.decode().split()
            same("what sleeps on", alive, ["other", "session"])
        finally:
            sandbox.end_processes()
        same("exit code of a command that was killed", other.result().exit_code, 137)


def _runs_several_at_once(sandbox: Sandbox) -> None:
    """run: commands of several threads run at once, and each gets its own output."""
    script = (
        "echo $1 > /tmp/$1; until (( $(ls /tmp/at-* | wc -l) == 8 )); do sleep .02; done; echo $1"
    )
    names = [f"at-{number}" for number in range(8)]

    def output(name: str) -> str:
        return sandbox.run(["bash", "-c", script, "x", name], timeout=60).stdout.decode().strip()

    with ThreadPoolExecutor(8) as threads:
        same("outputs", list(threads.map(output, names)), names)


def _leaves_background_processes(sandbox: Sandbox) -> None:
    """run: a command ends with its first process; one left in the background goes on, even if it
    prints."""
    loop = "for i in {1..200}; do printf %01000d $i; done; echo > /tmp/end"
    same("a command", sandbox.run(["bash", "-c", f"({loop}) & exit 3"], timeout=60).exit_code, 3)
    wait = "until [[ -e /tmp/end ]]; do sleep .05; done"
    same("the background", sandbox.run(["bash", "-c", wait], timeout=60).exit_code, 0)


def _copies_files_and_folders(sandbox: Sandbox) -> None:
    """copy_in, copy_out: files and folders keep names, contents and modes; links that lead out of
    the folder do not come out."""
    with TemporaryDirectory() as name:
        source, target, file = Path(name, "in"), Path(name, "out"), Path(name, "file")
        script = "#!/bin/sh\necho ran"
        content = bytes(range(256)) * 9000
        run = source / "run"
        (source / "deep/er").mkdir(parents=True)
        (source / "deep/a b\n").write_bytes(content)
        run.write_text(script)
        run.chmod(0o755)
        (source / "deep/link").symlink_to("../run")
        sandbox.copy_in(source, "/tmp/copy/of")
        sandbox.copy_in(run, "/tmp/copy/run2")
        prints(
            sandbox,
            ("cd /tmp/copy/of; ./run; deep/link; ../run2", "ran\nran\nran\n"),
            "ln -s /etc/passwd out; ln -s ../.. up; ln -s . deep/er/here; mkfifo fifo; "
            "ln -s er/here/../../.. deep/sly; echo > ../of2",
        )
        target.mkdir()
        sandbox.copy_out("/tmp/copy/of", target)
        names = sorted(str(path.relative_to(target)) for path in target.rglob("*"))
        same("names", names, ["deep", "deep/a b\n", "deep/er", "deep/er/here", "deep/link", "run"])
        same("content", (target / "deep/a b\n").read_bytes() == content)
        same("mode", (target / "run").stat().st_mode & 0o777, 0o755)
        sandbox.copy_out("/tmp/copy/run2", file)
        same("a file", file.read_text(), script)
        raises("a missing file", OSError, sandbox.copy_out, "/tmp/missing", file)


# -- read, write, diff: the files on the disk ------------------------------------------------------


def _reads_and_writes(sandbox: Sandbox) -> None:
    """read, read_many, write: whole regular files with any bytes and mode; missing folders are
    created."""
    data = bytes(range(256)) * 5000
    path = "/tmp/new folder/a\nb"
    sandbox.write(path, data, mode=0o741)
    same("what was written", sandbox.read(path), data)
    prints(sandbox, ("stat -c %a '/tmp/new folder/'*", "741\n"))
    sandbox.write(path, b"short", mode=0o600)
    same("what was written over it", sandbox.read(path), b"short")
    sandbox.exec("printf seen > /tmp/seen; ln -s seen /tmp/link; chmod 0 /tmp/seen")
    same("what a link leads to", sandbox.read("/tmp/link"), b"seen")
    unlimited = sandbox.read("/tmp/seen", limit=1 << 50)
    same("what is read with a limit above all files", unlimited, b"seen")
    raises("read beyond its limit", OSError, sandbox.read, "/tmp/seen", limit=3)
    sandbox.write("/tmp/large", data)
    many = ["/tmp/seen", "/tmp/missing", "/tmp/large", "/tmp/", "/tmp/link"]
    same("many files", [*sandbox.read_many(many)], [b"seen", None, data, None, b"seen"])


def _reads_only_files(sandbox: Sandbox) -> None:
    """read, write: a missing file raises FileNotFoundError; folders, FIFOs, devices, link loops
    OSError; none hangs."""
    sandbox.exec(
        "cd /tmp; mkfifo fifo; ln -s loop loop; ln -s nowhere dangling; "
        "ln -s /dev/zero zero; mkdir folder"
    )
    for path in ("/tmp/missing", "/no/such/folder/file", "/tmp/dangling"):
        raises(f"read of {path}", FileNotFoundError, sandbox.read, path)
    neither = "/tmp/folder", "/tmp/fifo", "/tmp/loop", "/etc/passwd/x"
    for path in (*neither, "/tmp/zero", "/dev/zero"):
        raises(f"read of {path}", OSError, sandbox.read, path)
    for path in (*neither, "/tmp/loop/x"):
        raises(f"write of {path}", OSError, sandbox.write, path, b"x")
    prints(sandbox, _ALIVE)


def _reads_moving_links(sandbox: Sandbox) -> None:
    """read: a link that changes during the read gives the file or an error, never other content,
    and never hangs."""
    prints(
        sandbox,
        "cd /tmp; echo a > a; ln -s a l; mkfifo f",
        "cd /tmp; setsid bash -c 'while :; do for to in a /dev/zero f . "
        "l /proc/self/root/etc/passwd; do ln -sfn $to l; done; done' > /dev/null 2>&1 &",
    )
    for _ in range(100):
        try:
            content = sandbox.read("/tmp/l", limit=1 << 20)
        except OSError:
            continue
        same("content behind a moving link", content in (b"a\n", sandbox.read("/etc/passwd")))


def _reads_large_files(sandbox: Sandbox) -> None:
    """read: a file above the limit raises OSError (EFBIG), even if it is sparse or grows during the
    read; the sandbox survives."""
    sandbox.exec(
        "truncate -s 64M /tmp/sparse; yes > /tmp/grows & sleep 0.1; truncate -s 100G /tmp/vast"
    )
    size = 1 << 26
    same("length of a sparse file", len(sandbox.read("/tmp/sparse", limit=size)), size)
    subject = "read of a sparse file beyond the limit"
    message = raises(subject, OSError, sandbox.read, "/tmp/sparse", limit=size - 1)
    for path in ("/tmp/grows", "/tmp/vast"):  # the limits decide their size
        with suppress(OSError):
            sandbox.read(path, limit=1 << 24)
    same("the error names the size", str(size) in message)
    prints(sandbox, "kill $!", _ALIVE)


def _sees_changes(sandbox: Sandbox) -> None:
    """diff: every path that was added, changed or removed, with type, mode, digest and link target;
    nothing else."""
    same("diff of a fresh sandbox", sandbox.diff(), {})
    sandbox.exec(
        "mkdir -m 750 /tmp/d; echo a > /tmp/d/f; chmod 4711 /tmp/d/f; ln -s 'to there' /tmp/l; "
        "mkfifo -m 600 /tmp/p; echo more >> /etc/passwd; chmod 700 /var/tmp; "
        "echo same > /tmp/same; cp /tmp/same /tmp/d/same"
    )
    changes = sandbox.diff()
    expected = {
        "/etc/passwd": "changed file",
        "/tmp/d": "added dir",
        "/tmp/d/f": "added file",
        "/tmp/d/same": "added file",
        "/tmp/l": "added link",
        "/tmp/p": "added other",
        "/tmp/same": "added file",
        "/var/tmp": "changed dir",
    }
    same("paths and kinds", _kinds(changes), expected)
    same("order", list(changes), sorted(changes))
    modes = {"/tmp/d": "0o750", "/tmp/d/f": "0o4711", "/tmp/p": "0o600", "/var/tmp": "0o700"}
    same("modes", {path: oct(changes[path].mode) for path in modes}, modes)
    digest = changes["/tmp/same"].digest
    same("target of a link", changes["/tmp/l"].target, "to there")
    same("digests of equal files are equal", digest, changes["/tmp/d/same"].digest)
    same("digests of others differ", digest != changes["/tmp/d/f"].digest)


def _sees_no_change(sandbox: Sandbox) -> None:
    """diff: a path that was rewritten, moved away and back, or removed and recreated as it was, is
    not a change."""
    sandbox.exec(
        "cp -p /etc/passwd /tmp/p; cat /tmp/p > /etc/passwd; touch /etc/passwd; rm /tmp/p; "
        "mv /etc/passwd /etc/moved; mv /etc/moved /etc/passwd; chmod 700 /var; chmod 755 /var; "
        "touch /tmp/x; rm /tmp/x"
    )
    same("diff", sandbox.diff(), {})
    sandbox.exec("cp -p /etc/passwd /tmp/p; rm /etc/passwd; mv /tmp/p /etc/passwd")
    same("diff after removing and making again", sandbox.diff(), {})


def _sees_removed_folders(sandbox: Sandbox) -> None:
    """diff: a removed folder is reported with all its files, even if a new folder or a file took
    its place."""

    def kinds() -> dict[str, str]:
        return {path: change.kind for path, change in sandbox.diff().items()}

    inside = set(sandbox.exec("find /var").output.split("\n")) - {"", "/var"}
    removed: dict[str, str] = dict.fromkeys(inside, "removed")
    sandbox.exec("mode=$(stat -c %a /var); rm -rf /var; mkdir -m $mode /var; echo new > /var/new")
    same("diff of a folder made again", kinds(), {**removed, "/var/new": "added"})
    sandbox.exec("rm -rf /var; echo file > /var")
    same("diff of a folder replaced by a file", kinds(), {**removed, "/var": "changed"})
    same("type of the file", sandbox.diff()["/var"].type, "file")
    sandbox.exec("rm /var")
    same("diff of a removed folder", kinds(), {**removed, "/var": "removed"})
    types = {change.type for change in sandbox.diff().values()}
    same("types in a removed folder", types <= {"file", "dir", "link", "other"})
    sandbox.exec("rm /etc/passwd; mkdir /etc/passwd; touch /etc/passwd/x")
    changes = _kinds(sandbox.diff()).items()
    same(
        "diff of a file replaced by a folder",
        {path: kind for path, kind in changes if path.startswith("/etc")},
        {"/etc/passwd": "changed dir", "/etc/passwd/x": "added file"},
    )


def _sees_any_name(sandbox: Sandbox) -> None:
    """diff: names may contain spaces, newlines, quotes and bytes that are not UTF-8 (decoded by
    os.fsdecode)."""
    sandbox.exec("cd /tmp; touch -- ' ' $'a\\nb' $'\\xff\\xfe' '\"' '\\'  é '-n'")
    binary = os.fsdecode(b"/tmp/\xff\xfe")
    expected = {"/tmp/ ", "/tmp/a\nb", binary, '/tmp/"', "/tmp/\\", "/tmp/é", "/tmp/-n"}
    same("paths", set(sandbox.diff()), expected)
    same("read of such a name", sandbox.read(binary), b"")


def _kinds(changes: dict[str, Change]) -> dict[str, str]:
    return {path: f"{change.kind} {change.type}" for path, change in changes.items()}


# -- reset, fork, close ----------------------------------------------------------------------------


def _resets_all(sandbox: Sandbox) -> None:
    """reset: files, processes, directory, variables and shared memory are as at the start."""
    prints(
        sandbox,
        "cd /tmp; x=1; umask 0; echo > /tmp/f; rm /etc/passwd; echo > /dev/shm/f; ulimit -n 300; "
        "echo > /var/tmp/f",
        "setsid sleep 4321 > /dev/null 2>&1 & exec 9> /tmp/open",
    )
    sandbox.reset()
    same("diff after reset", sandbox.diff(), {})
    prints(
        sandbox,
        (
            "pwd; echo ${x-unset} $(umask); ls -A /tmp /dev/shm; ls /etc/passwd; ls -A /var/tmp",
            "/\nunset 0022\n/dev/shm:\n\n/tmp:\n/etc/passwd\n",
        ),
        (
            # a process may end before its turn comes, and one that was killed may take a moment
            "while cat /proc/[0-9]*/cmdline 2> /dev/null | tr '\\0' ' ' | grep '[s]leep 4321'; "
            "do sleep 1; done > /dev/null; [ $(ulimit -n) -gt 300 ] && echo many",
            "many\n",
        ),
    )


def _forks_files(sandbox: Sandbox) -> None:
    """fork: a second sandbox has the same files and directory; afterwards neither affects the
    other."""
    prints(
        sandbox,
        "mkdir -p /tmp/d; cd /tmp/d; echo a > a; ln a b; ln -s a l; mkfifo -m 640 p; "
        "chmod 4755 a; rm -rf /var; mkdir /var",
        "rm /etc/passwd; touch -d 2001-02-03 $'n\\n'; mkdir deep; touch deep/x; echo > /etc/new",
    )
    with sandbox.fork() as copy:
        same("diff of the copy", copy.diff(), sandbox.diff())
        prints(
            copy,
            (
                "pwd; ls -A /var; stat -c %y $'n\\n' | cut -c 1-10; ls /etc/passwd 2> /dev/null",
                "/tmp/d\n2001-02-03\n",
            ),
            ("echo more >> b; cat a; rm -r deep; echo > /tmp/x; touch /etc/passwd", "a\nmore\n"),
        )
        prints(sandbox, ("cat a b; ls deep; ls /tmp; ls /etc/passwd 2> /dev/null", "a\na\nx\nd\n"))
        expected = sandbox.limits, sandbox.session
        same("limits and session of the copy", (copy.limits, copy.session), expected)
        with copy.fork() as third:
            prints(third, ("cat a; ls /tmp", "a\nmore\nd\nx\n"))
        sandbox.reset()
        prints(copy, ("cat a", "a\nmore\n"))
    prints(sandbox, _ALIVE)


def _refuses_to_fork_processes(sandbox: Sandbox) -> None:
    """fork: a process that still runs raises ForkError with its name; the sandbox stays as it
    was."""
    sandbox.exec(
        "sleep 300 > /dev/null 2>&1 & echo $! > /tmp/pid; "
        # until it runs, by builtins, which use no process number
        "while :; do for at in /proc/[0-9]*/comm; do read -r name < $at; "
        "[ $name = sleep ] && break 2; done 2> /dev/null; done"
    )
    message = raises("fork with a running process", ForkError, sandbox.fork)
    same("the error names the process", "sleep" in message)
    sandbox.exec("kill $(cat /tmp/pid); while kill -0 $(cat /tmp/pid); do :; done", timeout=5)
    sandbox.fork().close()


_OVERWRITES = [
    "echo 2 > /sealed/in/f; echo 2 >> /var/tmp/kept/f; echo 2 1<> /var/tmp/kept/f",
    "touch /sealed/new /sealed/in/new; mkdir /sealed/more; ln -s / /sealed/link",
    "chmod 777 /sealed/in /sealed/in/f /var/tmp/kept/f; chown 1 /sealed/in/f /var/tmp/kept/f",
    "rm -rf /sealed /var/tmp/kept/f; rmdir /sealed; umount -l /sealed /var/tmp/kept/f",
    "echo 2 > /tmp/f; mv -f /tmp/f /sealed/in/f; mv -f /tmp/f /var/tmp/kept/f; "
    "ln -f /tmp/f /var/tmp/kept/f; cp --remove-destination /tmp/f /var/tmp/kept/f",
    "mv /sealed /tmp/away; mkdir -p /sealed/in; echo 2 > /sealed/in/f",
    "mv /var/tmp/kept /tmp/away; mkdir -p /var/tmp/kept; echo 2 > /var/tmp/kept/f",
]


def _seals(sandbox: Sandbox) -> None:
    """seal: after a reset no program can change, remove or replace the paths; `write` can, in a
    fork too."""
    same("seal returns", sandbox.seal("/sealed/", "/var/tmp/kept/f"))
    try:
        for _ in range(2):  # a provider may have prepared the second episode
            sandbox.reset()
            _holds_sealed(sandbox, "1")
            with sandbox.fork() as copy:
                _holds_sealed(copy, "2")
            prints(sandbox, ("cat /sealed/in/f; echo 1 > /sealable && cat /sealable", "1\n1\n"))
    finally:
        sandbox.seal()


def _holds_sealed(sandbox: Sandbox, text: str) -> None:
    for path in ("/sealed/in/f", "/var/tmp/kept/f"):
        sandbox.write(path, f"{text}\n".encode())
    look = "cat /sealed/in/f /var/tmp/kept/f; ls -A /sealed; stat -c %a /sealed/in/f"
    for action in _OVERWRITES:
        sandbox.exec(action)
        output = sandbox.exec(look).output
        same(f"after `{action}`, `{look}` prints", output, f"{text}\n{text}\nin\n644\n")


def _unseals(sandbox: Sandbox) -> None:
    """seal: without paths, nothing of earlier seals is left after a reset."""
    same("seal returns", sandbox.seal("/sealed/", "/var/tmp/kept/f"))
    sandbox.reset()
    sandbox.write("/sealed/f", b"")
    same("seal without paths returns", sandbox.seal())
    for _ in range(2):
        sandbox.reset()
        same("diff after reset", sandbox.diff(), {})
        action = (
            "mkdir -p /sealed /var/tmp/kept && echo 1 > /sealed/f && echo 2 > /var/tmp/kept/f && "
            "mv /sealed /var/tmp/kept/moved && rm /var/tmp/kept/f && ls -A /var/tmp/kept"
        )
        prints(sandbox, (action, "moved\n"))


def _closes_twice(sandbox: Sandbox) -> None:
    """close: may be called twice, and after the sandbox was used."""
    sandbox.exec("sleep 300 &")
    sandbox.close()
    sandbox.close()


def _is_closed(sandbox: Sandbox) -> None:
    """close: all other methods raise UsageError afterwards; a fork stays open."""
    copy = sandbox.fork()
    sandbox.close()
    with copy:
        for method in (sandbox.diff, sandbox.reset, sandbox.fork):
            raises("use after close", UsageError, method)
        raises("use after close", UsageError, sandbox.exec, "true")
        raises("use after close", UsageError, sandbox.read, "/etc/passwd")
        raises("use after close", UsageError, sandbox.write, "/tmp/x", b"")
        prints(copy, _ALIVE)


_STATE = """
x='a b' y=$'two\\nlines'; export E='e e'; declare -r fixed=1; declare -i number=3; \
list=(1 'b c'); declare -A map=([k]='v w')
f() { echo "f $*"; }; alias hi='echo hello'; set -o noclobber; shopt -s nullglob; \
trap 'echo usr1' USR1
umask 027; set -- 'p q' r
"""
_SHOW = """
echo "$x|$y|$(bash -c 'echo "$E"')|$fixed|${list[1]}|${map[k]}|$1 $2 $#"; \
number+=4; echo $number; f 1; hi; umask
echo /no/match*; shopt -po noclobber; kill -USR1 $$; fixed=2
"""


def _forks_the_session(sandbox: Sandbox) -> None:
    """fork, persistent: the copy has variables, functions, aliases, options, traps, arguments,
    umask and last status."""
    prints(sandbox, _STATE, "(exit 42)")
    with sandbox.fork() as copy:
        prints(copy, ("echo $?", "42\n"))
        same("state of the copy", copy.exec(_SHOW).output, sandbox.exec(_SHOW).output)
        copy.exec("x=other")
        prints(sandbox, ('echo "$x"', "a b\n"))
        prints(copy, ("echo $x; echo $?", "other\n0\n"))


def _refuses_to_fork_descriptors(sandbox: Sandbox) -> None:
    """fork, persistent: an open descriptor raises ForkError with its name; once closed, fork
    works."""
    sandbox.exec("exec 7> /tmp/held")
    message = raises("fork with an open descriptor", ForkError, sandbox.fork)
    same("the error names the descriptor", "7" in message and "/tmp/held" in message)
    sandbox.exec("exec 7>&-")
    sandbox.fork().close()


_BOTH = [
    _prints_in_order,
    _returns_the_exit_code,
    _survives_syntax_errors,
    _gives_no_input,
    _takes_any_text,
    _runs_a_program,
    _keeps_the_directory,
    _stops_at_the_time_limit,
    _ends_all_processes,
    _caps_the_output,
    _reads_and_writes,
    _reads_only_files,
    _reads_moving_links,
    _reads_large_files,
    _sees_changes,
    _sees_no_change,
    _sees_removed_folders,
    _sees_any_name,
    _resets_all,
    _forks_files,
    _refuses_to_fork_processes,
]
# Clauses for providers that support `run`.
_RUN = [
    _runs_beside_the_session,
    _runs_with_a_shell_s_status,
    _runs_any_bytes,
    _runs_until_the_time_limit,
    _runs_several_at_once,
    _leaves_background_processes,
    _copies_files_and_folders,
]
# Clauses for providers that support `seal`.
_SEAL = [_seals, _unseals]
_SESSION = {
    "persistent": [
        _keeps_the_session,
        _keeps_descriptors,
        _keeps_the_session_at_timeouts,
        _announces_a_lost_session,
        _forks_the_session,
        _refuses_to_fork_descriptors,
    ],
    "stateless": [_keeps_only_the_directory],
}
_ENDS = [_closes_twice, _is_closed]
