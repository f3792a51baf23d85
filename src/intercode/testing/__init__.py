"""For tests, ours and yours.

`check_env` holds an environment of your own to the contract of `intercode.env`, `check_sandbox` a
backend to that of `intercode.sandbox.base`, clause by clause. `ScriptedModel` answers an agent with
the replies that a test gives it.
"""

from intercode.models import ScriptedModel
from intercode.sandbox.contract import check_sandbox
from intercode.testing.contract import check_env

__all__ = ["ScriptedModel", "check_env", "check_sandbox"]
