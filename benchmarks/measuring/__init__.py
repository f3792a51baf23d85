"""What the scripts of benchmarks/ share: how they measure, what they measure against, and how they
say it.

clock.py   times that a busy machine disturbs little
peer.py    another system, in an interpreter of its own, that times itself
rows.py    figures with their bounds, the options of a script, its output and exit status
systems.py  the systems that stand side by side, ours among them
memory.py   what processes hold
"""
