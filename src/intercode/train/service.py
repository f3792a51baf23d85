"""Serve rollouts over HTTP: a trainer names a task and its own model's address, and gets the
episode.

    POST /rollout   {"task"?, "model", "base_url"?, "key"?, "agent"?, "seed"?, "limits"?,
                     "sampling"?}
                    ► {"task", "group", "seed", "agent", "model", "reward", "success", "cut",
                       "episode", "segments"}
    GET  /tasks     {"env", "agents", "tasks": [{"id", "query"}]}
    GET  /healthz   {"status": "ok"}; the only one that needs no token

`reward` is 1.0 for success and 0.0 without; the reward of the score, which may be a fraction, is
`episode.reward`. A fault is never a reward. Its answer is {"error": {"fault", "message"}}, with
the task and the episode so far if one has begun, and a status by the side at fault:

    400, 401, 403, 404, 413   the caller            502   the model's server
    429                       the queue is full     503   this machine, or the service ends
    500                       the task's data, or intercode

Environment, agents and the addresses of models are chosen when the service starts: a request can
neither load code nor make the service ask an address that was not allowed. A caller's key is kept
in memory only; the service's own goes to its own address only. `limits` are fields of
`RolloutLimits`, none above the service's; `sampling` are parameters for the model's server, such as
`temperature`, `top_p`, `max_tokens` and `stop`. With `deal`, a `Sampler` chooses task and seed of
the requests that name no task: each `deal` of them in a row are one `group`.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from intercode.errors import IntercodeError
from intercode.factory import EnvFactory
from intercode.models import NO_KEY, OpenAIModel
from intercode.models.refusals import FIXED
from intercode.runs.store import to_json
from intercode.train.dealing import Sampler
from intercode.train.jobs import Job, Rollout
from intercode.train.pool import RolloutPool
from intercode.train.sampling import RolloutLimits

LARGEST_REQUEST = 1 << 20
"""Bytes."""
_FIELDS: dict[str, type] = {
    "task": str, "model": str, "base_url": str, "key": str, "agent": str, "seed": int,
    "limits": dict, "sampling": dict,
}  # fmt: skip
_KINDS = {str: "a text", int: "a whole number", dict: "an object"}
_STATUS = {"caller": 400, "model": 502, "sandbox": 503}


class _Refused(Exception):
    """A request that is answered with `status`, and the message as the caller's fault."""

    fault = "caller"

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Service:
    """Answers requests with pools of warm environments, one for each agent.

    At most `envs` rollouts are played and `queue` wait at a time. Close it to end them.

    `base_url` is the service's address of models, if it has one, which gets the service's key.
    `allowed` are other addresses; `*` in one stands for letters, digits and hyphens. `options` are
    arguments of `OpenAIModel`.
    """

    def __init__(
        self,
        env: str,
        factory: EnvFactory,
        agents: Sequence[str],
        token: str,
        *,
        base_url: str | None,
        allowed: Sequence[str],
        options: Mapping[str, Any],
        envs: int,
        queue: int,
        limits: RolloutLimits,
        deal: int | None = None,
    ) -> None:
        self._pools = dict[str, RolloutPool]()
        with ExitStack() as opened:
            for agent in agents:
                self._pools[agent] = opened.enter_context(
                    RolloutPool(factory, agent, envs=envs, limits=limits)
                )
            self.close = opened.pop_all().close
        self._env, self._tasks = env, factory.tasks
        self._base_url, self._allowed, self._options = base_url, allowed, options
        self._ids = {task.id for task in factory.tasks}
        self._token, self._limits = token.encode(), limits
        self._sampler = Sampler([(factory, 1)])
        self._deals, self._dealt = deal is not None, self._sampler.stream(deal or 1)
        self._most, self._open = envs + queue, 0
        self._free = asyncio.Semaphore(envs)

    def app(self) -> Starlette:
        """Return the service as an ASGI application."""
        return Starlette(
            routes=[
                Route("/healthz", self.show_health),
                Route("/tasks", self.list_tasks),
                Route("/rollout", self.play, methods=["POST"]),
            ],
            exception_handlers={
                _Refused: _refuse,
                IntercodeError: _refuse,
                ClientDisconnect: lambda *_: Response(),  # nobody reads it
            },
        )

    async def show_health(self, request: Request) -> Response:
        return _answer({"status": "ok"})

    async def list_tasks(self, request: Request) -> Response:
        self._require_token(request)
        return _answer(
            {
                "env": self._env,
                "agents": list(self._pools),
                "tasks": [{"id": task.id, "query": task.query} for task in self._tasks],
            }
        )

    async def play(self, request: Request) -> Response:
        """Play one rollout. If the caller leaves, the episode ends within a turn."""
        self._require_token(request)
        if self._open >= self._most:
            raise _Refused(429, f"{self._most} rollouts are running or waiting; try again later")
        self._open += 1
        try:
            order = _read_order(await _body(request))
            agent = order["agent"] = order.get("agent") or next(iter(self._pools))
            if agent not in self._pools:
                raise _Refused(
                    400, f"no agent is called {agent:.100}; there are {', '.join(self._pools)}"
                )
            if task := order.get("task"):
                if task not in self._ids:
                    raise _Refused(404, f"no task has the id {task:.200}")
            elif not self._deals:
                raise _Refused(400, "the field 'task' is missing; the service deals none (--deal)")
            elif "seed" in order:
                raise _Refused(400, "the service deals the seed with the task; leave 'seed' out")
            rollout = asyncio.ensure_future(self._play(order))
            disconnection = asyncio.ensure_future(_disconnection(request))
            try:
                await asyncio.wait((rollout, disconnection), return_when=asyncio.FIRST_COMPLETED)
                if not rollout.done():
                    return Response()  # nobody reads it
                return _answer_rollout(order, rollout.result())
            finally:
                rollout.cancel()
                disconnection.cancel()
        finally:
            self._open -= 1

    async def _play(self, order: dict[str, Any]) -> Rollout:
        limits = _lowered(self._limits, order.get("limits", {}))
        _require_sampling(order.get("sampling", {}), limits)
        with closing(await asyncio.to_thread(self._connect, order, limits)) as model:
            async with self._free:
                pool, task = self._pools[order["agent"]], order.get("task")
                job = Job(task, order.get("seed", 0)) if task else next(self._dealt)
                rollout = await pool.play(job, model, limits=limits)
                pool.stats()  # else they grow for as long as the service runs
                if not task:
                    self._sampler.note([rollout])
                return rollout

    def _connect(self, order: Mapping[str, Any], limits: RolloutLimits) -> OpenAIModel:
        """Return the model of a request. Raises `_Refused` if its address is not allowed."""
        address, key = order.get("base_url"), order.get("key")
        if address is None or address.rstrip("/") == (self._base_url or "").rstrip("/"):
            if not self._base_url:
                raise _Refused(400, "name the model's address: the service has none (base_url)")
            address = self._base_url
        elif any(_matches(address, pattern) for pattern in self._allowed):
            key = key or NO_KEY
        else:
            raise _Refused(403, f"the address {address:.200} is not allowed (--allow-base-url)")
        request = {**(self._options.get("request") or {}), **order.get("sampling", {})}
        options = {**self._options, "max_tokens": limits.reply_tokens, "context": limits.context}
        options |= {"base_url": address, "api_key": key, "request": request}
        return OpenAIModel(order["model"], **options)

    def _require_token(self, request: Request) -> None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        is_right = hmac.compare_digest(token.strip().encode(), self._token)
        if scheme.lower() != "bearer" or not is_right:
            raise _Refused(401, "send the service's token: Authorization: Bearer TOKEN")


