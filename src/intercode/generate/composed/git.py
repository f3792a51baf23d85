"""Write a bare git repository file by file, with the same bytes for the same commits."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Commit:
    """`files` are all files of the commit, in one folder."""

    author: str
    message: str
    files: Mapping[str, str]


def repository(commits: Sequence[Commit], tags: Mapping[str, int] = {}) -> dict[str, bytes | str]:
    """Return the files of a repository with a linear history, one commit an hour; `tags` are the
    places of tagged commits."""
    files: dict[str, bytes | str] = {
        "HEAD": "ref: refs/heads/main\n",
        "config": "[core]\n\trepositoryformatversion = 0\n\tbare = true\n",
    }

    def add(kind: str, content: bytes) -> str:
        data = f"{kind} {len(content)}\0".encode() + content
        digest = hashlib.sha1(data).hexdigest()
        files[f"objects/{digest[:2]}/{digest[2:]}"] = zlib.compress(data, 1)
        return digest

    digests = list[str]()
    for place, commit in enumerate(commits):
        entries = b""
        for name, text in sorted(commit.files.items()):
            blob = bytes.fromhex(add("blob", text.encode()))
            entries += f"100644 {name}\0".encode() + blob
        who = f"{commit.author} <{commit.author}@example.org> {1767225600 + 3600 * place} +0000"
        parent = ""
        if digests:
            parent = f"parent {digests[-1]}\n"
        tree = add("tree", entries)
        text = f"tree {tree}\n{parent}author {who}\ncommitter {who}\n\n{commit.message}\n"
        digests.append(add("commit", text.encode()))
    files["refs/heads/main"] = f"{digests[-1]}\n"
    for name, place in tags.items():
        files[f"refs/tags/{name}"] = f"{digests[place]}\n"
    return files
