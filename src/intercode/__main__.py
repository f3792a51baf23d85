"""`python -m intercode` is the command `intercode`."""

from intercode.cli import main

if __name__ == "__main__":
    main(prog_name="intercode")
