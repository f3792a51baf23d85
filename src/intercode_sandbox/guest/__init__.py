"""The program that runs inside the sandbox. Standard library only, Python ≥ 3.9; it imports nothing
else from intercode.

    host ══ control ══► supervisor (pid 1 of the sandbox)    supervisor.py    starts and ends
      ║                    │ clone, one for each episode                      episode servers
      ╚═ episode socket ═ episode server                     episode.py       answers exec, read,
                              │                                               write, diff, snapshot
                              │                              shell.py         how an action starts
                              └── bash ── what the agent starts               and ends

If the session is a Python interpreter:

    python_episode.py       an episode server with such a session
    python_interpreter.py   how a process becomes one; the loop: actions, echo, tracebacks
    python_branch.py        a forked copy that serves one test, and the grader's side of the test
    wire_values.py          values between these two: a closed set of types

`namespaces.py` takes a new episode server into its episode's namespaces, `mounts.py` builds the
episode's file system, and `spawn.py` starts the agent's pid 1 without a copy of the interpreter.
`layers.py` reads and copies overlay layers, `processes.py` lists, stops and ends the agent's
processes. `kernel.py` holds the system calls that Python lacks, `wire.py` the framing and
`limit.py` the clock (the host uses both too).

Where no namespaces can be made, `pod.py` takes the place of `namespaces.py`, and `own_files.py`
that of `mounts.py`.
"""
