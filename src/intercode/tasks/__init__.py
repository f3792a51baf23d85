"""Task files, data sets, and the catalog of public data sets. Start at `open_data`."""

from __future__ import annotations

from intercode.tasks.catalog import Entry, get, list_entries
from intercode.tasks.dataset import DataSet, in_split, open_data
from intercode.tasks.formats import HUB
from intercode.tasks.loader import Layout, Preprocess, Record, load_tasks

__all__ = [
    "HUB",
    "DataSet",
    "Entry",
    "Layout",
    "Preprocess",
    "Record",
    "get",
    "in_split",
    "list_entries",
    "load_tasks",
    "open_data",
]
