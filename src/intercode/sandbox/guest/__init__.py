"""The program that runs inside the wall. Standard library only, Python ≥ 3.9; it imports nothing else of intercode.

    host ══ control ══► keeper (pid 1 of the wall)         keeper.py   makes cells, ends cells
      ║                    │ clone, one per episode
      ╚═══ cell socket ═══ cell (one for each episode)     cell.py     answers exec, read, write, diff, snapshot
                              │                            shell.py    how an action runs and ends
                              └── bash ── what the agent starts

Where the session is a Python interpreter:

    pycell.py       a cell whose session it is             start.py      how a process becomes one
    interpreter.py  the loop: actions, echo, tracebacks    branch.py     a forked copy that serves one test
    referee.py      the grader's side of a test            plain.py      values between these two: a closed set of types

In a container:

    container.py    the keeper's way into one

`birth.py` is the beginning of a cell and `entry.py` its way into its episode, `spawn.py` starts the agent's pid 1 without a
copy of the interpreter, `rooms.py` builds the episode's file system, `layers.py` reads and copies overlay layers, `files.py`
reads and writes the agent's files, `door.py` connects the host to a program inside, `kernel.py` holds the system calls Python
lacks, `processes.py` looks at, stops and ends the agent's processes, `wire.py` is the framing and `limit.py` the clock (the
host uses both too).
"""
