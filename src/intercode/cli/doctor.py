"""Test what works on this machine: what a sandbox needs (`intercode_sandbox/doctor.py`), the
database engines, and the model endpoint."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
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
    findings = []
    for finding in intercode_sandbox.doctor.examine("intercode"):
        findings.append(finding)
        if finding.what == "docker":
            if platform.system() == "Linux":
                findings += map(_engine, ENGINES)
            findings.append(check_endpoint(os.environ))
    return findings


def _engine(name: str) -> Finding:
    if message := engine_class(name).missing():
        return optional(name, message, f"(--engine {name})")
    return Finding(name, True, f"can be started (--engine {name})")


def check_endpoint(environment: Mapping[str, str]) -> Finding:
    """Check that the model endpoint named by the environment variables answers, and list its
    models."""
    what, key = "model endpoint", environment.get("OPENAI_API_KEY", "").strip()
    base = environment.get("INTERCODE_BASE_URL") or environment.get("OPENAI_BASE_URL")
    if not base and not key:
        return Finding(
            what,
            None,
            "none is named; gold, noop, retrieval and replay need none",
            "export INTERCODE_BASE_URL=http://HOST:PORT/v1, "
            "and OPENAI_API_KEY if it requires a key",
        )
    base, headers = base or _OPENAI, dict[str, str]()
    if key:
        headers["Authorization"] = f"Bearer {key}"
    opener = build_opener()
    if LOCAL.match(base):
        opener = build_opener(ProxyHandler({}))
    ok: bool | None = False
    try:
        request = Request(base.rstrip("/") + "/models", headers=headers)
        with opener.open(request, timeout=5) as answer:
            models = [str(model["id"]) for model in json.load(answer)["data"]]
    except HTTPError as error:
        error.close()
        if error.code not in (401, 403):
            ok = None
        fault = f"{base} lists no models (status {error.code})"
    except (OSError, ValueError, LookupError, TypeError, HTTPException) as error:
        fault = f"{base} does not answer like a model endpoint: {error}"
    else:
        serves = ", ".join(models[:5]) or "no model yet"
        return Finding(what, True, f"{base} serves {serves}{', …' * bool(models[5:])}")
    return Finding(
        what,
        ok,
        fault,
        "start the server, or check INTERCODE_BASE_URL (it usually ends in /v1) and OPENAI_API_KEY",
    )
