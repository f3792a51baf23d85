"""InterCode's starter tasks for verifiers: the taskset and the harness of `intercode_verifiers`,
under the name of this package."""

from intercode_verifiers import CodeHarness, CodeTaskset

__all__ = ["CodeHarness", "CodeTaskset"]
