"""The model endpoint that the environment names: whether it answers, and which models it lists."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from intercode.doctor.finding import Finding

_WHAT = "model endpoint"
_OPENAI = "https://api.openai.com/v1"


def endpoint(environment: Mapping[str, str]) -> Finding:
    key = environment.get("OPENAI_API_KEY", "").strip()
    base = environment.get("INTERCODE_BASE_URL") or environment.get("OPENAI_BASE_URL") or (_OPENAI if key else "")
    if not base:
        mend = "export INTERCODE_BASE_URL=http://HOST:PORT/v1, and OPENAI_API_KEY where it asks for a key"
        return Finding(_WHAT, None, "none is named; gold, noop, retrieval and replay need none", mend)
    mend = "start the server, or check INTERCODE_BASE_URL (it usually ends in /v1) and OPENAI_API_KEY"
    try:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        with urlopen(Request(base.rstrip("/") + "/models", headers=headers), timeout=5) as answer:
            models = [str(each["id"]) for each in json.load(answer)["data"]]
    except HTTPError as error:
        error.close()
        ok = False if error.code in (401, 403) else None
        return Finding(_WHAT, ok, f"{base} lists no models (status {error.code})", mend)
    except (OSError, ValueError, LookupError, TypeError, HTTPException) as error:
        return Finding(_WHAT, False, f"{base} does not answer as a model endpoint does: {error}", mend)
    return Finding(_WHAT, True, f"{base} has {', '.join(models[:5]) or 'no model yet'}{', …' if models[5:] else ''}", "")
