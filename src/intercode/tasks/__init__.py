"""The task room: task files, data sets and where to get them. `open_data` is the way in."""

from __future__ import annotations

from intercode.tasks.catalog import Entry, get, list_entries
from intercode.tasks.dataset import DataSet, open_data
from intercode.tasks.loader import Preprocess, Record, load_tasks

__all__ = ["DataSet", "Entry", "Preprocess", "Record", "get", "list_entries", "load_tasks", "open_data"]
