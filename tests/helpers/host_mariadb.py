"""A real MariaDB on this machine, outside any sandbox, as a user of the package may have one."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from families import wait_until

_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
_QUICK = (
    "--innodb-flush-log-at-trx-commit=0",
    "--skip-innodb-doublewrite",
    "--innodb-use-native-aio=0",
)


@contextmanager
def running(content: str) -> Iterator[Path]:
    """The socket of a server that has executed these statements, where root needs no password.
    Skips where MariaDB is not installed."""
    install, serve = (shutil.which(name, path=_PATH) for name in ("mariadb-install-db", "mariadbd"))
    if install is None or serve is None:
        pytest.skip("MariaDB is not installed (apt-get install mariadb-server)")
    folder = Path(tempfile.mkdtemp(prefix="intercode-host-"))
    common = [
        "--no-defaults",
        f"--datadir={folder}/data",
        *(["--user=root"] if os.getuid() == 0 else []),
    ]
    try:
        making = [install, *common, "--auth-root-authentication-method=normal", "--skip-test-db"]
        subprocess.run(making, check=True, capture_output=True)
        path = folder / "s"
        where = [f"--socket={path}", "--skip-networking", f"--pid-file={folder}/pid"]
        with (
            open(folder / "log", "wb") as log,
            subprocess.Popen([serve, *common, *where, *_QUICK], stderr=log) as process,
        ):
            try:
                assert wait_until(lambda: path.exists() or process.poll() is not None, 30), (
                    "the server does not answer"
                )
                assert process.poll() is None, (folder / "log").read_text()[-2000:]
                client = [
                    "mariadb",
                    "--no-defaults",
                    "--wait",
                    f"--socket={path}",
                    "-uroot",
                    "--default-character-set=utf8mb4",
                ]
                subprocess.run(client, input=content, text=True, check=True, capture_output=True)
                yield path
            finally:
                process.terminate()
    finally:
        shutil.rmtree(folder)
