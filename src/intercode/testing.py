"""For tests, ours and yours.

`check_sandbox` holds a backend of your own to the contract of `intercode.sandbox.base`, clause by clause.
"""

from intercode.sandbox.contract import check_sandbox

__all__ = ["check_sandbox"]
