"""The command `intercode-sandbox`: run a program in a sandbox, check this machine, attack the
sandbox.

Exit status: of `run`, that of the program, or 124 if its time was up; else 0 done, 1 something does
not work or an attack succeeded; 2 wrong usage, 3 a fault of the machine, 130 interrupted, 141 the
reader of the output has closed it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import BinaryIO, NoReturn

from intercode_sandbox.base import PROVIDERS, Sandbox
from intercode_sandbox.errors import IntercodeError, UsageError


def main(words: Sequence[str] | None = None) -> int:
    """Execute the command line, and return its exit status."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the caller closed it
            setattr(sys, name, open(os.devnull, mode))
    try:
        options = _parser().parse_args(words)
        status = options.execute(options)
        sys.stdout.flush()
        return int(status)
    except UsageError as error:
        return _fail(2, str(error))
    except IntercodeError as error:
        return _fail(3, str(error))
    except KeyboardInterrupt:
        return _fail(130, "interrupted")
    except OSError as error:
        try:
            sys.stdout.flush()
        except OSError:  # discard the buffer, else the interpreter tries again when it exits
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 141
        if error.filename:
            return _fail(3, f"{error.filename}: {error.strerror}")
        return _fail(3, str(error))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="intercode-sandbox", description="Run programs in sandboxes.")
    commands = parser.add_subparsers(required=True, metavar="run|doctor|attack")
    run = commands.add_parser(
        "run",
        help="run a program in a new sandbox",
        usage="%(prog)s [options] -- COMMAND…",
        description="Run a program in a new sandbox. Its input is read to the end before it "
        "starts (none from a terminal), and its output is printed when it has ended. The exit "
        "status is that of the program; 124 if its time was up.",
    )
    run.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    run.add_argument("--tree", metavar="DIR", help="put a folder or tar at /")
    run.add_argument("--image", metavar="NAME", help="take the programs inside from an image")
    run.add_argument("--timeout", type=seconds, metavar="S", help="kill it after S seconds [10]")
    run.set_defaults(execute=_run)
    doctor = commands.add_parser(
        "doctor", help="check this machine, and print the command that repairs each problem"
    )
    doctor.add_argument(
        "--clean", action="store_true", help="first remove what dead processes left"
    )
    doctor.set_defaults(execute=_doctor)
    attack = commands.add_parser("attack", help="play attacks on a sandbox, and print which held")
    attack.add_argument("names", nargs="*", metavar="NAME", help="an attack [all]")
    attack.set_defaults(execute=_attack)
    for command in (run, attack):
        command.add_argument("--sandbox", choices=PROVIDERS, help="[local, or pod if need be]")
    for command in (doctor, attack):
        command.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError
    return value


def _run(options: argparse.Namespace) -> int:
    from intercode_sandbox.opening import open_sandbox

    command = options.command
    if command[:1] == ["--"]:
        del command[0]
    if not command:
        raise UsageError("no command; write intercode-sandbox run -- COMMAND…")
    with open_sandbox(options.image, provider=options.sandbox, tree=options.tree) as box:
        stdin = b""
        if not sys.stdin.isatty():
            stdin = sys.stdin.buffer.read()
        result = box.run(command, stdin=stdin, timeout=options.timeout)
    _write(sys.stderr.buffer, result.stderr)
    try:
        _write(sys.stdout.buffer, result.stdout)
    except BrokenPipeError:  # the reader has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if result.limits:
        _fail(0, f"a limit was hit: {', '.join(result.limits)}")
    if result.exit_code is None:
        return _fail(124, "the time was up; give more with --timeout")
    return result.exit_code


def _write(stream: BinaryIO, data: bytes) -> None:
    """Write all of it: without a buffer, one call may write a part."""
    rest = memoryview(data)
    while rest:
        rest = rest[stream.write(rest) :]
    stream.flush()


def _doctor(options: argparse.Namespace) -> int:
    from intercode_sandbox.doctor import clean, examine

    if options.clean:
        for removed in clean():
            print(f"removed {removed}", file=sys.stderr)
    findings = examine()
    if options.json:
        print(json.dumps({"findings": [finding.record() for finding in findings]}))
    else:
        print(*findings, sep="\n")
    return int(any(finding.ok is False for finding in findings))


def _attack(options: argparse.Namespace) -> int:
    from intercode_sandbox.attack_run import play_attacks
    from intercode_sandbox.attacks import LIMITS
    from intercode_sandbox.opening import open_sandbox

    def open_box() -> Sandbox:
        return open_sandbox(provider=options.sandbox, limits=LIMITS)

    results = []
    for result in play_attacks(open_box, options.names):
        results.append(result)
        if not options.json:
            word = {True: "held ", False: "FAILS", None: "not tried"}[result.held]
            line = f"{word}  {result.name} ({result.aim})"
            if result.why:
                line += f": {result.why}"
            print(line, flush=True)
    if options.json:
        print(json.dumps({"attacks": [result._asdict() for result in results]}))
    held = {result.held for result in results}
    if False in held:
        return 1
    if None in held:
        return 3
    return 0


def _fail(status: int, why: str) -> int:
    print(f"intercode-sandbox: {why}", file=sys.stderr)
    return status
