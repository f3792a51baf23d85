"""The web server of the viewer: addresses, who may ask, and the events of running episodes.

    GET /TOKEN/                                   runs
    GET /TOKEN/compare?run=…&run=…                two runs compared
    GET /TOKEN/run/NAME                           episodes
    GET /TOKEN/run/NAME/episode?task=…&epoch=…    an episode
    GET /TOKEN/run/NAME/text, …/record            a whole text, a record
    GET /TOKEN/events[?run=NAME]                  one event after each change (server-sent events)

The server answers only programs that know the token, which is new at each start and part of the
printed address; on a loopback address it answers only requests for a loopback host, so that no
other web site can ask through a browser. The server reads files of the runs that it was started
with, by name, and nothing else. Episodes hold hostile text: pages escape it, and their policy
forbids scripts, styles, images and requests from elsewhere.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders, QueryParams
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from intercode.cli import web
from intercode.errors import DataError, IntercodeError
from intercode.report.text import visible
from intercode.report.transcript import ShownTurn
from intercode.runs.folders import PARTS, RunFolder, RunFolders
from intercode.runs.store import to_json
from intercode.types import Episode
from intercode.view.pages import Pages, style, whole_number

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_LONGEST_ADDRESS = 1 << 20
"""Bytes; an id of ten thousand characters may take a hundred thousand."""
_INDEXING = 0.3
"""The most seconds that a page spends on the index."""
_LOOKING = 0.4
"""Seconds between two looks at the files of a run."""
_ALIVE = 15.0
"""Seconds after which an event without content shows whether the reader is still there."""


def serve(
    paths: Sequence[Path],
    host: str,
    port: int,
    ready: Callable[[str], object],
    data: str | None = None,
) -> None:
    """Serve the viewer of the runs in `paths` until Ctrl-C; `ready` gets its address, `data` is
    where the data of the runs are now. Raises `UsageError` without a run, `OSError` for a used
    port."""
    token, hosts = secrets.token_urlsafe(16), ["*"]
    if web.is_loopback(host):
        hosts = ["localhost", "127.0.0.1", "[::1]", host]
    viewer = _Viewer(RunFolders(paths, data), Pages(f"/{token}"))
    episode, text, record = (f"/run/{{name:path}}/{part}" for part in PARTS)
    page = [
        Route("/", viewer.show_runs),
        Route("/compare", viewer.compare),
        Route("/events", viewer.events),
        Route(episode, viewer.show_episode),
        Route(text, viewer.show_text),
        Route(record, viewer.show_record),
        Route("/run/{name:path}", viewer.show_run),
        Route("/view.css", viewer.style),
        Route("/view.js", viewer.script),
    ]
    app = Starlette(
        routes=[Mount(f"/{token}", routes=page)],
        middleware=[
            Middleware(_Headers),
            Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False),
            Middleware(GZipMiddleware, minimum_size=2000, compresslevel=4),
        ],
        exception_handlers={HTTPException: viewer.refuse, IntercodeError: viewer.report_fault},
    )
    web.run(
        app,
        host,
        port,
        lambda address: ready(f"{address}/{token}/"),
        h11_max_incomplete_event_size=_LONGEST_ADDRESS,
    )


class _Viewer:
    """Answers requests. Methods that are not coroutines run in threads."""

    def __init__(self, runs: RunFolders, pages: Pages) -> None:
        self._runs, self._pages = runs, pages

    def show_runs(self, request: Request) -> Response:
        runs = list(self._runs.all().values())
        for run in runs:
            with suppress(DataError):
                run.index.update(_INDEXING / len(runs))
        return HTMLResponse(self._pages.runs(runs, _params(request)))

    def show_run(self, request: Request) -> Response:
        run = self._run(request)
        share = run.index.update(_INDEXING)
        return HTMLResponse(self._pages.episodes(run, _params(request), share))

    def show_episode(self, request: Request) -> Response:
        run, params, other = self._run(request), _params(request), None
        episode, start = self._episode(run, params)
        epoch, separator, name = params.get("beside", "").partition("~")
        if separator:
            other_run = self._named(name)
            where = {"task": episode.task, "epoch": epoch}
            other = other_run, self._episode(other_run, where)[0]
        return HTMLResponse(
            self._pages.episode(self._runs.all(), run, episode, start, params, other)
        )

    def show_text(self, request: Request) -> Response:
        """Return one complete text of a turn as plain text."""
        params = _params(request)
        episode, _ = self._episode(self._run(request), params)
        number, part = params.get("turn", ""), params.get("part")
        if number.isdecimal() and 0 < int(number) <= len(episode.turns):
            turn = episode.turns[int(number) - 1]
            if part == "reasoning":
                return PlainTextResponse(visible(ShownTurn(0, turn, 0).reasoning))
            if part in ("thought", "action", "observation", "reply"):
                return PlainTextResponse(visible(getattr(turn, part) or ""))
        raise HTTPException(404, "the episode has no such text")

    def show_record(self, request: Request) -> Response:
        episode, _ = self._episode(self._run(request), _params(request))
        return Response(json.dumps(to_json(episode), indent=1), media_type="application/json")

    def compare(self, request: Request) -> Response:
        runs = list(map(self._named, dict.fromkeys(_params(request).getlist("run"))))
        if len(runs) < 2:
            raise HTTPException(400, "choose two runs or more")
        return HTMLResponse(self._pages.compare(runs, _params(request)))

    async def events(self, request: Request) -> Response:
        runs = []
        if name := _params(request).get("run"):
            runs.append(self._named(name))
        return StreamingResponse(
            self._changes(runs, request.app.state.ends), media_type="text/event-stream"
        )

    async def _changes(
        self, runs: Sequence[RunFolder], ends: Callable[[], bool]
    ) -> AsyncIterator[str]:
        """Yield an event after each change of the runs (if none is named, of all that there are),
        until the server or the reader leaves."""

        def look() -> list[object]:
            watched = runs or list(self._runs.all().values())
            versions = list[object]()
            for run in watched:
                share = 0.0
                with suppress(DataError):
                    share = run.index.update(_INDEXING / len(watched))
                versions += [run.name, run.version(), share]
            return versions

        before, quiet = await run_in_threadpool(look), 0.0
        while not ends():
            await asyncio.sleep(_LOOKING)
            quiet += _LOOKING
            if (now := await run_in_threadpool(look)) != before:
                before, quiet = now, 0.0
                yield "data: changed\n\n"
            elif quiet > _ALIVE:
                quiet = 0.0
                yield ": alive\n\n"

    def style(self, request: Request) -> Response:
        return Response(style(), media_type="text/css")

    def script(self, request: Request) -> Response:
        script = files("intercode.view").joinpath("static/view.js").read_text("utf-8")
        return Response(script, media_type="text/javascript")

    def refuse(self, request: Request, error: Exception) -> Response:
        status, why = getattr(error, "status_code", 500), str(getattr(error, "detail", ""))
        if not request.url.path.startswith(f"{self._pages.root}/"):
            return PlainTextResponse(
                "The address lacks the token: use the one that `intercode view` printed.\n", 403
            )
        title = "This page does not exist" if status == 404 else "Not possible"
        return HTMLResponse(self._pages.error(title, why), status)

    def report_fault(self, request: Request, error: Exception) -> Response:
        return HTMLResponse(self._pages.error("This cannot be shown", str(error)), 422)

    def _run(self, request: Request) -> RunFolder:
        return self._named(request.path_params["name"])

    def _named(self, name: str) -> RunFolder:
        if (run := self._runs.all().get(name)) is None:
            raise HTTPException(404, f"there is no run {name}")
        return run

    def _episode(self, run: RunFolder, params: Mapping[str, str]) -> tuple[Episode, int | None]:
        """Return an episode with the start of its record; None while it is played."""
        task, epoch = params.get("task", ""), params.get("epoch", "0")
        number = whole_number(epoch)
        run.index.update(_INDEXING)
        if entry := run.index.read(task, number):
            return entry
        for episode, _ in run.live():
            if (episode.task, episode.epoch) == (task, number):
                return episode, None
        raise HTTPException(
            404, f"the run {run.name} has no episode of task {task}, epoch {number}"
        )


def _params(request: Request) -> QueryParams:
    """Return the parameters of an address; ids of tasks may contain halves of surrogate pairs,
    which Starlette would replace."""
    try:
        return QueryParams(
            parse_qsl(request.url.query, keep_blank_values=True, errors="surrogatepass")
        )
    except UnicodeDecodeError as error:
        raise HTTPException(400, "the address is not UTF-8") from error


class _Headers:
    """Adds `_HEADERS` to every response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await self._app(scope, receive, answer)
