"""A real MariaDB on this machine, outside any sandbox, as a user of the package may have one."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from families import wait_until

_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
_QUICK = ("--innodb-flush-log-at-trx-commit=0", "--skip-innodb-doublewrite", "--innodb-use-native-aio=0")


@dataclass(frozen=True)
class Host:
    """`port` is on 127.0.0.1; at `socket` root needs no password."""

    port: int
    socket: Path
    process: subprocess.Popen[bytes]


@contextmanager
def running(content: str, *options: str) -> Iterator[Host]:
    """A server that has executed these statements, in a folder of its own. Skips where MariaDB is not installed."""
    install, serve = (shutil.which(name, path=_PATH) for name in ("mariadb-install-db", "mariadbd"))
    if install is None or serve is None:
        pytest.skip("MariaDB is not installed (apt-get install mariadb-server)")
    folder = Path(tempfile.mkdtemp(prefix="intercode-host-"))
    common = ["--no-defaults", f"--datadir={folder}/data", *(["--user=root"] if os.getuid() == 0 else [])]
    try:
        making = [install, *common, "--auth-root-authentication-method=normal", "--skip-test-db"]
        subprocess.run(making, check=True, capture_output=True)
        port, path = free_port(), folder / "s"
        where = [f"--socket={path}", "--bind-address=127.0.0.1", f"--port={port}", f"--pid-file={folder}/pid"]
        with (
            open(folder / "log", "wb") as log,
            subprocess.Popen([serve, *common, *where, *_QUICK, *options], stderr=log) as process,
        ):
            try:
                assert wait_until(lambda: _answers(path) or process.poll() is not None, 30), "the server does not answer"
                assert process.poll() is None, (folder / "log").read_text()[-2000:]
                client = ["mariadb", "--no-defaults", f"--socket={path}", "-uroot", "--default-character-set=utf8mb4"]
                subprocess.run(client, input=content, text=True, check=True, capture_output=True)
                yield Host(port, path, process)
            finally:
                process.terminate()
    finally:
        shutil.rmtree(folder)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0
