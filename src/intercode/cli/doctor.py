"""Test what works on this machine: what a sandbox needs (`intercode_sandbox/doctor.py`), the
database engines, and the model endpoint."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import intercode_sandbox.doctor
from intercode.envs.sql.engines import ENGINES, engine_class
from intercode.models.openai_chat import LOCAL
from intercode_sandbox.doctor import Finding, optional

_OPENAI = "https://api.openai.com/v1"


def examine() -> list[Finding]:
    """Test every part, in the order of repair. Takes a second or two; writes only to the cache."""
    findings = intercode_sandbox.doctor.examine("intercode")
    place = [finding.what for finding in findings].index("docker") + 1
    engines = _engines() if platform.system() == "Linux" else ()
    return [*findings[:place], *engines, check_endpoint(os.environ), *findings[place:]]


def _engines() -> Iterator[Finding]:
    for name in ENGINES:
        if message := engine_class(name).missing():
            yield optional(name, message, f"(--engine {name})")
        else:
            yield Finding(name, True, f"can be started (--engine {name})")


def check_endpoint(environment: Mapping[str, str]) -> Finding:
    """Check that the model endpoint named by the environment variables answers, and list its
    models."""
    what = "model endpoint"
    key = environment.get("OPENAI_API_KEY", "").strip()
    base = (
        environment.get("INTERCODE_BASE_URL")
        or environment.get("OPENAI_BASE_URL")
        or (_OPENAI if key else "")
    )
    if not base:
        repair = (
            "export INTERCODE_BASE_URL=http://HOST:PORT/v1, and OPENAI_API_KEY if it requires a key"
        )
        return Finding(
            what, None, "none is named; gold, noop, retrieval and replay need none", repair
        )
    repair = (
        "start the server, or check INTERCODE_BASE_URL (it usually ends in /v1) and OPENAI_API_KEY"
    )
    try:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        request = Request(base.rstrip("/") + "/models", headers=headers)
        proxies = [ProxyHandler({})] if LOCAL.match(base) else []
        with build_opener(*proxies).open(request, timeout=5) as answer:
            models = [str(model["id"]) for model in json.load(answer)["data"]]
    except HTTPError as error:
        error.close()
        ok = False if error.code in (401, 403) else None
        return Finding(what, ok, f"{base} lists no models (status {error.code})", repair)
    except (OSError, ValueError, LookupError, TypeError, HTTPException) as error:
        return Finding(
            what, False, f"{base} does not answer like a model endpoint: {error}", repair
        )
    return Finding(
        what,
        True,
        f"{base} serves {', '.join(models[:5]) or 'no model yet'}{', …' if models[5:] else ''}",
    )
