"""The model endpoint that the environment names: whether it answers, and which models it lists."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from intercode.doctor.finding import Finding

_WHAT = "model endpoint"
_SECONDS = 5.0
_SHOWN = 5
_OPENAI = "https://api.openai.com/v1"
_REFUSED = {401, 403}


def endpoint(environment: Mapping[str, str]) -> Finding:
    key = environment.get("OPENAI_API_KEY", "").strip()
    base = environment.get("INTERCODE_BASE_URL") or environment.get("OPENAI_BASE_URL") or (_OPENAI if key else "")
    if not base:
        mend = "export INTERCODE_BASE_URL=http://HOST:PORT/v1, and OPENAI_API_KEY where it asks for a key"
        return Finding(_WHAT, None, "none is named; gold, noop, retrieval and replay need none", mend)
    address = base.rstrip("/") + "/models"
    try:
        return _listed(base, _ask(address, key))
    except HTTPError as error:
        error.close()
        if error.code in _REFUSED:
            return Finding(_WHAT, False, f"{base} refuses the key (status {error.code})", "export OPENAI_API_KEY=its key")
        mend = "check INTERCODE_BASE_URL, which usually ends in /v1"
        return Finding(_WHAT, None, f"{base} answers, but lists no models (status {error.code})", mend)
    except (OSError, ValueError, HTTPException) as error:
        mend = "start the server, or check INTERCODE_BASE_URL"
        return Finding(_WHAT, False, f"{base} does not answer as a model endpoint does: {error}", mend)


def _ask(address: str, key: str) -> list[str]:
    request = Request(address, headers={"Authorization": f"Bearer {key}"} if key else {})
    with urlopen(request, timeout=_SECONDS) as answer:
        found = json.load(answer)
    if not isinstance(found, dict) or not isinstance(found.get("data"), list):
        raise ValueError("its answer is no list of models")
    return [str(each.get("id")) for each in found["data"] if isinstance(each, dict)]


def _listed(base: str, models: list[str]) -> Finding:
    more = f" and {len(models) - _SHOWN} more" if len(models) > _SHOWN else ""
    return Finding(_WHAT, True, f"{base} has {', '.join(models[:_SHOWN]) or 'no model yet'}{more}", "")
