"""For tests, ours and yours.

`check_env` tests your own environment against the contract of `intercode.env`, `check_sandbox` a
backend against that of `intercode_sandbox.base`, clause by clause. `ScriptedModel` answers an agent
with the replies that a test gives it.
"""

from intercode.models import ScriptedModel
from intercode.testing.contract import check_env
from intercode_sandbox.contract import check_sandbox

__all__ = ["ScriptedModel", "check_env", "check_sandbox"]
