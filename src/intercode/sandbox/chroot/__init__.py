"""The chroot backend, for places where neither wall can stand: root in a container that may make no namespaces.

    tree.py      what a sandbox starts from: a template's layers made one tree
    berth.py     a user and a folder that a sandbox has for itself while it lives
    sandbox.py   the contract: the guest over a socket, in a copy of the tree

It is weak: what it holds and what not is told in docs/security.md. It is never chosen by itself.
"""

EXCUSED = {
    "resets_all": "looks for processes in /proc, which is not there",
    "refuses_to_fork_processes": "waits for a process by /proc, which is not there",
    "keeps_descriptors": "<(…) needs /dev/fd, which is in /proc",
}
"""Clauses of the contract that it cannot hold, and why; `check_sandbox` takes them, and complains if one holds."""
