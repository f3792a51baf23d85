"""Play an episode with a command-line agent: a program that runs in the task's sandbox and asks a
model by itself.

    COMMAND, with the query on stdin or as {query}
        OPENAI_BASE_URL, ANTHROPIC_BASE_URL ──► a port of its loopback ──► Recorder
        MCP servers and skills of the task ──► where programs look (`equipment.py`)
        XDG_*, PATH ──► the agent's folder, which is in memory and no part of the task's files
        submit [ANSWER] ──► Recorder ──► the episode's submission

The program ends by itself, or 10 s after its first request beyond the episode's limits or after it
submitted, or when its time is up. Left out: forks, and sandboxes without a port of their own.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from intercode.agents.base import Launch, Launched
from intercode.envs.workspace import OwnFiles
from intercode.errors import ModelError, SandboxError, UsageError
from intercode.runner.equipment import equip
from intercode.runner.recorder import Recorder, require_server
from intercode.types import Completed, Episode, Turn
from intercode_sandbox.base import Sandbox

FOLDER = "/dev/shm/agent"
SECONDS = 3600.0
"""The time of a program, unless the episode's limit is shorter."""
GRACE = 10.0
"""Seconds that a program may go on after it submitted, or was refused."""
KEPT = 4096
"""Characters that are kept of the end of what a program prints."""
_BEFORE = f"""
cd /usr/local/bin 2>/dev/null && [[ ! -e submit ]] && ln -s {FOLDER}/bin/submit submit
printf %s "$HOME"
cd "$HOME" 2>/dev/null &&
    find . -mindepth 1 -path './[!.]*' -prune -o -printf '\\0%P' 2>/dev/null
:
"""
"""Link `submit` to where programs find it that do not hand their PATH on, and print the home and
what is hidden in it."""
_AFTER = f"""
cd /usr/local/bin && [[ $(readlink submit) = {FOLDER}/bin/submit ]] && rm -f submit
"""
_NAMES = 8 << 20
"""Bytes of the names of hidden files in a home, beyond which none is known to be new."""
_TICKS = 99
"""Bytes of the four times of a program and of what it started, in hundredths of a second; the
program could write more."""
_AT_END = f"read -ra stat </proc/$$/stat; echo ${{stat[@]:13:4}} >{FOLDER}/ticks"
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
        _, port = listener.getsockname()
        address = f"http://127.0.0.1:{port}/v1"
        _write_submit(sandbox, request, port, recorder.token)
        values = {"base_url": address, "model": server.name, "key": recorder.token}
        values["query"] = request.query
        command = _filled(request.command, {name: shlex.quote(values[name]) for name in values})
        variables = {name: _filled(value, values) for name, value in request.env.items()}
        equipment, placing = equip(sandbox, env.task, FOLDER)
        cwd, own_files = _look(sandbox)
        workspace.own_files = workspace.own_files or own_files  # of the first round
        began = time.monotonic()
        completed = sandbox.run(
            ["bash", "-c", f"trap '{_AT_END}' EXIT; PATH={FOLDER}/bin:$PATH; {placing}{command}"],
            stdin=b"" if "{query}" in request.command else request.query.encode(),
            cwd=cwd,
            env={**_variables(address, recorder.token), **equipment, **variables},
            timeout=min(seconds or SECONDS, SECONDS),
            ends=lambda: bool(
                recorder.crash
                or (recorder.ended and time.monotonic() > recorder.ended_at + GRACE)
                or stopped()
            ),
        )
        facts = _facts(completed, time.monotonic() - began, sandbox)
        sandbox.exec("", argv=["bash", "-c", _AFTER], cwd="/")
        recorder.close()
        if recorder.crash is not None:
            raise recorder.crash
        recorder.require_no_fault()
        ended = recorder.ended or ("limit" if completed.timed_out else "stopped")
        if ended == "stopped" and recorder.was_limited and completed.exit_code:
            ended = "turns"
        if recorder.answered is None and recorder.submission is None:
            if ended == "limit" and recorder.is_waiting:
                raise ModelError(f"{server.url}: no answer in the program's time")
            if ended == "stopped":
                if recorder.refusal.startswith(server.url):
                    raise ModelError(recorder.refusal)
                why = " before it had an answer of the model"
                raise UsageError(_end_of(facts, why, recorder.refusal))
        return Launched(recorder.submission, ended, facts)


def _facts(completed: Completed, seconds: float, sandbox: Sandbox) -> dict[str, Any]:
    """Return how a program ended."""
    facts = {
        "status": completed.exit_code,
        "seconds": round(seconds, 3),
        "cpu_seconds": None,
        "stdout": completed.stdout.decode("utf-8", "replace").strip()[-KEPT:],
        "stderr": completed.stderr.decode("utf-8", "replace").strip()[-KEPT:],
    }
    with suppress(OSError, SandboxError, ValueError):
        ticks = sandbox.read(f"{FOLDER}/ticks", limit=_TICKS).split()
        facts["cpu_seconds"] = sum(map(int, ticks)) / 100
    return facts


def program_fault(episode: Episode) -> UsageError | None:
    """Return the fault of a program that ended by itself, with an error and without a
    submission."""
    facts = episode.outcomes.get("program") or {}
    if episode.ended == "stopped" and facts.get("status"):
        return UsageError(_end_of(facts))
    return None


def _end_of(facts: Mapping[str, Any], when: str = "", refusal: str = "") -> str:
    printed = "\n".join(filter(None, (facts["stdout"], facts["stderr"])))[-500:]
    if refusal:
        when += f"; its request was refused: {refusal}"
    return (
        f"the program of exec: ended with status {facts['status']}{when}; "
        f"its output ends: {printed}"
    )


def _write_submit(sandbox: Sandbox, request: Launch, port: int, token: str) -> None:
    note = (
        f"Nothing is submitted yet: run {request.ending}, "
        "or `submit` once more if the task asks for nothing."
    )
    script = _SUBMIT.format(
        port=port,
        token=token,
        ending=shlex.quote(request.ending),
        told=shlex.quote(note),
        folder=FOLDER,
    )
    sandbox.write(f"{FOLDER}/bin/submit", script.encode(), mode=0o755)


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
    if listing.timed_out or listing.limits:
        return cwd, None
    home, *names = listing.stdout.decode("utf-8", "surrogateescape").split("\0")
    home = home.rstrip("/")
    return cwd, OwnFiles(home, frozenset(f"{home}/{name}" for name in names))


def _filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with `{query}` and the like replaced, the query last; other braces stay."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _variables(address: str, token: str) -> dict[str, str]:
    """Return the variables that tell programs where their model and their own folders are."""
    return {
        "OPENAI_BASE_URL": address,
        "OPENAI_API_BASE": address,
        "OPENAI_API_KEY": token,
        "ANTHROPIC_BASE_URL": address.removesuffix("/v1"),
        "ANTHROPIC_API_KEY": token,
        "XDG_CONFIG_HOME": f"{FOLDER}/config",
        "XDG_DATA_HOME": f"{FOLDER}/data",
        "XDG_CACHE_HOME": f"{FOLDER}/cache",
        "XDG_STATE_HOME": f"{FOLDER}/state",
    }
