"""`python -m intercode` is the command `intercode`."""

import sys


def main() -> None:
    """Import the command and run it; Ctrl-C may come during the import."""
    try:
        from intercode.cli import main as run
    except KeyboardInterrupt:
        sys.stderr.write("intercode: interrupted\n")
        sys.exit(130)
    run(prog_name="intercode")


if __name__ == "__main__":
    main()
