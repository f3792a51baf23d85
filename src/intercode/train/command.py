"""`serve` answers rollouts over HTTP."""

from __future__ import annotations

from typing import Any

import click

from intercode.cli import options as shared
from intercode.errors import UsageError
from intercode.options import RunOptions


@shared.command()
@shared.env_argument
@shared.world()
@click.option(
    "--agent",
    "agents",
    multiple=True,
    metavar="NAME",
    help="Let requests choose this agent. May be repeated; the first is the default. [try_again]",
)
@shared.declared(
    RunOptions,
    *("base_url", "temperature", "reply_tokens", "reply_seconds", "request", "no_system"),
    *("keep_reasoning", "context", "turns"),
    temperature=1.0,
)
@click.option(
    "--allow-base-url",
    multiple=True,
    metavar="URL",
    help=(
        "Let requests name this address of a model server. May be repeated; * stands for letters, "
        "digits and hyphens, as in http://127.0.0.1:*/v1."
    ),
)
@click.option(
    "--envs", type=shared.COUNT, default=16, show_default=True, metavar="N",
    help="Play at most N rollouts at a time.",
)  # fmt: skip
@click.option(
    "--queue", type=click.IntRange(0), default=256, show_default=True, metavar="N",
    help="Let at most N more requests wait; refuse others with status 429.",
)  # fmt: skip
@click.option(
    "--deal", type=shared.COUNT, metavar="N",
    help="Choose the tasks of requests that name none by their pass rates, each for N in a row.",
)  # fmt: skip
@shared.listening
def serve(
    env: str,
    agents: tuple[str, ...],
    base_url: str | None,
    allow_base_url: tuple[str, ...],
    envs: int,
    queue: int,
    deal: int | None,
    host: str,
    port: int,
    **options: Any,
) -> None:
    """Play rollouts of ENV for a trainer that asks over HTTP.

    POST /rollout {"task": ID, "model": NAME, "base_url": URL} returns the episode with its reward;
    docs/training.md describes the requests. The token that requests need is that in
    $INTERCODE_SERVE_TOKEN, or a new one, which is printed. Ctrl-C ends the service.
    """
    import os
    import secrets
    from contextlib import closing

    from intercode.envs import prepare
    from intercode.runs.evaluation import with_room
    from intercode.train import RolloutLimits

    try:
        from intercode.cli import web
        from intercode.train.service import Service
    except ImportError as error:
        raise shared.lacks_viewer("`serve`", error) from error
    if not base_url and not allow_base_url:
        raise UsageError("name a model server: --base-url URL, or --allow-base-url URL")
    limits = {name: options.pop(name) for name in ("turns", "reply_tokens", "context")}
    model_options = {"logprobs": True, "timeout": options.pop("reply_seconds")}
    for name in ("temperature", "request", "no_system", "keep_reasoning"):
        model_options[name] = options.pop(name)
    set_token = os.environ.get("INTERCODE_SERVE_TOKEN")
    token = set_token or secrets.token_urlsafe(24)
    service = Service(
        env,
        prepare(env, **with_room(env, agents, options)),
        list(dict.fromkeys(agents)) or ["try_again"],
        token,
        base_url=base_url,
        allowed=allow_base_url,
        options=model_options,
        envs=envs,
        queue=queue,
        limits=RolloutLimits(**limits),
        deal=deal,
    )

    def tell(address: str) -> None:
        click.echo(f"serve: {address}")
        if not set_token:
            click.echo(f"token: {token}")

    with closing(service), shared.listening_at(host, port):
        web.run(service.app(), host, port, tell)
