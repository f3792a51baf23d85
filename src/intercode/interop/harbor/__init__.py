"""Tasks in the form of Harbor and Terminal-Bench."""
