"""Another system to measure against, in an interpreter of its own (its packages are no dependency
of ours).

    we      the name of an operation, a line on its stdin
    peer    executes it and answers with the seconds, a line; with JSON, if it is asked for its
            containers or outputs

What the peer's own code prints goes to stderr.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from intercode_sandbox.docker.daemon import docker
from measuring.memory import family, parent, pss
from measuring.rows import skip

SERVE = """
import json, os, sys, time
replies = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)
containers = outputs = list
{setup}
replies.write("ready\\n")
for line in sys.stdin:
    if line.strip() in ("containers", "outputs"):
        replies.write(json.dumps([*globals()[line.strip()]()]) + "\\n")
        continue
    act = operations[line.strip()]
    started = time.perf_counter()
    act()
    replies.write(repr(time.perf_counter() - started) + "\\n")
{ending}
"""


@dataclass(frozen=True)
class Candidate:
    """A system that may be installed: `python` is its interpreter, None if nobody named one.

    `setup` is code that defines `operations`, functions by name, and two more functions where they
    apply: `containers` names those of docker's that it uses, `outputs` executes golds and returns
    the output and the exit status of each. `ending` is executed at the end.
    """

    name: str
    python: str | None
    setup: str
    operations: tuple[str, ...]
    ending: str = ""


class Peer:
    """One that has started. Raises `OSError` with its last words where it ends."""

    def __init__(self, candidate: Candidate, python: str) -> None:
        self.name, self.operations = candidate.name, candidate.operations
        code = SERVE.format(setup=candidate.setup, ending=candidate.ending)
        pipes: dict[str, Any] = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
        }
        self._process = subprocess.Popen([python, "-I", "-c", code], **pipes)
        self._hear()

    def measure(self, operation: str) -> float:
        return float(self._ask(operation))

    def memory(self, *, itself: bool = True) -> int:
        """Bytes of PSS of its process (or, without `itself`, not of it) and of all that it started,
        containers with their shims among it."""
        containers = json.loads(self._ask("containers"))
        inside = [docker("inspect", "--format", "{{.State.Pid}}", each) for each in containers]
        roots = [self._process.pid, *[parent(int(pid)) for pid in inside]]
        processes = set[int]().union(*map(family, roots))
        return sum(map(pss, processes if itself else processes - {self._process.pid}))

    def outputs(self) -> list[tuple[list[str], int]]:
        """Return the lines that each gold prints, sorted as `find` has no order, and its status."""
        outputs = json.loads(self._ask("outputs"))
        return [(sorted(output.splitlines()), status) for output, status in outputs]

    def close(self) -> None:
        self._process.communicate()

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._hear()

    def _hear(self) -> str:
        assert self._process.stdout is not None
        if line := self._process.stdout.readline():
            return str(line).strip()
        _, words = self._process.communicate()
        faults = [line for line in words.splitlines() if "Error" in line or "Exception" in line]
        raise OSError(f"{self.name} ended: {(faults or ['without a word'])[-1][:200]}")


@contextmanager
def installed(candidates: Sequence[Candidate]) -> Iterator[list[Peer]]:
    """Those that an interpreter is named for; of the others it is said that they are left out.
    Raises `OSError` if one fails: a system that is installed and does not start is a fault of the
    script, or of its installation.
    """
    with ExitStack() as stack:
        found = []
        for candidate in candidates:
            if candidate.python is None:
                skip(candidate.name, "no interpreter is named for it (see --help)")
                continue
            found.append(Peer(candidate, candidate.python))
            stack.callback(found[-1].close)
        yield found
