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
    shift: int = 0

    def __call__(self, handler: Handler) -> None:
        content = self.content
        start = handler.start() if self.ranges else 0
        if start >= len(content):
            return handler.head(416, Content_Range=f"bytes */{len(content)}")
        length = {"Content_Length": len(content) - start} if self.announce else {}
        partial = {"Content_Range": f"bytes {start + self.shift}-{len(content) - 1}/{len(content)}"} if start else {}
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


def endless(handler: Handler) -> None:
    handler.head(200)
    for _ in range(2000):  # 200 MB, far more than the client should take
        try:
            handler.wfile.write(b"x" * 100_000)
        except OSError:
            return


def in_chunks(cut: bool) -> Behaviour:
    def behave(handler: Handler) -> None:
        handler.protocol_version = "HTTP/1.1"
        handler.head(200, Transfer_Encoding="chunked", Connection="close")
        for at in range(0, len(CONTENT) // (2 if cut else 1), 50_000):
            block = CONTENT[at : at + 50_000]
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(block), block))
        if not cut:
            handler.wfile.write(b"0\r\n\r\n")

    return behave


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


def part_of(dest: Path) -> Path:
    return dest.with_name(dest.name + ".part")


def plant_part(dest: Path, content: bytes) -> None:
    dest.parent.mkdir(parents=True)
    part_of(dest).write_bytes(content)


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


def test_a_file_arrives_in_a_folder_that_did_not_exist(server: Server, dest: Path) -> None:
    get(server, dest)
    assert server.ranges == [None]


def test_a_file_of_unknown_size_arrives_too(server: Server, dest: Path) -> None:
    get(server, dest, size=None)


def test_a_file_that_is_there_is_not_requested(server: Server, dest: Path) -> None:
    get(server, dest)
    get(server, dest)
    assert len(server.ranges) == 1


def test_a_spoilt_file_is_replaced(server: Server, dest: Path) -> None:
    dest.parent.mkdir(parents=True)
    dest.write_bytes(CONTENT[:-1])
    get(server, dest)


def test_a_part_is_continued_and_not_fetched_again(server: Server, dest: Path) -> None:
    plant_part(dest, CONTENT[:200_000])
    get(server, dest)
    assert server.ranges == ["bytes=200000-"]


def test_cut_lines_are_continued_where_they_broke(server: Server, dest: Path) -> None:
    server.script = [serve(cut=100_000), serve(cut=50_000), serve()]
    get(server, dest)
    assert server.ranges == [None, "bytes=100000-", "bytes=150000-"]


def test_a_line_that_is_cut_often_but_brings_something_each_time_gets_there(server: Server, dest: Path) -> None:
    server.script = [serve(cut=20_000)]
    get(server, dest, tries=2)
    assert len(server.ranges) == 15


def test_a_cut_that_no_length_announced_is_noticed_by_the_known_size(server: Server, dest: Path) -> None:
    server.script = [serve(cut=100_000, announce=False), serve()]
    get(server, dest)
    assert server.ranges == [None, "bytes=100000-"]


def test_chunked_bodies_work_and_cut_ones_are_continued(server: Server, dest: Path) -> None:
    server.script = [in_chunks(cut=True), serve()]
    get(server, dest, size=None)
    assert server.ranges == [None, "bytes=150000-"]
    dest.unlink()
    server.script = [in_chunks(cut=False)]
    get(server, dest, size=None)


def test_the_next_call_goes_on_where_a_failed_one_stopped(server: Server, dest: Path) -> None:
    server.script = [serve(cut=100_000), hang_up, hang_up, hang_up, serve()]
    refused(server, dest, r"tried 3 times.*100000 bytes are kept", tries=3)
    get(server, dest)
    assert server.ranges[-1] == "bytes=100000-"


def test_a_server_that_ignores_ranges_sends_everything_again(server: Server, dest: Path) -> None:
    server.script = [serve(cut=100_000), serve(ranges=False)]
    get(server, dest)


def test_a_server_that_ignores_ranges_and_always_cuts_is_given_up(server: Server, dest: Path) -> None:
    server.script = [serve(cut=100_000, ranges=False)]
    refused(server, dest, "cut after 100000 of 300000 bytes", tries=3)
    assert len(server.ranges) == 3


def test_a_server_that_sends_another_range_is_not_believed(server: Server, dest: Path) -> None:
    server.script = [serve(cut=100_000), serve(shift=5), serve()]
    get(server, dest)
    assert server.ranges == [None, "bytes=100000-", None]


@pytest.mark.parametrize("size", [None, len(CONTENT)])
def test_a_complete_part_needs_no_more_bytes(server: Server, dest: Path, size: int | None) -> None:
    plant_part(dest, CONTENT)
    get(server, dest, size=size)
    assert server.ranges == ([] if size else [f"bytes={len(CONTENT)}-"])


@pytest.mark.parametrize("size", [None, len(CONTENT)])
def test_a_part_longer_than_the_file_is_thrown_away(server: Server, dest: Path, size: int | None) -> None:
    plant_part(dest, CONTENT + b"more")
    get(server, dest, size=size)
    assert server.ranges[-1] is None


@pytest.mark.parametrize("size", [None, len(CONTENT)])
def test_a_part_of_another_file_is_thrown_away_once(server: Server, dest: Path, size: int | None) -> None:
    plant_part(dest, b"x" * 100_000)
    get(server, dest, size=size)
    assert server.ranges == ["bytes=100000-", None]


