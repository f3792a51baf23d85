"""What host and guest call the same in a container: below /dev, which `diff` and most tasks leave out."""

BUNDLE = "/dev/.intercode"
"""The interpreter that runs the guest, and a bash for images that have none."""
LINE = "/dev/.intercode-line"
"""Where the host listens for a keeper."""


def lent_bash(bundle: str) -> tuple[str, ...]:
    """How the bundle's bash is started, wherever the bundle is."""
    return (f"{bundle}/loader", "--library-path", f"{bundle}/lib", "--argv0", "bash", f"{bundle}/shell")
