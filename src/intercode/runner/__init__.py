"""Playing episodes: one (`episode.py`), and many in parallel (`run.py`)."""
