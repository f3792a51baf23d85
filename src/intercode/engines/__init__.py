"""Database engines: private servers on which an agent's SQL runs. `make` chooses one; `base.py` has the contract."""

from __future__ import annotations

from intercode.engines.base import Answer, Caps, Engine
from intercode.engines.dump import Databases, databases

__all__ = ["Answer", "Caps", "Databases", "Engine", "databases"]
