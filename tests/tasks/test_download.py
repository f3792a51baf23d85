"""Downloads against a real local server that cuts lines, lies about lengths and sends wrong bytes."""

from __future__ import annotations

import hashlib
import multiprocessing
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from intercode.errors import DataError, UsageError
from intercode.tasks import download
from intercode.tasks.download import fetch

CONTENT = random.Random(7).randbytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()

Behaviour = Callable[["Handler"], None]


class Server(ThreadingHTTPServer):
    """Answers request k with behaviour k, and the last one again beyond the end; keeps the ranges it was asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[Behaviour] = [serve()]
        self.ranges: list[str | None] = []
        self.lock = threading.Lock()
        self.stopping = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/file"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        with self.server.lock:
            number = len(self.server.ranges)
            self.server.ranges.append(self.headers["Range"])
        self.server.script[min(number, len(self.server.script) - 1)](self)

    def start(self) -> int:
        return int((self.headers["Range"] or "bytes=0-")[len("bytes=") : -1])

    def head(self, status: int, **headers: object) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@dataclass(frozen=True)
class serve:
    """Serves the file; `cut` ends the connection after so many bytes, `ranges=False` ignores Range, and so on."""

    content: bytes = CONTENT
    cut: int | None = None
    ranges: bool = True
    announce: bool = True

    def __call__(self, handler: Handler) -> None:
        content = self.content
        start = handler.start() if self.ranges else 0
        if start >= len(content):
            return handler.head(416, Content_Range=f"bytes */{len(content)}")
        length = {"Content_Length": len(content) - start} if self.announce else {}
        partial = {"Content_Range": f"bytes {start}-{len(content) - 1}/{len(content)}"} if start else {}
        handler.head(206 if start else 200, **length, **partial)
        handler.wfile.write(content[start:][: self.cut])
        return None


def status(code: int, **headers: object) -> Behaviour:
    return lambda handler: handler.head(code, Content_Length=0, **headers)


def hang_up(handler: Handler) -> None:
    handler.close_connection = True


def stall(handler: Handler) -> None:
    handler.head(200, Content_Length=len(CONTENT))
    handler.wfile.write(CONTENT[:1000])
    handler.wfile.flush()
    handler.server.stopping.wait(5)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.stopping.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def dest(tmp_path: Path) -> Path:
    return tmp_path / "new" / "folder" / "file.bin"


def get(server: Server, dest: Path, **options: Any) -> None:
    options = {"sha256": SHA256, "size": len(CONTENT), "backoff": 0.001, "timeout": 5.0, **options}
    assert fetch(server.url, dest, **options) == dest
    assert dest.read_bytes() == CONTENT
    assert [path.name for path in dest.parent.iterdir()] == [dest.name]


def refused(server: Server, dest: Path, message: str, **options: Any) -> None:
    options = {"sha256": SHA256, "size": len(CONTENT), "backoff": 0.001, "timeout": 5.0, **options}
    with pytest.raises(DataError, match=message):
        fetch(server.url, dest, **options)
    assert not dest.exists()


CUT = serve(cut=100_000)
FIRST, REST = None, "bytes=100000-"
HEALED: dict[str, tuple[list[Behaviour], list[str | None]]] = {
    "nothing to heal": ([serve()], [FIRST]),
    "cut lines go on where they broke": ([CUT, serve(cut=50_000), serve()], [FIRST, REST, "bytes=150000-"]),
    "a cut that no length announced": ([serve(cut=100_000, announce=False), serve()], [FIRST, REST]),
    "a server that ignores ranges": ([CUT, serve(ranges=False)], [FIRST, REST]),
    "wrong bytes once": ([serve(content=b"x" * len(CONTENT)), serve()], [FIRST, FIRST]),
    "429 and no answer": ([status(429), hang_up, serve()], [FIRST] * 3),
    "a redirect": ([CUT, status(302, Location="/file"), serve()], [FIRST, REST, REST]),
    "a stall": ([stall, serve()], [FIRST, "bytes=1000-"]),
}


@pytest.mark.parametrize("case", HEALED)
def test_a_passing_fault_is_mended_by_asking_again_for_what_is_missing(server: Server, dest: Path, case: str) -> None:
    server.script, ranges = HEALED[case]
    get(server, dest, timeout=0.2 if case == "a stall" else 5.0)
    assert server.ranges == ranges


def test_a_file_that_is_there_is_not_requested_and_a_spoilt_one_is_replaced(server: Server, dest: Path) -> None:
    get(server, dest, size=None)
    get(server, dest)
    assert len(server.ranges) == 1
    dest.write_bytes(CONTENT[:-1])
    get(server, dest)
    assert len(server.ranges) == 2


@pytest.mark.parametrize(
    ("part", "ranges"),
    [(CONTENT[:100_000], [REST]), (CONTENT, []), (CONTENT + b"more", [FIRST]), (b"x" * 100_000, [REST, FIRST])],
    ids=["a half", "complete", "too long", "of another file"],
)
def test_a_part_is_continued_if_it_is_one(server: Server, dest: Path, part: bytes, ranges: list[str | None]) -> None:
    dest.parent.mkdir(parents=True)
    dest.with_name(dest.name + ".part").write_bytes(part)
    get(server, dest)
    assert server.ranges == ranges


def test_the_next_call_goes_on_where_a_failed_one_stopped(server: Server, dest: Path) -> None:
    server.script = [CUT, hang_up, hang_up, hang_up, serve()]
    refused(server, dest, r"tried 3 times.*100000 bytes are kept", tries=3)
    calls: list[tuple[int, int]] = []
    get(server, dest, progress=lambda done, total: calls.append((done, total)))
    assert server.ranges[-1] == REST
    assert calls == sorted(calls)
    assert calls[-1] == (len(CONTENT), len(CONTENT))


LASTING: dict[str, tuple[Behaviour, str, int]] = {
    "always cut and no ranges": (serve(cut=100_000, ranges=False), "cut after 100000 of 300000 bytes", 3),
    "500": (status(500), r"/file: HTTP 500 .*tried 3 times", 3),
    "404": (status(404), "/file: HTTP 404", 1),
    "a page": (serve(content=b"<html>log in</html>"), rf"SHA-256 of what arrives is [0-9a-f]{{64}}, not {SHA256}", 2),
}


@pytest.mark.parametrize("case", LASTING)
def test_a_lasting_fault_is_told_with_its_address(server: Server, dest: Path, case: str) -> None:
    behaviour, message, requests = LASTING[case]
    server.script = [behaviour]
    refused(server, dest, message, tries=3)
    assert len(server.ranges) == requests


def test_retry_after_is_waited_for_but_not_for_an_hour(server: Server, dest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "LONGEST_WAIT", 0.2)
    server.script = [status(429, Retry_After="1"), status(503, Retry_After="3600"), serve()]
    started = time.monotonic()
    get(server, dest)
    assert 0.3 <= time.monotonic() - started < 2


def test_what_cannot_be_fetched_or_written_says_why(server: Server, dest: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the connection failed"):
        fetch("http://127.0.0.1:9/file", dest, sha256=SHA256, tries=2, backoff=0.001)
    for url in ("file:///etc/hostname", "no address"):
        with pytest.raises(UsageError, match="only http"):
            fetch(url, dest, sha256=SHA256)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UsageError, match="cannot be written"):
        fetch(server.url, tmp_path / "file" / "below", sha256=SHA256)


def test_processes_and_threads_that_fetch_the_same_file_at_once_fetch_it_once(server: Server, dest: Path) -> None:
    server.script = [CUT, serve()]
    context = multiprocessing.get_context("spawn")
    how = {"sha256": SHA256, "size": len(CONTENT), "backoff": 0.001}
    workers = [
        *(context.Process(target=fetch, args=(server.url, dest), kwargs=how) for _ in range(2)),
        *(threading.Thread(target=fetch, args=(server.url, dest), kwargs=how) for _ in range(4)),
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert server.ranges == [FIRST, REST]
    get(server, dest)
