"""The sandbox library: isolated machines that know nothing about tasks or rewards (`base.py`
defines the contract)."""
