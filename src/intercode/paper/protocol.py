"""The protocol of the paper: every action is scored, in a new shell each."""

from __future__ import annotations

from intercode.protocol import Protocol

PAPER = Protocol("paper", reward="paper", session="stateless", scores_steps=True, as_v1=True)
