"""Bash: the environment (`env.py`), its reward (`compare.py` and what it reads answers with), lint
rules and attacks."""
