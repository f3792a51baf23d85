"""A model in a file, behind a llama.cpp server that is started for it and ends with it. The extra `local` has the server.

    LocalModel ──► python -m intercode.models.llama FILE      a free port of the loopback; see there for its life
        └── HTTP, as for any other server

Left out: downloading models, and a choice of the context's length or of the hardware. For those start a server of your
own and name its address in INTERCODE_BASE_URL.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import weakref
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from intercode.errors import ModelError, UsageError
from intercode.models.openai_chat import OpenAIModel
from intercode.types import Message, Reply, Tool

SLOTS = 2
"""Conversations that are answered at a time; others wait."""
CONTEXT = 8192
"""Tokens of each, or as many as the model was trained for where that is less."""


class LocalModel(OpenAIModel):
    """The model of `name`: a GGUF file, or an installed Python package that carries one. It costs nothing.

    Raises `UsageError` if there is no such file or the extra is missing, `ModelError` if the server cannot load it.
    """

    def __init__(self, name: str, **options: Any) -> None:
        import openai

        file = find_file(name)
        if find_spec("xllamacpp") is None:
            raise UsageError("a local model needs the extra `local`: pip install 'intercode-gym[local]'")
        self._log = tempfile.TemporaryFile()
        self._process, address = _start(file, self._log)
        self._ending = weakref.finalize(self, _end, self._process, self._log)
        own: dict[str, Any] = {"base_url": f"{address}/v1", "api_key": "none-needed", "price": (0.0, 0.0)}
        super().__init__(file.name, **{**options, **own})
        self._client = self._client.with_options(http_client=openai.DefaultAsyncHttpxClient(trust_env=False))  # no proxy
        self.name = f"local:{name}"

    def complete(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), draw: int = 0) -> Reply:
        try:
            return super().complete(messages, tools=tools, draw=draw)
        except ModelError as error:
            if (status := self._process.poll()) is None or not self._ending.alive:
                raise
            raise ModelError(
                f"the local server has died (status {status}): {_tail(self._log)}\n"
                "was there memory enough? A new run, or --resume, starts it again"
            ) from error

    def close(self) -> None:
        """Ends the server. Optional: it also ends with the model, and with the process."""
        super().close()
        self._ending()


def find_file(name: str) -> Path:
    """The GGUF file that `name` means."""
    file = Path(name) if name.endswith(".gguf") else _carried_by(name)
    try:
        with file.open("rb") as start:
            magic = start.read(4)
    except OSError as error:
        raise UsageError(f"{file}: cannot be read ({error.strerror}); local:PATH.gguf names a model file") from error
    if magic != b"GGUF":
        raise UsageError(f"{file}: is not a GGUF file, which llama.cpp needs")
    return file.resolve()


def _carried_by(package: str) -> Path:
    if not package:
        raise UsageError("local: names no model; give a file as local:PATH.gguf")
    module = package.replace("-", "_")
    spec = find_spec(module) if module.isidentifier() else None
    folders = spec.submodule_search_locations if spec else None
    found = sorted(file for folder in folders or () for file in Path(folder).glob("*.gguf"))
    if len(found) != 1:
        what = "carries no single model file" if spec else "is not installed"
        raise UsageError(f"local:{package}: the package {package} {what}; give a file as local:PATH.gguf")
    return found[0]


def _start(file: Path, log: IO[bytes]) -> tuple[subprocess.Popen[bytes], str]:
    """The server and its address, when it is ready. In a session of its own, so that Ctrl-C lets the last turns end."""
    words = [sys.executable, "-P", "-m", "intercode.models.llama", str(file), str(SLOTS), str(CONTEXT)]
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True
    )  # fmt: skip
    assert process.stdout
    address = process.stdout.readline().decode().strip()
    if not address:
        status, said = process.wait(), _tail(log)
        _end(process, log)
        raise ModelError(
            f"{file}: llama.cpp cannot serve it (status {status}): {said}\n"
            "is the file whole, of a model that llama.cpp knows, and is there memory for it?"
        )
    return process, address


def _end(process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    assert process.stdin
    assert process.stdout
    process.stdin.close()
    process.kill()
    process.wait()
    process.stdout.close()
    log.close()


def _tail(log: IO[bytes], most: int = 800) -> str:
    log.seek(max(0, log.seek(0, 2) - most))
    return log.read().decode(errors="replace").strip()