def test_wrong_bytes_once_are_fetched_again(server: Server, dest: Path) -> None:
    server.script = [serve(content=b"x" * len(CONTENT)), serve()]
    get(server, dest)


@pytest.mark.parametrize("wrong", [b"x" * len(CONTENT), b"<html>log in</html>", CONTENT + b"more", b""])
@pytest.mark.parametrize("size", [None, len(CONTENT)])
def test_wrong_bytes_twice_are_refused_and_both_hashes_named(
    server: Server, dest: Path, wrong: bytes, size: int | None
) -> None:
    server.script = [serve(content=wrong, ranges=False)] if wrong else [status(200)]
    refused(server, dest, rf"SHA-256 of what arrives is [0-9a-f]{{64}}, not {SHA256}", size=size)
    assert len(server.ranges) == 2
    assert list(dest.parent.iterdir()) == []


def test_an_endless_body_is_left_as_soon_as_it_is_too_long(server: Server, dest: Path) -> None:
    server.script = [endless]
    largest: list[int] = []
    refused(server, dest, "SHA-256", progress=lambda done, total: largest.append(done))
    assert max(largest) < len(CONTENT) + 2**17


def test_bytes_beyond_the_announced_length_are_not_read(server: Server, dest: Path) -> None:
    def behave(handler: Handler) -> None:
        handler.head(200, Content_Length=len(CONTENT))
        handler.wfile.write(CONTENT + b"more")

    server.script = [behave]
    get(server, dest)


@pytest.mark.parametrize("code", [408, 425, 429, 500, 502, 503])
def test_a_passing_fault_is_mended_by_asking_again(server: Server, dest: Path, code: int) -> None:
    server.script = [status(code), hang_up, serve()]
    get(server, dest)
    assert len(server.ranges) == 3


def test_a_lasting_fault_ends_after_the_given_tries(server: Server, dest: Path) -> None:
    server.script = [status(500)]
    refused(server, dest, r"/file: HTTP 500 .*tried 4 times", tries=4)
    assert len(server.ranges) == 4


@pytest.mark.parametrize("code", [400, 401, 403, 404, 410])
def test_a_refusal_is_told_at_once(server: Server, dest: Path, code: int) -> None:
    server.script = [status(code), serve()]
    refused(server, dest, rf"/file: HTTP {code}")
    assert len(server.ranges) == 1


def test_a_redirect_is_followed_with_its_range(server: Server, dest: Path) -> None:
    plant_part(dest, CONTENT[:200_000])
    server.script = [status(302, Location="/file"), serve()]
    get(server, dest)
    assert server.ranges == ["bytes=200000-"] * 2


def test_a_server_that_stalls_is_left_and_its_bytes_kept(server: Server, dest: Path) -> None:
    server.script = [stall, serve()]
    get(server, dest, timeout=0.2)
    assert server.ranges == [None, "bytes=1000-"]


def test_no_server_at_all_is_a_data_error(dest: Path) -> None:
    with pytest.raises(DataError, match="the connection failed"):
        fetch("http://127.0.0.1:9/file", dest, sha256=SHA256, tries=2, backoff=0.001)


def test_retry_after_is_waited_for(server: Server, dest: Path) -> None:
    server.script = [status(429, Retry_After="0.3"), serve()]
    started = time.monotonic()
    get(server, dest)
    assert 0.3 <= time.monotonic() - started < 2


def test_no_retry_after_can_make_us_wait_for_an_hour(server: Server, dest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "LONGEST_WAIT", 0.1)
    server.script = [status(503, Retry_After="3600"), serve()]
    started = time.monotonic()
    get(server, dest)
    assert 0.1 <= time.monotonic() - started < 2


def test_progress_grows_to_the_size_over_a_cut(server: Server, dest: Path) -> None:
    server.script = [serve(cut=100_000), serve()]
    calls: list[tuple[int, int]] = []
    get(server, dest, progress=lambda done, total: calls.append((done, total)))
    assert calls == sorted(calls)
    assert calls[-1] == (len(CONTENT), len(CONTENT))


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://127.0.0.1/x", "no address"])
def test_other_addresses_than_http_are_wrong_usage(dest: Path, url: str) -> None:
    with pytest.raises(UsageError, match="only http"):
        fetch(url, dest, sha256=SHA256)


def test_a_place_that_cannot_be_written_is_wrong_usage(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UsageError, match="cannot be written"):
        fetch(server.url, tmp_path / "file" / "below", sha256=SHA256)


def _fetch_quietly(url: str, dest: Path) -> None:
    fetch(url, dest, sha256=SHA256, size=len(CONTENT), backoff=0.001)


def test_processes_that_fetch_the_same_file_at_once_fetch_it_once(server: Server, dest: Path) -> None:
    server.script = [serve(cut=100_000), serve()]
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_fetch_quietly, args=(server.url, dest)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert server.ranges == [None, "bytes=100000-"]
    get(server, dest)


def test_threads_that_fetch_the_same_file_at_once_fetch_it_once(server: Server, dest: Path) -> None:
    threads = [threading.Thread(target=_fetch_quietly, args=(server.url, dest)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.ranges == [None]
    get(server, dest)
