"""What host and guest call the same in a container: below /dev, which `diff` and most tasks leave out."""

BUNDLE = "/dev/.intercode"
"""The interpreter that runs the guest, and a bash for images that have none."""
LINE = "/dev/.intercode-line"
"""Where the host listens for a keeper."""
