"""mmdebstrap as a stream: it makes a Debian root out of sight and writes it as a tar to a pipe.

Root runs it with mounts of its own, so that none is left over however it ends; others in whichever way mmdebstrap finds
(subordinate uids, else fakechroot). Manuals, translations and package documents are left out, as container images do;
times are clamped to `EPOCH`, so that two builds of the same packages differ in nothing that a task could see.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from intercode.errors import DataError, IntercodeError, SandboxError, SandboxUnavailable, UsageError
from intercode.sandbox.identity import identity

Progress = Callable[[str], None]
EPOCH = 1_650_240_000  # 2022-04-18, the date of the base image that the first system was built on
"""No file is younger than this (seconds since 1970; late in 2023)."""

_LEFT_OUT = ("path-exclude=/usr/share/man/*", "path-exclude=/usr/share/locale/*", "path-exclude=/usr/share/info/*")
_DOCUMENTS = ("path-exclude=/usr/share/doc/*", "path-include=/usr/share/doc/*/copyright")
_UNKNOWN = re.compile(r"Unable to locate package|has no installation candidate|does not have a Release file")
_NO_MODE = re.compile(r"unable to pick chroot mode|doesn't exist in /etc/sub|libfakechroot|requires root|cannot mount")


@contextlib.contextmanager
def tar_stream(packages: Sequence[str], suite: str, work: Path, progress: Progress | None) -> Iterator[IO[bytes]]:
    """The root's tar while it is made, to be read to its end. `work` may hold mmdebstrap's files meanwhile.

    What mmdebstrap complains of is raised in place of what the reader made of half a tar. Interrupted, it clears up after
    itself; if this process is killed, it does so once it finds no reader.
    """
    process = _start(packages, suite, work)
    log = _Log(process, progress)
    assert process.stdout is not None
    trouble: DataError | OSError | None = None
    try:
        with process.stdout as archive:
            yield archive
    except (DataError, OSError) as error:
        trouble = error
    except BaseException:
        os.killpg(process.pid, signal.SIGTERM)
        raise
    finally:
        process.wait()
        log.join()
    if process.returncode or trouble:
        raise _failure([*log.lines, str(trouble or "")])


def _start(packages: Sequence[str], suite: str, work: Path) -> subprocess.Popen[bytes]:
    program = shutil.which("mmdebstrap")
    if program is None:
        raise SandboxUnavailable(
            "an image is made by mmdebstrap, which is not installed; mend it with: apt-get install mmdebstrap"
        )
    root = identity().other
    argv = [program, "--variant=minbase", "--format=tar", f"--mode={'unshare' if root else 'auto'}"]
    argv += [f"--dpkgopt={line}" for line in (*_LEFT_OUT, *_DOCUMENTS)]
    argv += [*(f"--include={name}" for name in packages), suite, "-"]
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "SOURCE_DATE_EPOCH": str(EPOCH)} | ({"TMPDIR": str(work)} if root else {})
    return subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=environment, cwd="/", start_new_session=True,
    )  # fmt: skip


class _Log(threading.Thread):
    """What mmdebstrap says, kept and passed on."""

    def __init__(self, process: subprocess.Popen[bytes], progress: Progress | None) -> None:
        super().__init__(name="intercode-mmdebstrap", daemon=True)
        assert process.stderr is not None
        self._stderr, self._progress = process.stderr, progress
        self.lines: list[str] = []
        self.start()

    def run(self) -> None:
        with self._stderr:
            for raw in self._stderr:
                line = raw.decode(errors="replace").strip()
                self.lines.append(line)
                if self._progress and line.startswith("I: "):
                    self._progress(line[3:])


def _failure(lines: list[str]) -> IntercodeError:
    last = "\n".join([line for line in lines if line and not line.startswith("I: ")][-8:])
    if _UNKNOWN.search(last):
        return UsageError(f"the mirror has no such package or suite; look packages up with: apt-cache search WORD\n{last}")
    if _NO_MODE.search(last):
        return SandboxUnavailable(
            "mmdebstrap cannot make a root as this user; mend it with: apt-get install fakechroot fakeroot "
            "(or apt-get install uidmap and a line for this user in /etc/subuid and /etc/subgid), or run it as root:"
            f"\n{last}"
        )
    return SandboxError(f"mmdebstrap could not make the image; are the network and the disk as they should be?\n{last}")
