"""Downloads from a real local server that cuts connections and sends wrong bytes."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from loopback import Behaviour, Quiet, Server, serving

from intercode.errors import DataError, UsageError
from intercode.tasks import catalog
from intercode.tasks.catalog import fetch

CONTENT = random.Random(7).randbytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
BLOB = hashlib.sha1(b"blob 300000\0" + CONTENT).hexdigest()


class Handler(Quiet):
    def do_GET(self) -> None:
        self.server.next_behaviour(self.path)(self)

    def head(self, status: int, **headers: object) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()


@dataclass(frozen=True)
class serve:
    """Serves the file; `cut` ends the connection after so many bytes, `announce=False` sends no
    length."""

    content: bytes = CONTENT
    cut: int | None = None
    announce: bool = True

    def __call__(self, handler: Handler) -> None:
        handler.head(200, **({"Content_Length": len(self.content)} if self.announce else {}))
        handler.wfile.write(self.content[: self.cut])


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
def server() -> Iterator[Server]:
    with serving(Server(Handler, serve())) as running:
        yield running


@pytest.fixture
def dest(tmp_path: Path) -> Path:
    return tmp_path / "new" / "folder" / "file.bin"


HOW = {"digest": SHA256, "size": len(CONTENT), "backoff": 0.001, "timeout": 5.0}


def get(server: Server, dest: Path, **options: Any) -> None:
    assert fetch(server.url + "/file", dest, **{**HOW, **options}) == dest
    assert dest.read_bytes() == CONTENT
    assert [path.name for path in dest.parent.iterdir()] == [dest.name]


CUT = serve(cut=100_000)
HEALED: dict[str, list[Behaviour]] = {
    "nothing to heal": [serve()],
    "a cut": [CUT, CUT, serve()],
    "a cut that no length announced": [serve(cut=100_000, announce=False), serve()],
    "wrong bytes once": [serve(content=b"x" * len(CONTENT)), serve()],
    "more bytes than there should be": [serve(content=CONTENT * 2), serve()],
    "429 and no answer": [status(429), hang_up, serve()],
    "a redirect": [status(302, Location="/file"), serve()],
    "a stall": [stall, serve()],
}


@pytest.mark.parametrize("known", [{}, {"digest": BLOB, "size": None}], ids=["sha256", "blob id"])
@pytest.mark.parametrize("case", HEALED)
def test_a_passing_fault_is_healed_by_asking_again(
    server: Server, dest: Path, case: str, known: dict[str, Any]
) -> None:
    server.script = HEALED[case]
    get(server, dest, timeout=1.5 if case == "a stall" else 5.0, **known)
    assert len(server.requests) == len(server.script)


def test_a_file_that_is_there_is_not_requested_and_a_spoilt_one_is_replaced(
    server: Server, dest: Path
) -> None:
    calls: list[tuple[int, int]] = []
    get(server, dest, progress=lambda done, total: calls.append((done, total)))
    assert calls == sorted(calls)
    assert calls[-1] == (len(CONTENT), len(CONTENT))
    get(server, dest)
    assert len(server.requests) == 1
    dest.write_bytes(CONTENT[:-1])
    get(server, dest)
    assert len(server.requests) == 2


LASTING: dict[str, tuple[Behaviour, str, int]] = {
    "always cut": (CUT, r"cut after 100000 of 300000 bytes.*tried 3 times", 3),
    "500": (status(500), r"/file: HTTP 500 .*tried 3 times", 3),
    "404": (status(404), "/file: HTTP 404", 1),
    "a page": (
        serve(content=b"<html>log in</html>" * 20_000),
        rf"SHA-256 of the download is [0-9a-f]{{64}}, not {SHA256}",
        3,
    ),
}


@pytest.mark.parametrize("case", LASTING)
def test_a_lasting_fault_is_told_with_its_address(server: Server, dest: Path, case: str) -> None:
    behaviour, message, requests = LASTING[case]
    server.script = [behaviour]
    with pytest.raises(DataError, match=message):
        fetch(server.url + "/file", dest, digest=SHA256, size=len(CONTENT), backoff=0.001, tries=3)
    assert list(dest.parent.iterdir()) == []
    assert len(server.requests) == requests


def test_retry_after_is_waited_for_but_not_for_an_hour(
    server: Server, dest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "LONGEST_WAIT", 0.2)
    server.script = [status(429, Retry_After="1"), status(503, Retry_After="3600"), serve()]
    started = time.monotonic()
    get(server, dest)
    assert 0.3 <= time.monotonic() - started < 30


def test_what_cannot_be_fetched_or_written_says_why(
    server: Server, dest: Path, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match="the connection failed"):
        fetch("http://127.0.0.1:9/file", dest, digest=SHA256, size=1, tries=2, backoff=0.001)
    for url in ("file:///etc/hostname", "no address"):
        with pytest.raises(UsageError, match="only http"):
            fetch(url, dest, digest=SHA256, size=1)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UsageError, match="cannot be written"):
        fetch(server.url + "/file", tmp_path / "file" / "below", digest=SHA256, size=1)


def test_threads_that_fetch_the_same_file_at_once_all_get_it(server: Server, dest: Path) -> None:
    workers = [
        threading.Thread(target=fetch, args=(server.url + "/file", dest), kwargs=HOW)
        for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    get(server, dest)
