"""The tests inside the tasks are for sandboxes."""

collect_ignore = ["tasks"]
