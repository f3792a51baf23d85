"""The paper's protocol: every action runs in a new shell and is scored."""

from __future__ import annotations

from intercode.protocol import Protocol

PAPER = Protocol("paper", reward="paper", session="stateless", scores_steps=True, as_v1=True)
