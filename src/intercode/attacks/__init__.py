"""Attacks on rewards and sandboxes, as data, and `run.py`, which tries them on an environment
(`intercode attack`).

    sandbox.py              Bash against the sandbox: limits, kernel, host, next episode, session,
                            the sandbox's own processes
    suite.py                all attacks for a language in one form (`envs/exploits.py`)
    envs/LANGUAGE/attacks   Bash, Python and SQL against the reward of that language

Not covered: holes in the kernel, and attacks on the machine of the person who trains the agent.
"""
