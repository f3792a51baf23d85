"""Sign the settings of a run with a key of the user, so that later commands know which runs the
user has vouched for.

    settings ── canonical JSON, HMAC-SHA256 ──► `signature` in run.json
    key          $INTERCODE_TRUST_KEY, or the file intercode/trust.key in the user's configuration
                 folder (mode 0600)

A signature says that this user made the run here, or trusted it by `--trust`. It covers the
settings only, not the episodes. Where the key cannot be used, runs are written without a signature.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

VARIABLE = "INTERCODE_TRUST_KEY"
_SHORTEST = 32
"""Characters of a key file that was written whole."""
_NOT_COVERED = {"signature", "run", "verdicts"}
"""`run` is the folder's path, which changes when the folder is moved; reports add `verdicts`."""


class KeyFault(Exception):
    """The key cannot be used; the message says why, and what to do."""


def config_folder() -> Path:
    """Return the folder of the user's key and table of prices."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "intercode"


def with_signature(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with the user's signature, or without any if the key cannot be used."""
    unsigned = without_signature(settings)
    try:
        return {**unsigned, "signature": _signature(unsigned, _key(make=True))}
    except KeyFault:
        return unsigned


def without_signature(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name != "signature"}


def is_signed(settings: Mapping[str, Any]) -> bool:
    """Return whether the settings, as they were read, have the signature of this user."""
    signature = settings.get("signature")
    if not isinstance(signature, str):
        return False
    try:
        expected = _signature(settings, _key(make=False))
    except (KeyFault, RecursionError):  # the latter for values nested too deeply
        return False
    return hmac.compare_digest(signature.encode(errors="replace"), expected.encode())


def key_fault() -> str | None:
    """Return why runs cannot be signed, and what to do; None if they can."""
    try:
        _key(make=True)
    except KeyFault as fault:
        return str(fault)
    return None


def _signature(settings: Mapping[str, Any], key: bytes) -> str:
    covered = {name: value for name, value in settings.items() if name not in _NOT_COVERED}
    text = json.dumps(covered, sort_keys=True, separators=(",", ":"))
    return hmac.digest(key, text.encode(), "sha256").hex()


def _key(*, make: bool) -> bytes:
    """Return the user's key. Raises `KeyFault` if there is none that can be used."""
    if secret := os.environ.get(VARIABLE):
        return secret.encode(errors="surrogateescape")
    try:
        path = config_folder() / "trust.key"
        if make and not path.exists():
            _write_new_key(path)
        with path.open("rb") as file:
            mode, key = os.fstat(file.fileno()).st_mode, file.read(1 << 10)
    # `Path.home` raises RuntimeError where the user has no home
    except (OSError, RuntimeError) as error:
        raise KeyFault(
            f"the key to sign runs cannot be used ({error}); set {VARIABLE} to a secret text"
        ) from error
    if mode & 0o077:
        raise KeyFault(
            f"other users may read or write the key {path}; "
            "delete it, so that a new one is made with mode 0600"
        )
    if len(key) < _SHORTEST:
        raise KeyFault(f"the key {path} is damaged; delete it, so that a new one is made")
    return key


def _write_new_key(path: Path) -> None:
    """Write a new key, whole or not at all; another process may be the first."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix="trust.key.")  # with mode 0600
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(secrets.token_hex(32))
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        os.unlink(draft)
