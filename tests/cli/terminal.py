"""A program in a real terminal, whose keys are pressed and whose screen is read."""

from __future__ import annotations

import os
import re
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

UP, CTRL_C, CTRL_D = "\x1b[A", "\x03", "\x04"


class Terminal:
    """`setsid --ctty` makes the new terminal the program's own, so that Ctrl-C comes as a
    signal."""

    def __init__(self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> None:
        self._master, inside = os.openpty()
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *command],
            cwd=cwd,
            env={**env, "TERM": "xterm"},
            stdin=inside,
            stdout=inside,
            stderr=inside,
        )
        os.close(inside)
        self.shown, self._read = "", 0

    def press(self, keys: str) -> None:
        if keys == CTRL_C:
            self._until_it_sleeps()
        os.write(self._master, keys.encode())

    def _until_it_sleeps(self) -> None:
        """An interrupt that comes while Python takes in the key before it is noticed at the next
        key only."""
        deadline = time.monotonic() + 20
        while (
            Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "S"
        ):
            assert time.monotonic() < deadline, "it does not wait for a key"
            os.sched_yield()

    def expect(self, text: str, seconds: float = 20) -> str:
        """Wait until `text` is shown after what was expected last; all that came until then."""
        deadline = time.monotonic() + seconds
        while not (found := re.search(re.escape(text), self.shown[self._read :])):
            assert self._receive(deadline), (
                f"{text!r} does not come; so far: {self.shown[self._read :]!r}"
            )
        start, self._read = self._read, self._read + found.end()
        return self.shown[start : self._read]

    def ends(self, seconds: float = 60) -> int:
        """Its exit status, once it has ended; what it still says is in `shown`."""
        deadline = time.monotonic() + seconds
        while self._receive(deadline):
            pass
        return self.process.wait(max(0.1, deadline - time.monotonic()))

    def _receive(self, deadline: float) -> bool:
        """Something more was shown; False at the end."""
        if not select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return False
        try:
            came = os.read(self._master, 65536)
        except OSError:  # nobody has the terminal open any more
            return False
        self.shown += came.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(came)

    def hang_up(self) -> None:
        """As when its window is closed."""
        os.close(self._master)
        self._master = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.process.kill()
        self.process.wait()
        if self._master >= 0:
            os.close(self._master)
