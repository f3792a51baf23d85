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

import shlex
import time
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

from intercode.agents.base import Launch, Launched
from intercode.errors import ModelError, UsageError
from intercode.runner.recorder import Recorder, require_server
from intercode.types import Turn
from intercode_sandbox.base import Sandbox

FOLDER = PurePosixPath("/dev/shm/agent")
SECONDS = 3600.0
"""The time of a program, unless the episode's limit is shorter."""
GRACE = 10.0
"""Seconds that a program may go on after it submitted, or was refused."""
_SUBMIT = """#!/bin/bash
# submit [ANSWER]: end the work; ANSWER may have several words
answer="$*"
if [[ $# = 0 && {ending} != submit && ! -e ${{0%/*}}/../asked ]]; then
    touch "${{0%/*}}/../asked"
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
    refusal: Callable[[int, int], str | None],
    stopped: Callable[[], str | None],
    seconds: float | None,
) -> Launched:
    """Run the program of a request to its end, or until `stopped` returns a reason. `refusal` is
    that of `Recorder`.

    Raises `ModelError` if the model's server was at fault when the program ended, and `UsageError`
    for an environment without such a sandbox, and for a program that does not start.
    """
    sandbox = _sandbox_of(env)
    server = require_server(model)
    with Recorder(sandbox.listen(0), server, turns, refusal) as recorder:
        _, port = recorder.listener.getsockname()
        told = (
            f"Nothing is submitted yet: run {request.ending}, "
            "or `submit` once more if the task asks for nothing."
        )
        script = _SUBMIT.format(
            port=port,
            token=recorder.token,
            ending=shlex.quote(request.ending),
            told=shlex.quote(told),
        )
        sandbox.write(str(FOLDER / "bin" / "submit"), script.encode(), mode=0o755)
        command = request.command.replace("{query}", shlex.quote(request.query))
        done = sandbox.run(
            ["bash", "-c", f"PATH={FOLDER}/bin:$PATH; {command}"],
            stdin=b"" if "{query}" in request.command else request.query.encode(),
            cwd=sandbox.exec("", argv=["pwd"]).output.rstrip("\n"),
            env={**_variables(port, recorder.token), **request.env},
            timeout=min(seconds or SECONDS, SECONDS),
            ends=lambda: bool(
                (recorder.refused_at and time.monotonic() > recorder.refused_at + GRACE)
                or stopped()
            ),
        )
        recorder.add_actions()
        if recorder.submission is not None:
            return Launched(recorder.submission, False)
        if recorder.fault is not None and not recorder.provoked():
            raise recorder.fault
        if not (recorder.asked or recorder.refused_at or done.timed_out):
            if recorder.refusal.startswith(server.url):
                raise ModelError(recorder.refusal)
            said = (done.stdout + done.stderr).decode("utf-8", "replace").strip()[-500:]
            refused = f"its request was refused: {recorder.refusal}; " if recorder.refusal else ""
            raise UsageError(
                f"the program of exec: ended with status {done.exit_code} before it had an answer "
                f"of the model; {refused}its output ends: {said}"
            )
        return Launched(None, recorder.refused_at is not None or done.timed_out)


def _sandbox_of(env: Any) -> Sandbox:
    workspace = getattr(getattr(env, "world", None), "workspace", None)
    if workspace is None or not getattr(getattr(env, "language", None), "is_shell", False):
        raise UsageError(
            "a command-line agent (exec:COMMAND) needs an environment whose actions are Bash: "
            "bash, ctf or harbor"
        )
    sandbox: Sandbox = workspace.lend_sandbox()
    return sandbox


def _variables(port: int, token: str) -> dict[str, str]:
    """Return the variables that tell programs where their model and their own folders are."""
    address = f"http://127.0.0.1:{port}"
    folders = {"CONFIG": "config", "DATA": "data", "CACHE": "cache", "STATE": "state"}
    return {
        "OPENAI_BASE_URL": f"{address}/v1",
        "OPENAI_API_BASE": f"{address}/v1",
        "OPENAI_API_KEY": token,
        "ANTHROPIC_BASE_URL": address,
        "ANTHROPIC_API_KEY": token,
        **{f"XDG_{name}_HOME": str(FOLDER / folder) for name, folder in folders.items()},
    }
