"""What the scripts of benchmarks/ share: how they measure, what they measure against, and how they say it.

clock.py   times that a busy machine disturbs little
peer.py    another system, in an interpreter of its own, that times itself
rows.py    figures with their bounds, the options of a script, its output and exit status
docker_peers.py    the docker backend against the first system and SWE-ReX
"""
