"""The sandbox library: isolated machines that know of no task and no reward (`base.py` has the
contract)."""
