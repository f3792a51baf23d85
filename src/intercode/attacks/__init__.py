"""Attacks on rewards and sandboxes, as data, and `run.py`, which tries them on an environment
(`intercode attack`).

    sandbox.py              attacks in Bash on the sandbox: limits, kernel, host, next episode,
                            session, the sandbox's own processes
    suite.py                all attacks for a language in one form (`envs/exploits.py`)
    envs/LANGUAGE/attacks   attacks in Bash, Python and SQL on the reward for that language

Not covered: kernel vulnerabilities, and attacks on the machine of the person who trains the agent.
"""
