"""Play one episode (`episode.py`), and many in parallel (`run.py`)."""
