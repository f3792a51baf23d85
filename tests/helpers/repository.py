"""Repositories of data sets for tests: files, and a catalog with their hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

ENTRY = """
[[entry]]
name = "tiny"
env = "bash"
description = "d"
count = 1
licence = "MIT"
"""


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def write_table(path: Path, folder: Path) -> None:
    """A table of the files below a folder; every other one has a git blob id alone, and no size."""
    lines = ["# path, bytes, git blob id, SHA-256"]
    for number, file in enumerate(sorted(file for file in folder.rglob("*") if file.is_file())):
        content = file.read_bytes()
        size, sha256 = str(len(content)), hashlib.sha256(content).hexdigest()
        blob = hashlib.sha1(f"blob {size}\0".encode() + content).hexdigest()
        known = (size, blob, sha256) if number % 2 else ("", blob, "")
        lines.append("\t".join([str(file.relative_to(folder)), *known]))
    path.write_text("\n".join(lines) + "\n")


def write_catalog(path: Path, address: str, folder: Path, files: Mapping[str, str]) -> Path:
    """A catalog with the data set `tiny`, whose files lie in `folder`."""
    write_table(path.with_suffix(".tsv"), folder)
    repository = f'[repository]\naddress = "{address}"\ntable = "{path.stem}.tsv"\n'
    rows = "".join(f'"{name}" = "{source}"\n' for name, source in files.items())
    path.write_text(f"{repository}{ENTRY}[entry.files]\n{rows}")
    return path
