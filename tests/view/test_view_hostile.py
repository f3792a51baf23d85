"""Texts of agents, tasks and models that attack the viewer's pages, and requests that nobody should
be answered."""

from __future__ import annotations

import http.client
import json
import os
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from chromium import browser, needs_chromium
from viewing import episode, make_run, viewer

from intercode.types import Episode, ToolCall, Turn, Usage

pytestmark = pytest.mark.slow

HOSTILE = (
    "</script></title></style></pre></textarea><script>document.title='owned';alert(1)</script><img"
    " src='https://elsewhere.example/x' onerror=\"document.title='owned'\"><svg"
    ' onload="document.title=\'owned\'"><a href="javascript:alert(1)">a</a><iframe'
    " src='//elsewhere.example'></iframe>'\"><b data-part id=list>&lt;b&gt; {{ 7 * 7 }}"
    " \x1b[31mred\x1b]0;title\x07 \u202eeman.txt\u2066 \x00 \ud800 \u2028 \r "
)
IDS = [
    "a/b", "../..", "..", "'\"`", "a\nb", "\n", "", " ", "\ud800", "\udfff x", "x" * 10_000,
    "é" * 10_000, "a?b#c&d=e%2e+f", "\x00", HOSTILE,
]  # fmt: skip
"""Of tasks."""


def hostile(task: str, text: str, name: str) -> Episode:
    """An episode with `text` in all fields, and `name` in all names."""
    call, used = ToolCall("1", name, text), Usage(2**62, 2**62, 1e308)
    asked = (
        {"role": name, "content": text},
        {"role": "user", "content": [{"type": name, "text": text}], "action": text},
    )
    turns = [
        Turn(asked, text, text, text, text, exit_code=1, calls=(call,), usage=used,
             reasoning={"reasoning_content": text}),
        Turn(
            reply=f"<think>{text}</think>{text}",
            observation=text,
            usage=used,
            finish_reason=text,
        ),
        Turn(action="fork", observation=text, exit_code=0, after=-1, score=0.5),
        Turn(action="submit", score=0.0),
    ]  # fmt: skip
    outcomes = {
        "failed": [text],
        "agent": {"answer": text, name: text, "rows": [[text]], "columns": [text]},
        "gold": {"error": text},
        "paths": [{"path": text, "gold": text, "agent": text, "diff": f"+{text}\n-{text}"}],
        "cut": [text], "tests": [{"test": text, "passed": False, "gold": text, "agent": text}],
        name: {name: text},
    }  # fmt: skip
    return episode(task, *turns, query=text, parts={name: 0.5}, outcomes=outcomes, split=name)


