"""What is tried in a container without privileges, which is the outer wall: the chroot sandbox and who attacks it.

    test_chroot.py ── docker run (no privilege, memory and pids limited) ──► this file, as a program ──► one JSON object

`walls` shows that no other wall could stand there, `contract` what is broken, `breaches` the attacks that got what they wanted,
`survivors` the processes of the sandboxes' users that outlived them, and `doctor` what is said of the backends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from intercode.attacks.outside import planted
from intercode.attacks.walls import EXHAUSTION, GUEST, KERNEL, LEFT, LIMITS, OUTSIDE, Attack
from intercode.doctor import examine
from intercode.errors import SandboxDied
from intercode.sandbox.base import Session
from intercode.sandbox.chroot import EXCUSED
from intercode.sandbox.chroot.sandbox import ChrootSandbox
from intercode.sandbox.chroot.tree import Tree, make_tree
from intercode.sandbox.contract import check_sandbox

_WALLS = {
    "user namespaces": "unshare --user true",
    "mounting": "mount -t tmpfs none /mnt",
    "mount namespaces": "unshare -m true",
}

_OF_THE_GUEST = {"killing all", "signals to all", "a classic fork bomb", "forged completions", "a file where the folder was"}
_REFUSED = {"a bomb of shared memory segments", "a bomb of semaphores", "a bomb of message queues"}
"""They say that they went well once they are over; the calls are refused, as "a System V segment" shows."""


def walls() -> dict[str, bool]:
    return {name: subprocess.run(line.split(), capture_output=True).returncode == 0 for name, line in _WALLS.items()}


def contract(tree: Tree, session: Session) -> str:
    try:
        check_sandbox(lambda: ChrootSandbox(tree, session=session), excused=EXCUSED)
    except AssertionError as broken:
        return str(broken)
    return ""


def breaches(tree: Tree) -> dict[str, str]:
    found: dict[str, str] = {}
    guest = [attack for attack in GUEST if attack.name in _OF_THE_GUEST]
    for attack in [*KERNEL, *LEFT, *OUTSIDE, *guest, *[each for each in EXHAUSTION if each.name not in _REFUSED]]:
        with ChrootSandbox(tree, limits=LIMITS) as sandbox, planted() as there:
            said = _attack(sandbox, attack, there.fill(attack.action)) + ("BREACH" if there.killed() else "")
        if "BREACH" in said:
            found[attack.name] = said[-300:]
    return found


def _attack(sandbox: ChrootSandbox, attack: Attack, action: str) -> str:
    try:
        said = sandbox.exec(action, timeout=2).output
        sandbox.exec("true")  # an interrupt that came late may cost the next action
        alive = sandbox.exec("echo alive").output  # what the attack left running may print before it
        sandbox.reset()
        left = sandbox.exec(attack.after, timeout=2).output
        return said + left + ("" if "alive" in alive else f"BREACH: the next action printed {alive!r}")
    except SandboxDied as died:
        return f"BREACH: {died}"


def survivors() -> list[str]:
    status = [path.read_text() for path in Path("/proc").glob("[0-9]*/status")]
    return [text for text in status if "Uid:\t610" in text]


if __name__ == "__main__":
    start = make_tree()
    found = {
        "walls": walls(),
        "contract": contract(start, "persistent"),
        "breaches": breaches(start),
        "survivors": survivors(),
        "doctor": next([each.ok, each.detail] for each in examine() if each.what == "backends"),
    }
    print(json.dumps(found), flush=True)
    sys.exit(os.EX_OK)
