"""What a live sandbox weighs: the PSS of all its processes.

    python benchmarks/memory.py [--count 300] [--json]

Each sandbox has a wall of its own and has run one command. Against it stands an idle `bash` of the same machine. Target:
at most 10 MiB a sandbox with 300 alive. Shared pages are counted by share (PSS), so the figure falls as their number grows.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from intercode.sandbox.local import LocalSandbox
from intercode.sandbox.template import Template, base

_MIB = 1 << 20


def weigh(count: int, template: Template | None = None) -> float:
    """MiB of PSS per sandbox with `count` alive."""
    with ExitStack() as alive:
        for _ in range(count):
            sandbox = alive.enter_context(LocalSandbox(template or base(None)))
            sandbox.exec("ls / > /tmp/listing; x=1")
        return sum(pss(pid) for pid in family(os.getpid()) - {os.getpid()}) / count / _MIB


def idle_bash() -> float:
    """MiB of PSS of a shell that waits."""
    done = subprocess.run(["bash"], input="cat /proc/$$/smaps_rollup", capture_output=True, text=True, check=True)
    return _pss(done.stdout) / _MIB


def family(pid: int) -> set[int]:
    """A process and all its descendants."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(name))
    found, ahead = {pid}, [pid]
    while ahead:
        below = children.get(ahead.pop(), [])
        found.update(below)
        ahead.extend(below)
    return found


def pss(pid: int) -> int:
    """Bytes; 0 for a process that is gone."""
    try:
        return _pss(Path(f"/proc/{pid}/smaps_rollup").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _pss(text: str) -> int:
    found = re.search(r"^Pss: +(\d+) kB", text, re.MULTILINE)
    return int(found[1]) << 10 if found else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--json", action="store_true", help="print the row as JSON")
    options = parser.parse_args()
    ours, bash = weigh(options.count), idle_bash()
    row: dict[str, Any] = {
        "what": f"PSS of one of {options.count} sandboxes, MiB",
        "ours": ours,
        "against": bash,
        "ratio": ours / bash,
    }
    print(
        json.dumps([row], indent=1)
        if options.json
        else f"{row['what']}: {ours:.2f} (target: at most 10); an idle bash: {bash:.2f}"
    )


if __name__ == "__main__":
    main()
