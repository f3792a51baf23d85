"""Reward hacks and escapes, by mechanism, as data; and `trial.py`, which tries them on an environment (`intercode attack`).

    walls.py          Bash against the sandbox: more than the share, the kernel, what is outside, what is left, shell, guest
    tricks.py         Bash against the reward: claims, comparisons, hedges, shadowed commands, hidden changes, leaks
    python.py sql.py  code and statements against tests and databases, on small data of their own (`orchard.py`)
    suite.py          all of them in one form, `Exploit`, for an environment's language

Left out: what a hole in the kernel would allow, and attacks on the machine of whoever trains the agent.
"""
