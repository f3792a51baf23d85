"""Other people's forms: exports, ATIF, Harbor's tasks, and InterCode v1."""
