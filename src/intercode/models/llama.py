"""A llama.cpp server as a process of its own: `python -m intercode.models.llama FILE SLOTS CONTEXT`.

It listens on a free port of the loopback, prints its address on a line when it is ready, and lives as long as its
standard input is open: whatever ends the process that started it, kill -9 included, ends it too. The log goes to the
standard error.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

PROMPT_CACHE_MIB = 512


def main() -> None:
    file, slots, context = sys.argv[1:]
    threading.Thread(target=_end_with_the_input, daemon=True).start()
    address = os.dup(1)
    os.dup2(2, 1)  # what the library prints is no address
    server = _serve(file, int(slots), int(context))
    os.write(address, f"{server.listening_address}\n".encode())
    threading.Event().wait()


def _serve(file: str, slots: int, context: int) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = file
    params.port = 0
    params.n_parallel, params.n_ctx = slots, slots * context
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = _threads()
    params.cache_ram_mib = PROMPT_CACHE_MIB
    params.ui = params.endpoint_slots = False
    params.offline, params.warmup = True, False
    try:
        return xllamacpp.Server(params)
    except RuntimeError:  # the log says why
        sys.exit(1)


def _threads() -> int:
    """Half of the processors: the run needs some too, and threads that wait for one that has none do so at full speed.

    Two of them on two busy processors made 2 tokens a second, one made 55.
    """
    return max(1, len(os.sched_getaffinity(0)) // 2)


def _end_with_the_input() -> None:
    while os.read(0, 1):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
