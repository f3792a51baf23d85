"""Models: `make_model` returns the model for a name on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from intercode.errors import UsageError
from intercode.models.base import Model
from intercode.models.openai_chat import OpenAIModel
from intercode.models.scripted import ScriptedModel, read_script

__all__ = ["Model", "OpenAIModel", "ScriptedModel", "make_model"]


def make_model(name: str, **options: Any) -> Model:
    """Return a scripted model for `scripted:PATH`, or else the model `name` of a server of the OpenAI chat protocol.

    `options` are those of `OpenAIModel`; a scripted model ignores them. Raises `UsageError` and `DataError` for wrong names.
    """
    kind, _, path = name.partition(":")
    if kind == "scripted":
        return read_script(Path(path))
    if kind == "local":
        raise UsageError(
            "local: starts no server; serve the file with Ollama, vLLM or llama-server, and give its address with --base-url"
        )
    return OpenAIModel(name, **options)
