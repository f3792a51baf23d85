"""A real headless Chromium, spoken to over a pair of pipes in its own DevTools protocol: no driver,
no port, no packages.

test ── {"id", "method", "params"} NUL ──► fd 3   Chromium
     ◄─ {"id", "result"} or events NUL ─── fd 4
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PROGRAM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(
    PROGRAM is None, reason="needs chromium: apt-get install chromium"
)
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
)
_NAMED_KEYS = {"Enter": ("\r", 13), "Escape": ("", 27)}
_PATIENCE = 30
"""Seconds without an event or an answer after which a test fails."""
_COMPLAINTS = ("Runtime.exceptionThrown", "Log.entryAdded")


class Tab:
    """One page. `complaints` are console errors and warnings, uncaught exceptions, and what the
    browser itself logged."""

    def __init__(self, sent: int, received: int) -> None:
        self._sent, self._received, self._rest, self._number = sent, received, b"", 0
        self._session: str | None = None
        self._seen: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for room in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{room}.enable")

    def open(self, page: Path | str, *, width: int, dark: bool = False) -> None:
        """Show a file or an address at a width in CSS pixels, as a phone would below 600; returns
        when it is loaded."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self._seen.clear()
        with self.loading():
            self.call(
                "Page.navigate", url=page if isinstance(page, str) else page.resolve().as_uri()
            )

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Wait after the block until the page that it leads to is loaded."""
        before = self._loads()
        yield
        while self._loads() == before:
            self._seen.append(self._next())

    def _loads(self) -> int:
        return sum(event["method"] == "Page.loadEventFired" for event in self._seen)

    def press(self, *keys: str) -> None:
        """Press keys, one after another, by their names in JavaScript: "j", "?", "Enter"."""
        for key in keys:
            text, code = _NAMED_KEYS.get(key, (key, 0))
            for kind, words in (("keyDown", {"text": text}), ("keyUp", {})):
                self.call(
                    "Input.dispatchKeyEvent",
                    type=kind,
                    key=key,
                    windowsVirtualKeyCode=code,
                    **words,
                )

    def wait(self, script: str, seconds: float = 10) -> Any:
        """Evaluate a JavaScript expression until it is true, and return its value."""
        end = time.monotonic() + seconds
        while not (found := self.ask(script)):
            assert time.monotonic() < end, f"not true within {seconds} s: {script}"
            time.sleep(0.02)
        return found

    def roles(self) -> list[tuple[str, str]]:
        """Return role and name of each node that a reader of the screen meets."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        kept = [node for node in nodes if not node["ignored"]]
        return [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in kept]

    def ask(self, script: str) -> Any:
        """The value of a JavaScript expression in the page; the page's own policy does not apply to
        it."""
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get(
            "value"
        )

    @property
    def complaints(self) -> list[str]:
        self.ask("1")  # all that came before it has been told then
        said = [event for event in self._seen if event["method"] in _COMPLAINTS]
        calls = [event for event in self._seen if event["method"] == "Runtime.consoleAPICalled"]
        return [
            json.dumps(event["params"])
            for event in said + [c for c in calls if c["params"]["type"] in ("error", "warning")]
        ]

    @property
    def requests(self) -> list[str]:
        """What was fetched, the page included."""
        return [
            e["params"]["request"]["url"]
            for e in self._seen
            if e["method"] == "Network.requestWillBeSent"
        ]

    def picture(self, file: Path) -> None:
        """The whole page as PNG, at most 6000 pixels high."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {
            "x": 0,
            "y": 0,
            "width": size["width"],
            "height": min(6000, size["height"]),
            "scale": 1,
        }
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        file.write_bytes(base64.b64decode(shot["data"]))

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        os.write(
            self._sent,
            json.dumps(message | ({"sessionId": self._session} if self._session else {})).encode()
            + b"\0",
        )
        while (answer := self._next()).get("id") != self._number:
            self._seen.append(answer)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            assert select.select([self._received], [], [], _PATIENCE)[0], "Chromium says nothing"
            read = os.read(self._received, 1 << 20)
            assert read, "Chromium has gone"
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message


@contextmanager
def browser() -> Iterator[Tab]:
    assert PROGRAM is not None
    to_it, sent = os.pipe()
    received, from_it = os.pipe()
    with tempfile.TemporaryDirectory(
        prefix="intercode-chromium-", ignore_cleanup_errors=True
    ) as profile:
        words = [PROGRAM, *_FLAGS, "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{to_it} 4>&{from_it}', "chromium", *words],
            pass_fds=(to_it, from_it),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_it), os.close(from_it)
        try:
            yield Tab(sent, received)
        finally:
            os.close(sent)  # the end of its input ends it
            process.wait(30)
            os.close(received)