class Elements(HTMLParser):
    """The names of elements with their attributes, and the links, of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names, self.links = set[str](), list[str]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names |= {tag, *(f"{tag} {name}" for name, _ in attrs)}
        self.links += [value or "" for name, value in attrs if name == "href"]


def ask(address: str, path: str = "", method: str = "GET", **headers: str) -> tuple[int, bytes]:
    """Return status and body of an answer; the path is sent as it is."""
    where = urlsplit(address)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=30)
    try:
        connection.putrequest(method, path or where.path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def make(folder: Path, text: str, name: str, ids: list[str]) -> Path:
    names = dict.fromkeys(("env", "agent", "model", "data"), name)
    settings = {**names, "created": text, "hardness": dict.fromkeys(ids, text)}
    make_run(
        folder / name.replace("/", "|")[:80],
        [hostile(task, text, name) for task in ids],
        **settings,
        **{name: text},
    )
    faulty = [Episode(task, text, (), None, False, None, error=f"model: {text}") for task in ids]
    return make_run(
        folder / "faults",
        [*faulty, *[episode(f"{task}~", solved=True) for task in ids]],
        **settings,
    ).parent


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str]]]:
    """The address of a viewer of hostile runs, and all their pages, as a reader reaches them by
    links."""
    with viewer(make(tmp_path_factory.mktemp("hostile"), 7 * HOSTILE, HOSTILE, IDS)) as address:
        yield address, list(crawl(address))


def crawl(address: str) -> Iterator[str]:
    """Yield the address of each page that links lead to, but other orders, filters and turns."""
    todo, seen = [urlsplit(address).path], set[str]()
    while todo:
        if (path := todo.pop()) in seen or re.search(
            r"[?&](sort|turn|beside|category)=(?!.*part=)", path
        ):
            continue
        seen.add(path)
        status, body = ask(address, path)
        assert status == 200, (path[:200], body[:200])
        yield path
        if b"<!DOCTYPE html>" in body[:100]:
            todo += [
                link.partition("#")[0]
                for link in Elements(body.decode()).links
                if link.startswith("/")
            ]


def test_each_hostile_episode_is_reached_by_links_and_has_no_element_but_those_of_a_harmless_one(
    pages: tuple[str, list[str]], tmp_path: Path
) -> None:
    address, paths = pages
    found, kinds = set[str](), {"episode?": 0, "record?": 0, "text?": 0}
    for path in paths:
        for kind in kinds:
            kinds[kind] += f"/{kind}" in path
        body = ask(address, path)[1].decode()
        if body.startswith("<!DOCTYPE"):
            found |= Elements(body).names
            assert not re.search(
                "[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069\ud800-\udfff\u2028]", body
            )
    assert kinds["episode?"] == kinds["record?"] == 3 * len(IDS)
    assert kinds["text?"] == 8 * len(IDS), (
        "three outputs, an action, its thought, a reply without an action, two reasonings"
    )
    with viewer(
        make(tmp_path, "harmless " * 30, "harmless", [f"t{n}" for n in range(len(IDS))])
    ) as harmless:
        known = {
            name
            for path in crawl(harmless)
            for name in Elements(ask(harmless, path)[1].decode()).names
        }
    assert found - known == set()
    print(f"{len(paths)} hostile pages, texts and records; {len(found - known)} foreign elements")


@needs_chromium
def test_no_hostile_page_runs_a_script_or_asks_elsewhere(pages: tuple[str, list[str]]) -> None:
    address, paths = pages
    root = address.rpartition(urlsplit(address).path)[0]
    asked = set[str]()
    # the texts and records of other tasks have the same content
    shown = [path for path in paths if "part=" not in path and "/record?" not in path]
    shown += [path for path in paths if path not in shown and "task=a%2Fb&" in f"{path}&"]
    with browser() as tab:
        for path in shown:
            tab.open(root + path, width=1280)
            assert (tab.ask("document.title === 'owned'"), tab.complaints) == (False, []), path[
                :200
            ]
            asked |= {url for url in tab.requests if not url.startswith((address, "data:"))}
    assert asked == set()


def test_a_whole_text_and_a_line_of_a_megabyte_are_behind_links_only(tmp_path: Path) -> None:
    line = "<b>\x1b[1m" * 140_000
    make_run(tmp_path / "large", [hostile("large", line, "name")])
    with viewer(tmp_path) as address:
        for page in ("run/large", "run/large/episode?task=large&text=%3Cb%3E"):
            status, body = ask(address, urlsplit(address).path + page)
            assert (status, len(body) < 100_000) == (200, True)
        whole = ask(
            address, f"{urlsplit(address).path}run/large/text?task=large&turn=1&part=observation"
        )[1].decode()
        assert whole == line.replace("\x1b", "\\x1b")


def test_requests_that_are_refused(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "a", [episode("t")])
    (tmp_path / "secret").write_text("content of a file")
    make_run(tmp_path / "other", [episode("t")])
    pipe = make_run(tmp_path / "runs" / "pipe", []) / "episodes.jsonl"
    pipe.unlink()
    os.mkfifo(pipe)
    with viewer(tmp_path / "runs") as address:
        root = urlsplit(address).path
        host = urlsplit(address).netloc
        assert ask(address, f"{root}run/a")[0] == 200
        refused = {
            "/": 403, f"/{'x' * 22}/run/a": 403, f"{root[:-3]}/run/a": 403,
            f"{root}run/..%2F..%2Fsecret": 404, f"{root}run/../../other": 404,
            f"{root}run/%2e%2e": 404, f"{root}run/%2Fetc%2Fpasswd": 404,
            f"{root}run/a/run.json": 404, f"{root}events?run=none": 404,
            f"{root}run/a/text?task=t&turn=1&part=__class__": 404,
            f"{root}run/a/episode?task=t&beside=0~../other": 404, f"{root}compare?run=a": 400,
            f"{root}run/a/episode?task=%FF": 400, f"{root}run/pipe": 422,
        }  # fmt: skip
        answers = {path: ask(address, path) for path in refused}
        assert {path: status for path, (status, _) in answers.items()} == refused
        assert b"pipes and devices are not opened" in answers[f"{root}run/pipe"][1]
        assert not any(b"content of" in body or b"root:" in body for _, body in answers.values())
        assert ask(address, f"{root}run/a", "POST")[0] == 405
        for other in ("evil.example", f"evil.example:{host.partition(':')[2]}", ""):
            assert ask(address, f"{root}run/a", Host=other)[0] == 400
        assert ask(address, f"{root}run/a", Host=host)[0] == 200
        assert json.loads(ask(address, f"{root}run/a/record?task=t")[1])["task"] == "t"