def _matches(address: str, pattern: str) -> bool:
    parts = map(re.escape, pattern.rstrip("/").split("*"))
    return re.fullmatch(r"[A-Za-z0-9-]+".join(parts), address.rstrip("/")) is not None


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > LARGEST_REQUEST:
            raise _Refused(413, f"the request has more than {LARGEST_REQUEST} bytes")
    return bytes(body)


def _read_order(body: bytes) -> dict[str, Any]:
    """Return the fields of a request that are not null. Raises `_Refused`."""
    try:
        order = json.loads(body)
        json.dumps(order, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise _Refused(400, "the request's body contains half of a surrogate pair") from None
    except (ValueError, RecursionError):
        raise _Refused(400, "the request's body is not JSON") from None
    if not isinstance(order, dict):
        raise _Refused(400, "the request's body is not a JSON object")
    order = {name: value for name, value in order.items() if value is not None}
    for name, value in order.items():
        if name not in _FIELDS:
            raise _Refused(400, f"there is no field {name!r:.100}; there are {', '.join(_FIELDS)}")
        if type(value) is not _FIELDS[name]:
            raise _Refused(400, f"the field {name!r} must be {_KINDS[_FIELDS[name]]}")
    if not 0 <= order.get("seed", 0) < 2**31:
        raise _Refused(400, "the field 'seed' must be a number from 0 to 2³¹ − 1")
    if not order.get("model"):
        raise _Refused(400, "the field 'model' is missing")
    return order


def _lowered(limits: RolloutLimits, asked: Mapping[str, Any]) -> RolloutLimits:
    """Return the service's limits with those of a request. Raises `_Refused` if one is higher."""
    most = asdict(limits)
    for name, value in asked.items():
        if name not in most:
            raise _Refused(400, f"there is no limit {name!r:.100}; there are {', '.join(most)}")
        if type(value) is not int or not 1 <= value <= (most[name] or value):
            upto = f" to {most[name]}, the service's" if most[name] else ""
            raise _Refused(400, f"the limit {name!r} must be a whole number from 1{upto}")
    return replace(limits, **asked)


def _require_sampling(sampling: Mapping[str, Any], limits: RolloutLimits) -> None:
    """Raise `_Refused` for parameters that a request may not set."""
    if fixed := sorted(sampling.keys() & FIXED):
        raise _Refused(400, f"the field 'sampling' cannot set {', '.join(fixed)}")
    for name in ("max_tokens", "max_completion_tokens"):
        value = sampling.get(name, 1)
        if limits.reply_tokens and (
            type(value) is not int or not 1 <= value <= limits.reply_tokens
        ):
            raise _Refused(
                400,
                f"{name} must be a whole number from 1 to {limits.reply_tokens}, "
                "the limit 'reply_tokens'",
            )


async def _disconnection(request: Request) -> None:
    """Return when the caller has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _answer(content: Mapping[str, Any], status: int = 200) -> Response:
    # not JSONResponse, whose UTF-8 cannot contain the half characters that a sandbox may print
    return Response(json.dumps(content), status, media_type="application/json")


def _answer_rollout(order: Mapping[str, Any], rollout: Rollout) -> Response:
    answer = {
        "task": rollout.task,
        "group": None if order.get("task") else rollout.group,
        "seed": rollout.seed,
        "agent": order["agent"],
        "model": order["model"],
    }
    episode = to_json(rollout.episode)
    if rollout.reward is None:
        fault, _, message = (rollout.episode.error or "sandbox: the service ends").partition(": ")
        answer |= {"error": {"fault": fault, "message": message}, "episode": episode}
        return _answer(answer, _STATUS.get(fault, 500))
    answer |= {
        "reward": rollout.reward,
        "success": rollout.episode.success,
        "cut": rollout.cut,
        "episode": episode,
        "segments": [asdict(segment) for segment in rollout.segments],
    }
    return _answer(answer)


def _refuse(request: Request, error: Exception) -> Response:
    """Return the answer to a request that is refused, or has met a fault."""
    assert isinstance(error, _Refused | IntercodeError)
    status = error.status if isinstance(error, _Refused) else _STATUS.get(error.fault, 500)
    response = _answer({"error": {"fault": error.fault, "message": str(error)}}, status)
    if status == 429:
        response.headers["Retry-After"] = "1"
    return response
