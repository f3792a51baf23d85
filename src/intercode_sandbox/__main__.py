"""`python -m intercode_sandbox` is the command `intercode-sandbox`."""

import sys

from intercode_sandbox.cli import main

if __name__ == "__main__":
    sys.exit(main())
