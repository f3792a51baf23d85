"""The model room: `make_model` turns a name from the command line into a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from intercode.errors import UsageError
from intercode.models.base import Model
from intercode.models.openai_chat import OpenAIModel
from intercode.models.scripted import ScriptedModel, read_script

__all__ = ["Model", "OpenAIModel", "ScriptedModel", "make_model"]


def make_model(name: str, **options: Any) -> Model:
    """`scripted:PATH` is a scripted model; other names are at an OpenAI-compatible server.

    `options` are those of `OpenAIModel`. A scripted model has nothing to set and ignores them.
    """
    kind, _, path = name.partition(":")
    if kind == "scripted":
        return read_script(Path(path))
    if kind == "local":
        raise UsageError(
            "local: starts no server; serve the file with Ollama, vLLM or llama-server, and give its address with --base-url"
        )
    return OpenAIModel(name, **options)
