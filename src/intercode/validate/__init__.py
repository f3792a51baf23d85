"""`intercode check`: execute golds, compare, and read the texts of tasks for contradictions."""
