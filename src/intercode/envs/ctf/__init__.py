"""Capture the flag: the environment (`env.py`) and its challenges."""
