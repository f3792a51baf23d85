"""A cluster of this machine: each host is a Python process that this program starts.

    parent ── a socket pair ──► python -c … serve(descriptor)
      call(method, …)  ──► a thread of the host ──► kind(*arguments).method(…)
      answer(reply)    ◄── ask(question)              any number of times
      result           ◄── value

Nothing is forked but to start a program, and the caller's script is not imported there: functions
of its own travel by value, with cloudpickle. Each host has a process group of its own, so that
Ctrl-C in a terminal reaches only the parent. A host ends with its parent, whose end of the socket
closes even when it is killed.
"""

from __future__ import annotations

import itertools
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection, Pipe
from typing import Any

import cloudpickle

from intercode.train.cluster.base import CLEAN_UP, Lost, Node
from intercode.train.cluster.host import as_value

_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from intercode.train.cluster.processes import serve; serve(int(sys.argv[1]))"
)


class _Connection:
    """Messages of numbered calls. Any thread may send, one receives."""

    def __init__(self, end: Connection) -> None:
        self._end, self._lock = end, threading.Lock()

    def send(self, number: int, content: bytes) -> None:
        """Raises `OSError` if the other side has ended."""
        with self._lock:
            self._end.send((number, content))

    def receive(self) -> Any:
        """Return the number and the content of a message; None if the other side has ended."""
        with suppress(OSError, EOFError):
            return self._end.recv()
        return None

    def close(self) -> None:
        self._end.close()


class Call(Future[Any]):
    """A call of a host. `questions` gets what the method asks, and None when the call has ended."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number, self.questions = number, queue.SimpleQueue[Any]()


class ProcessHost:
    """A host and its process."""

    def __init__(self, kind: type, argument: Any, calls: int) -> None:
        content = cloudpickle.dumps((kind, argument, calls))
        near, far = Pipe()
        argv = [sys.executable, "-c", _PROGRAM, str(far.fileno()), *sys.path]
        with far:
            self._process = subprocess.Popen(
                argv, pass_fds=[far.fileno()], stdin=subprocess.DEVNULL, process_group=0
            )
        self._connection, self._numbers = _Connection(near), itertools.count(1)
        self._calls, self._why_ended, self._lock = dict[int, Call](), "", threading.Lock()
        threading.Thread(target=self._receive, name="intercode-host", daemon=True).start()
        self._send(0, content)

    def call(self, method: str, *arguments: Any, asks: bool = False) -> Call:
        """Call a method. `asks`: its last argument, which is added there, is a function that asks
        `Call.questions` and returns what `answer` sends."""
        call, content = Call(next(self._numbers)), pickle.dumps((method, arguments, asks))
        with self._lock:
            self._calls[call.number] = call
            why = self._why_ended
        if why:
            self._lose([call], why)
        else:
            self._send(call.number, content)
        return call

    def answer(self, call: Call, reply: Any) -> None:
        """Answer a question of a call."""
        self._send(call.number, pickle.dumps(reply))

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _send(self, number: int, content: bytes) -> None:
        with suppress(OSError):  # `_receive` tells the calls that the host has ended
            self._connection.send(number, content)

    def _receive(self) -> None:
        while message := self._connection.receive():
            number, content = message
            try:
                is_question, value = pickle.loads(content)
            except Exception as error:  # such as a module that only the host has imported
                is_question, value = False, as_value(error)
            if is_question:
                self._calls[number].questions.put(value)
                continue
            call = self._calls.pop(number)
            call.set_result(value)
            call.questions.put(None)
        self.kill()
        status = self._process.returncode
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"exited: {status}"
        with self._lock:
            self._why_ended = f"its process {self._process.pid} {how}"
            calls, self._calls = list(self._calls.values()), {}
        self._lose(calls, self._why_ended)
        self._connection.close()

    def _lose(self, calls: Sequence[Call], why: str) -> None:
        for call in calls:
            self._calls.pop(call.number, None)
            call.set_exception(Lost(why))
            call.questions.put(None)


class LocalCluster:
    """Processes of this machine, as many as there are to be hosts."""

    def __init__(self, hosts: int) -> None:
        self._nodes = [Node(str(number), f"process-{number}", 0, 0) for number in range(hosts)]

    def living_nodes(self) -> list[Node]:
        return self._nodes

    def start(self, node: Node, kind: type, argument: Any, calls: int) -> ProcessHost:
        """Start a host with an object `kind(argument)`; it answers `calls` calls at once."""
        return ProcessHost(kind, argument, calls)

    def wait(self, calls: Sequence[Call], seconds: float) -> list[Call]:
        """Return the calls that have ended, when one has or the time is up."""
        wait(calls, timeout=seconds, return_when=FIRST_COMPLETED)
        return [call for call in calls if call.done()]

    def result(self, call: Call) -> Any:
        """Wait for a call, and return its value. Raises `Lost`."""
        return call.result()

    def end(self, hosts: Sequence[ProcessHost], seconds: float = 0.0) -> None:
        """End hosts with their sandboxes; before that, give them some seconds to clean up."""
        if seconds:
            wait([host.call("end", seconds) for host in hosts], timeout=seconds + 0.5)
        for host in hosts:
            host.kill()

    def close(self) -> None:
        """Leave the cluster."""


def serve(descriptor: int) -> None:
    """Be a host: answer the parent's calls until its end of the socket closes."""
    connection = _Connection(Connection(descriptor))
    first = connection.receive()
    if first is None:
        os._exit(1)
    kind, argument, calls = pickle.loads(first[1])
    served, threads = kind(argument), ThreadPoolExecutor(calls)
    replies: dict[int, queue.SimpleQueue[bytes]] = {}

    def ask(number: int, question: Any) -> Any:
        connection.send(number, pickle.dumps((True, question)))
        return pickle.loads(replies[number].get())

    def answer(number: int, content: bytes) -> None:
        try:
            method, arguments, asks = pickle.loads(content)
            if asks:
                replies[number] = queue.SimpleQueue()
                arguments += (partial(ask, number),)
            value = pickle.dumps((False, getattr(served, method)(*arguments)))
        except BaseException as error:  # such as a value that cannot be pickled
            value = pickle.dumps((False, as_value(error)))
        replies.pop(number, None)
        with suppress(OSError):
            connection.send(number, value)

    while message := connection.receive():
        number, content = message
        if number in replies:
            replies[number].put(content)
        else:
            threads.submit(answer, number, content)
    with suppress(Exception):
        served.end(CLEAN_UP)  # the parent was killed, or has ended without closing the host
    os._exit(0)
