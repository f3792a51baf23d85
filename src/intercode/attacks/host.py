"""What an attack from inside wants to reach, planted on this machine while it is tried."""

from __future__ import annotations

import os
import select
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Planted:
    """A process with a secret, and the words under which actions know a file and two listening sockets."""

    victim: subprocess.Popen[bytes]
    words: dict[str, str]

    def fill(self, action: str) -> str:
        for word, value in self.words.items():
            action = action.replace(word, value)
        return action

    def killed(self) -> bool:
        """Whether the process no longer answers. A signal that it was sent comes before the question."""
        assert self.victim.stdin is not None
        assert self.victim.stdout is not None
        with suppress(BrokenPipeError):
            self.victim.stdin.write(b"?")
            ready, _, _ = select.select([self.victim.stdout], [], [], 5)
            return not (ready and self.victim.stdout.read(1))
        return True


@contextmanager
def planted(**user: Any) -> Iterator[Planted]:
    """`user` are arguments of `Popen` by which the process runs as somebody else."""
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
        subprocess.Popen(  # it looks like a `sleep`, and says everything again
            ["sleep 54321"],
            executable=shutil.which("cat"),
            env={**os.environ, "PLANTED": "outside"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            **user,
        ) as victim,  # fmt: skip
    ):
        port = server.getsockname()[1]
        abstract.bind(f"\0intercode-test-{port}")
        abstract.listen()
        file = Path(folder) / "planted"
        file.write_text("BREACH\n")
        Path(folder).chmod(0o755)
        try:
            yield Planted(victim, {"@FILE@": str(file), "@PORT@": str(port)})
        finally:
            victim.kill()
