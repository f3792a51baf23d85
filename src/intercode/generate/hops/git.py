"""Write a bare git repository file by file, with the same bytes for the same commits."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Commit:
    """An empty commit, at a time in seconds since 1970."""

    author: str
    message: str
    time: int


def repository(commits: Sequence[Commit]) -> dict[str, bytes | str]:
    """Return the files of a repository with a linear history."""
    files: dict[str, bytes | str] = {
        "HEAD": "ref: refs/heads/main\n",
        "config": "[core]\n\trepositoryformatversion = 0\n\tbare = true\n",
    }

    def add(kind: str, content: bytes) -> str:
        data = f"{kind} {len(content)}\0".encode() + content
        digest = hashlib.sha1(data).hexdigest()
        files[f"objects/{digest[:2]}/{digest[2:]}"] = zlib.compress(data, 1)
        return digest

    tree, parent = add("tree", b""), ""
    for commit in commits:
        who = f"{commit.author} <git@example.org> {commit.time} +0000"
        text = f"tree {tree}\n{parent}author {who}\ncommitter {who}\n\n{commit.message}\n"
        digest = add("commit", text.encode())
        parent = f"parent {digest}\n"
    files["refs/heads/main"] = f"{digest}\n"
    return files
