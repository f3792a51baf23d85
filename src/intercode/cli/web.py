"""Run a web application on this machine's address, for the commands `view` and `serve`."""

from __future__ import annotations

import socket
from collections.abc import Callable
from ipaddress import ip_address

import uvicorn
from starlette.applications import Starlette


def is_loopback(host: str) -> bool:
    """Return whether only programs of this machine reach the address. Raises `ValueError` for what
    is no IP address or localhost."""
    return host == "localhost" or ip_address(host).is_loopback


def run(
    app: Starlette, host: str, port: int, ready: Callable[[str], object], **options: object
) -> None:
    """Serve `app` until Ctrl-C; `ready` gets its address, and `app.state.ends()` says whether it
    ends. `options` are uvicorn's. Raises `OSError` for a used port."""
    family, where = socket.AF_INET, host
    if ":" in host:
        family, where = socket.AF_INET6, f"[{host}]"
    listening = socket.create_server((host, port), family=family)
    config = uvicorn.Config(
        app,
        host,
        port,
        log_level="error",
        lifespan="off",
        timeout_graceful_shutdown=1,
        server_header=False,
        http="h11",
        **options,  # type: ignore[arg-type]
    )
    server = uvicorn.Server(config)
    app.state.ends = lambda: server.should_exit
    ready(f"http://{where}:{listening.getsockname()[1]}")
    server.run([listening])
