"""What an attack from inside wants to reach, planted on this machine while it is tried."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def with_targets(run: Callable[[Callable[[str], str]], dict[str, Any]], **user: Any) -> dict[str, Any]:
    """Plant what an attack from inside wants to reach: a process with a secret, a file, two listening sockets."""
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
        subprocess.Popen(["sleep", "54321"], env={**os.environ, "PLANTED": "outside"}, **user) as victim,
    ):
        port = server.getsockname()[1]
        abstract.bind(f"\0intercode-test-{port}")
        abstract.listen()
        file = Path(folder) / "planted"
        file.write_text("BREACH\n")
        Path(folder).chmod(0o755)
        words = {"@FILE@": str(file), "@PORT@": str(port)}

        def fill(action: str) -> str:
            for word, value in words.items():
                action = action.replace(word, value)
            return action

        try:
            answer = run(fill)
            dead = victim.poll() is not None or _ends_soon(victim)
            return {"output": answer["output"] + ("BREACH\n" if dead else "")}
        finally:
            victim.kill()


def _ends_soon(victim: subprocess.Popen[bytes]) -> bool:
    try:
        victim.wait(timeout=0.5)
    except subprocess.TimeoutExpired:
        return False
    return True
