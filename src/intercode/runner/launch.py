"""Play an episode with a command-line agent: a program that runs in the task's sandbox and asks a
model by itself.

    COMMAND, with the query on stdin or as {query}
        OPENAI_BASE_URL, ANTHROPIC_BASE_URL ──► a port of its loopback ──► Recorder
        XDG_*, PATH ──► the agent's folder, which is in memory and no part of the task's files
        submit [ANSWER] ──► Recorder ──► the episode's submission

The program ends by itself, or 10 s after its first request beyond the episode's limits or after it
submitted, or when its time is up. Left out: forks, and sandboxes without a port of their own.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Any

from intercode.agents.base import Launch, Launched
from intercode.envs.workspace import OwnFiles
from intercode.errors import ModelError, SandboxError, UsageError
from intercode.runner.recorder import Recorder, require_server
from intercode.types import Completed, Episode, Turn
from intercode_sandbox.base import Sandbox

FOLDER = PurePosixPath("/dev/shm/agent")
SECONDS = 3600.0
"""The time of a program, unless the episode's limit is shorter."""
GRACE = 10.0
"""Seconds that a program may go on after it submitted, or was refused."""
KEPT = 4096
"""Characters that are kept of the end of what a program prints."""
_LINK = "/usr/local/bin/submit"
"""Where programs find `submit` that do not hand their PATH on, while one runs."""
_BEFORE = f"""
[[ -e {_LINK} || ! -d {PurePosixPath(_LINK).parent} ]] || ln -s {FOLDER}/bin/submit {_LINK}
printf '%s\\0' "$HOME"
cd "$HOME" 2>/dev/null &&
    find . -mindepth 1 -path './[!.]*' -prune -o -printf '%p\\0' 2>/dev/null
:
"""
_AFTER = f"[[ $(readlink {_LINK}) != {FOLDER}/bin/submit ]] || rm -f {_LINK}"
_NAMES = 8 << 20
"""Bytes of the names of hidden files in a home, beyond which none is known to be new."""
_TIMES = str(FOLDER / "times")
_CLOCK = re.compile(r"(\d{1,6})m(\d{1,2}\.\d{1,6})s")
"""A time that `times` of Bash prints."""
_CLOCKS = 200
"""Bytes of four times; the program could write more."""
_SUBMIT = """#!/bin/bash
# submit [ANSWER]: end the work; ANSWER may have several words
answer="$*"
if [[ $# = 0 && {ending} != submit && ! -e {folder}/asked ]]; then
    touch {folder}/asked
    echo {told} >&2
    exit 2
fi
exec 3<>/dev/tcp/127.0.0.1/{port} || exit 1
length=$(printf %s "$answer" | wc -c)
printf '%s\\r\\n' 'POST /submit HTTP/1.0' 'X-Api-Key: {token}' "Content-Length: $length" '' >&3
printf %s "$answer" >&3
cat <&3 >/dev/null && echo submitted
"""


def launch(
    env: Any,
    request: Launch,
    model: object,
    turns: list[Turn],
    stop: Callable[[], str | None],
    stopped: Callable[[], str | None],
    seconds: float | None,
) -> Launched:
    """Run the program of a request to its end, or until `stopped` returns a reason. `stop` returns
    why it gets no further reply of the model.

    Raises `ModelError` if the model's server was at fault when the program ended, and `UsageError`
    for an environment without such a sandbox, and for a program that does not start.
    """
    workspace = _workspace_of(env)
    sandbox: Sandbox = workspace.lend_sandbox()
    server = require_server(model)
    listener, asks = sandbox.listen(0), request.query.partition("\n\n")[0]
    with Recorder(listener, server, turns, asks, request.turns, stop) as recorder:
        _, port = recorder.listener.getsockname()
        _write_submit(sandbox, request, port, recorder.token)
        values = {"query": request.query, "model": server.name, "key": recorder.token}
        values["base_url"] = _address(port)
        command = _filled(request.command, {name: shlex.quote(values[name]) for name in values})
        variables = {name: _filled(value, values) for name, value in request.env.items()}
        cwd, workspace.own_files = _look(sandbox)
        began = time.monotonic()
        done = sandbox.run(
            ["bash", "-c", f"trap 'times > {_TIMES}' EXIT; PATH={FOLDER}/bin:$PATH; {command}"],
            stdin=b"" if "{query}" in request.command else request.query.encode(),
            cwd=cwd,
            env={**_variables(port, recorder.token), **variables},
            timeout=min(seconds or SECONDS, SECONDS),
            ends=lambda: bool(
                recorder.crash
                or (recorder.ended and time.monotonic() > recorder.ended_at + GRACE)
                or stopped()
            ),
        )
        facts = _facts(done, time.monotonic() - began, sandbox)
        sandbox.exec("", argv=["bash", "-c", _AFTER], cwd="/")
        recorder.close()
        if recorder.crash is not None:
            raise recorder.crash
        if (fault := recorder.fault()) is not None:
            raise fault
        ended = recorder.ended or ("limit" if done.timed_out else "stopped")
        if ended == "stopped" and recorder.was_limited and done.exit_code:
            ended = "turns"
        if recorder.submission is not None:
            return Launched(recorder.submission, ended, facts)
        if not recorder.has_answered and ended == "limit" and recorder.is_waiting:
            raise ModelError(f"{server.url}: no answer in the program's time")
        if not recorder.has_answered and ended == "stopped":
            if recorder.refusal.startswith(server.url):
                raise ModelError(recorder.refusal)
            refused = f"; its request was refused: {recorder.refusal}" if recorder.refusal else ""
            raise UsageError(_end_of(facts, f" before it had an answer of the model{refused}"))
        return Launched(None, ended, facts)


