"""SQL: the environment (`env.py`), database engines, the reward (`compare.py`), variant data, lint
rules and attacks."""
