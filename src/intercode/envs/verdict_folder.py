"""Read the files that the tests left in the verdict folder, within bounds, since an agent's program
that the tests start may have written there too.

Only regular files that can be a verdict are read, of the kinds that the reference left, with the
owner and mode that they had there. More of them than the bounds allow is not a verdict at all.
"""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from collections.abc import Mapping

from intercode.envs.verdict import (
    REWARD_FILES,
    CaseResult,
    MalformedVerdict,
    VerdictFolder,
    read_tests,
)
from intercode_sandbox.base import MIB, Sandbox

_FILES, _BYTES, _LISTED = 20, 16 * MIB, 1000
"""The most files that can be a verdict, and their bytes, that are believed (or twice as many as the
reference left), and the most files that are listed."""
_MOST_OF_REFERENCE = 256 * MIB
_PARSED_HERE = MIB
"""Results of more bytes are parsed in a process of their own, with limits."""
_CHILD_MEMORY, _CHILD_SECONDS, _PATIENCE = 2048 * MIB, 60, 600.0
_ENTRY = re.compile(r"([a-z ]+):(\d+):([0-7]+):(\d+):(.+)", re.DOTALL)
_LIST = r"""
cd -P -- "$1" 2>/dev/null && shopt -s nullglob || exit
files=() names=(*.xml *.json)
[[ -e reward.txt || -L reward.txt ]] && names+=(reward.txt)
for name in "${names[@]:0:$2}"; do [[ $name != *$'\n'* ]] && files+=("./$name"); done
printf '\nlisting %s %s\n' "${#names[@]}" "$EUID"
[[ ! -L $1 ]] && stat -c '%F:%u:%a:%s:%n' -- . "${files[@]}"
"""
"""Print the number of names that can be a verdict, the user, and the type, owner, mode, size and
name of the folder and of the first files. The shell may first say which job was killed."""


def read_folder(
    box: Sandbox, path: str, reference: VerdictFolder | None, *, kinds: frozenset[str] | None
) -> tuple[VerdictFolder, dict[str, bytes], str]:
    """Return the listing, the believed files by name, and why nothing is believed, or "".

    Without a `reference` all files are believed. `kinds` are those that may be read; None: all.
    """
    listed = box.exec("", argv=["bash", "-c", _LIST, "bash", path, str(_LISTED)], cwd="/")
    listing = listed.output.partition("\nlisting ")[2]
    first, *lines = (listing or "0 0\n").split("\n")
    count, user = first.split(" ")[:2]
    entries: dict[str, tuple[str, int]] = {}
    for line in lines:
        if not (entry := _ENTRY.fullmatch(line)):
            continue  # what the loader or the shell says
        kind, owner, mode, size, name = entry.groups()
        who = "own" if owner == user else owner
        entries[name.removeprefix("./")] = f"{kind.replace('empty ', '')} {who} {mode}", int(size)
    folder_mark = entries.pop(".", ("", 0))[0]
    marks = {".": {folder_mark}}
    for name, (mark, _) in entries.items():
        marks.setdefault(_kind(name), set()).add(mark)
    folder = VerdictFolder(
        int(count),
        sum(size for _, size in entries.values()),
        {kind: frozenset(seen) for kind, seen in marks.items()},
    )
    most_files, most_bytes = _LISTED, _MOST_OF_REFERENCE
    if reference is not None:
        most_files = max(_FILES, 2 * reference.count)
        most_bytes = max(_BYTES, 2 * reference.size)
        if folder_mark not in (reference.marks or {}).get(".", ()):
            return folder, {}, "the verdict folder has another type, owner or mode"
    if folder.count > most_files or folder.size > most_bytes:
        return folder, {}, f"the verdict folder holds {folder.count} files, {folder.size} bytes"
    names = [
        name
        for name, (mark, _) in entries.items()
        if mark.startswith("regular file ")
        and (kinds is None or _kind(name) in kinds)
        and _is_as_in(reference, _kind(name), mark)
    ]
    contents = box.read_many([f"{path}/{name}" for name in names], limit=most_bytes)
    pairs = zip(names, contents, strict=True)
    return folder, {name: content for name, content in pairs if content is not None}, ""


def _kind(name: str) -> str:
    return name if name in REWARD_FILES else name[name.rindex(".") :]


def _is_as_in(reference: VerdictFolder | None, kind: str, mark: str) -> bool:
    """Return whether a file has an owner and mode that its kind had in the reference, if any."""
    marks = (reference and reference.marks) or {}
    return kind not in marks or mark in marks[kind]


def parse_tests(files: Mapping[str, bytes]) -> list[CaseResult]:
    """Return the results in all CTRF and JUnit files, as `read_tests`; results of many bytes are
    parsed in a process with limits. Raises `MalformedVerdict`."""
    results = {name: content for name, content in files.items() if name not in REWARD_FILES}
    if sum(map(len, results.values())) <= _PARSED_HERE:
        return read_tests(results)
    texts = {name: content.decode("latin-1") for name, content in results.items()}
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__],
            input=json.dumps(texts).encode(),
            capture_output=True,
            timeout=_PATIENCE,
        )
    except subprocess.TimeoutExpired:
        done = None
    if done is None or done.returncode:
        names = ", ".join(sorted(results))
        raise MalformedVerdict(f"{names:.100} cannot be read within the limits")
    parsed = json.loads(done.stdout)
    if isinstance(parsed, str):
        raise MalformedVerdict(parsed)
    return [CaseResult(*fields) for fields in parsed]


def _main() -> None:
    """Parse the files on standard input, and print their results, or why they cannot be read."""
    resource.setrlimit(resource.RLIMIT_AS, (_CHILD_MEMORY, _CHILD_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_CHILD_SECONDS, _CHILD_SECONDS))
    texts = json.load(sys.stdin.buffer)
    try:
        tests = read_tests({name: text.encode("latin-1") for name, text in texts.items()})
    except MalformedVerdict as error:
        json.dump(str(error), sys.stdout)
    else:
        json.dump([[test.name, test.outcome, test.message] for test in tests], sys.stdout)


if __name__ == "__main__":
    _main()
