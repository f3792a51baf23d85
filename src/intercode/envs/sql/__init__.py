"""SQL: the environment (`env.py`), its database engines, its reward (`compare.py`), variant data,
lint rules and attacks."""
