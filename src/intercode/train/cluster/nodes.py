"""A cluster of Ray: the connection, the nodes that can play, and one actor on each of them."""

from __future__ import annotations

import logging
import os
import socket
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from intercode.errors import SandboxError, UsageError
from intercode.train.cluster.base import Lost, Node
from intercode_sandbox.doctor import Finding, try_sandbox

GIB = 1 << 30
_ENDS = ("exit", "died", "dead")
"""Words by which Ray says in an error why a host ended."""
_VARIABLES = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


@dataclass
class RayHost:
    """An actor."""

    actor: Any

    def call(self, method: str, *arguments: Any) -> Any:
        return getattr(self.actor, method).remote(*arguments)


class RayCluster:
    """A connection to a cluster; `close` ends it, unless the process was connected before."""

    def __init__(self, on: str) -> None:
        """`on` is an address, or `ray`: the cluster of this machine or of $RAY_ADDRESS, started
        here if there is none.

        Raises `UsageError` without Ray, and `SandboxError` if no cluster answers.
        """
        for name, value in _VARIABLES.items():
            os.environ.setdefault(name, value)
        try:
            import ray
        except ImportError as error:
            raise UsageError(f"--on {on} needs Ray; run: pip install 'ray[client]'") from error
        self._ours = not ray.is_initialized()
        if not self._ours:
            return
        # no setting of Ray's keeps its notices of lost workers off stdout, where --json prints
        ray._private.worker.print_to_stdstream = lambda *_, **__: None
        connect = partial(ray.init, log_to_driver=False, logging_level=logging.ERROR)
        try:
            if on != "ray":
                host, _, port = on.removeprefix("ray://").rpartition(":")
                if not port.isdigit():
                    raise UsageError(
                        f"--on {on} is not an address; give local, ray, HOST:PORT or ray://HOST:PORT"
                    )
                # Ray itself waits for minutes
                socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
                connect(on)
                return
            try:
                connect("auto")
            except ConnectionError:
                if "RAY_ADDRESS" in os.environ:
                    raise
                connect("local", include_dashboard=False)
        except (OSError, RuntimeError, ValueError, ImportError) as error:
            first = str(error).strip().partition("\n")[0]
            advice = (
                "try `ray status` there; "
                "if the cluster asks for a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN"
            )
            raise SandboxError(f"no Ray cluster answers at {on} ({first}); {advice}") from error

    def living_nodes(self) -> list[Node]:
        """Return the nodes that are alive and have cores for work: a head started with
        `--num-cpus 0` plays nothing."""
        import ray

        every: Any = ray.nodes()  # type: ignore[no-untyped-call]
        rows = [row for row in every if row["Alive"] and row["Resources"].get("CPU")]
        names = Counter(row["NodeName"] for row in rows)
        nodes = []
        for row in rows:
            name, resources = row["NodeName"], row["Resources"]
            if names[name] > 1:
                name += f"/{row['NodeID'][:6]}"
            memory = int(resources.get("memory", 0))
            nodes.append(Node(row["NodeID"], name, int(resources["CPU"]), memory))
        return sorted(nodes, key=attrgetter("name"))

    def start(self, node: Node, kind: type, argument: Any, calls: int) -> RayHost:
        import ray

        remote: Any = ray.remote(kind).options(
            **_there(node), max_restarts=0, max_task_retries=0, max_concurrency=calls
        )
        return RayHost(remote.remote(argument))

    def wait(self, calls: Sequence[Any], seconds: float) -> list[Any]:
        import ray

        ended: list[Any] = ray.wait(list(calls), num_returns=1, timeout=seconds)[0]
        return ended

    def result(self, call: Any) -> Any:
        import ray

        try:
            return ray.get(call)
        except ray.exceptions.RayTaskError as error:
            # raised in the host, which returns the errors that it expects
            raise Lost(f"the host failed: {error.cause!r:.300}") from error
        except ray.exceptions.RayError as error:
            lines = [line.strip() for line in str(error).split("\n")]
            named = (line for line in lines[1:] if any(word in line for word in _ENDS))
            raise Lost(next(named, lines[0])[:300]) from error

    def end(self, hosts: Sequence[RayHost], seconds: float = 0.0) -> None:
        import ray

        if seconds and hosts:
            calls = [host.call("end", seconds) for host in hosts]
            ray.wait(calls, num_returns=len(calls), timeout=seconds + 0.5)
        for host in hosts:
            ray.kill(host.actor, no_restart=True)

    def close(self) -> None:
        import ray

        if self._ours:
            ray.shutdown()


def _there(node: Node) -> dict[str, Any]:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return {
        "num_cpus": 0,
        "scheduling_strategy": NodeAffinitySchedulingStrategy(node.id, soft=False),
    }


def examine_nodes(on: str) -> list[Finding]:
    """Return a finding for each node: its cores and memory, whether a sandbox starts there, and how
    many fit."""
    import ray

    cluster = RayCluster(on)
    try:
        nodes = cluster.living_nodes()
        answers = []
        for node in nodes:
            answers.append(ray.remote(try_sandbox).options(**_there(node), max_retries=0).remote())
        findings = []
        for node, answer in zip(nodes, answers, strict=True):
            try:
                finding = ray.get(answer, timeout=120)
            except ray.exceptions.RayError as error:
                last_line = str(error).strip().rpartition("\n")[2]
                finding = Finding("", False, last_line, "install intercode on this node")
            detail = f"{node.cores} cores, {node.memory / GIB:.0f} GiB; "
            if finding.ok:
                detail += f"holds {max(1, min(node.memory // GIB, 2 * node.cores))} sandboxes, "
            detail += finding.detail
            findings.append(finding._replace(what=node.name, detail=detail))
        if findings:
            return findings
        advice = "ray start --address HOST:PORT on a node"
        return [Finding("nodes", False, "no node of the cluster has cores", advice)]
    finally:
        cluster.close()
