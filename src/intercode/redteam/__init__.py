"""Attacks on rewards and sandboxes, as data, and `run.py`, which tries them on an environment
(`intercode attack`).

    exploits.py                 one form for all attacks
    suite.py                    all attacks for a language in that form, those on the sandbox
                                (`intercode_sandbox/attacks.py`) among them
    bash.py python.py sql.py    attacks on the reward for a language; mariadb.py, sqlite.py: on one
                                engine
    hacks.py                    hacks of tests, which `check` plays as well

Not covered: kernel vulnerabilities, and attacks on the machine of the person who trains the agent.
"""
