"""Python: the environment (`env.py`), its tests and their grading, lint rules and attacks."""