def _facts(done: Completed, seconds: float, sandbox: Sandbox) -> dict[str, Any]:
    """Return how a program ended."""
    texts = {name: getattr(done, name).decode("utf-8", "replace") for name in ("stdout", "stderr")}
    facts = {"status": done.exit_code, "seconds": round(seconds, 3), "cpu_seconds": None}
    facts |= {name: text.strip()[-KEPT:] for name, text in texts.items()}
    with suppress(OSError, SandboxError):
        clocks = _CLOCK.findall(
            sandbox.read(_TIMES, limit=_CLOCKS)[:_CLOCKS].decode("ascii", "replace")
        )
        facts["cpu_seconds"] = round(sum(60 * int(m) + float(s) for m, s in clocks), 3)
    return facts


def program_fault(episode: Episode) -> UsageError | None:
    """Return the fault of a program that ended by itself, with an error and without a
    submission."""
    facts = episode.outcomes.get("program") or {}
    if episode.ended == "stopped" and facts.get("status"):
        return UsageError(_end_of(facts))
    return None


def _end_of(facts: Mapping[str, Any], when: str = "") -> str:
    printed = "\n".join(filter(None, (facts["stdout"], facts["stderr"])))[-500:]
    status = facts["status"]
    return f"the program of exec: ended with status {status}{when}; its output ends: {printed}"


def _write_submit(sandbox: Sandbox, request: Launch, port: int, token: str) -> None:
    told = (
        f"Nothing is submitted yet: run {request.ending}, "
        "or `submit` once more if the task asks for nothing."
    )
    ending, told = shlex.quote(request.ending), shlex.quote(told)
    script = _SUBMIT.format(port=port, token=token, ending=ending, told=told, folder=FOLDER)
    sandbox.write(str(FOLDER / "bin" / "submit"), script.encode(), mode=0o755)


def _workspace_of(env: Any) -> Any:
    workspace = getattr(getattr(env, "world", None), "workspace", None)
    if workspace is None or not getattr(getattr(env, "language", None), "is_shell", False):
        raise UsageError(
            "a command-line agent (exec:COMMAND) needs an environment whose actions are Bash: "
            "bash, ctf or harbor"
        )
    return workspace


def _look(sandbox: Sandbox) -> tuple[str, OwnFiles | None]:
    """Return the session's folder, and what is hidden in the home before the program begins; None
    if there is too much of that. Link `submit` to where programs find it without a PATH."""
    cwd = sandbox.exec("", argv=["pwd"]).output.rstrip("\n")
    listing = sandbox.run(["bash", "-c", _BEFORE], cwd=cwd, output=_NAMES)
    home, *names = listing.stdout.decode("utf-8", "surrogateescape").split("\0")
    if listing.exit_code != 0 or "output" in listing.limits:
        return cwd, None
    before = frozenset(normpath(f"{home}/{name}") for name in names if name)
    return cwd, OwnFiles(home.rstrip("/"), before)


def _address(port: int) -> str:
    return f"http://127.0.0.1:{port}/v1"


def _filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with `{query}` and the like replaced; other braces stay."""
    return re.sub("{(" + "|".join(values) + ")}", lambda name: values[name[1]], text)


def _variables(port: int, token: str) -> dict[str, str]:
    """Return the variables that tell programs where their model and their own folders are."""
    address = _address(port)
    folders = {"CONFIG": "config", "DATA": "data", "CACHE": "cache", "STATE": "state"}
    return {
        "OPENAI_BASE_URL": address,
        "OPENAI_API_BASE": address,
        "OPENAI_API_KEY": token,
        "ANTHROPIC_BASE_URL": address.removesuffix("/v1"),
        "ANTHROPIC_API_KEY": token,
        **{f"XDG_{name}_HOME": str(FOLDER / folder) for name, folder in folders.items()},
    }
