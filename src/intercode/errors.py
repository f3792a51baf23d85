"""The errors. The class says whose fault it was; the message says what to do next.

    IntercodeError
    ├── UsageError          the caller: a wrong option, a closed environment, a fork of a live
    │                       process
    ├── DataError           the task's data: a malformed record, a gold that cannot run, a download
    │                       that fails its hash
    ├── SandboxError        the machine: a sandbox cannot be built, or broke without the agent's
    │   │                   doing
    │   ├── SandboxUnavailable   no sandbox can start here; the message gives the command that helps
    │   ├── SandboxDied          it died while in use; the environment executes the episode again to
    │   │                        decide who did it
    │   └── ForkError            a live copy is impossible; names the jobs and descriptors that
    │                            prevent it
    ├── ModelError          the model's server: unreachable, overloaded, answering nonsense
    │   └── ContextOverflow      the conversation does not fit into the model's context
    ├── StoreError          the run folder: in use, not empty, not writable
    └── InternalError       intercode itself: an unexpected exception, whose traceback is in the log

None of these is ever turned into a reward. The command line maps UsageError to exit status 2 and
the rest to 3.
"""

from __future__ import annotations

from intercode_sandbox.errors import DISK_FULL as DISK_FULL
from intercode_sandbox.errors import NO_BUILD as NO_BUILD
from intercode_sandbox.errors import DataError as DataError
from intercode_sandbox.errors import ForkError as ForkError
from intercode_sandbox.errors import IntercodeError as IntercodeError
from intercode_sandbox.errors import SandboxDied as SandboxDied
from intercode_sandbox.errors import SandboxError as SandboxError
from intercode_sandbox.errors import SandboxUnavailable as SandboxUnavailable
from intercode_sandbox.errors import UsageError as UsageError
from intercode_sandbox.errors import did_you_mean as did_you_mean
from intercode_sandbox.errors import did_you_mean_file as did_you_mean_file
from intercode_sandbox.errors import inside as inside
from intercode_sandbox.errors import is_inside as is_inside
from intercode_sandbox.errors import room_left as room_left


class ModelError(IntercodeError):
    fault = "model"


class ContextOverflow(ModelError):
    pass


class StoreError(IntercodeError):
    fault = "store"


class InternalError(IntercodeError):
    pass


class EntryLeftOut(UserWarning):
    """Warns that an entry of a folder or a file cannot be read and is left out."""
