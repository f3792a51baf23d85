"""What happens to an ordinary user, also when the tests run as root: a forked child gives its
rights up first."""

import os
import warnings
from collections.abc import Callable

NOBODY = 65_534


def error_of_an_ordinary_user(action: Callable[[], object]) -> str:
    """The class and message of what `action` raises; empty if it raises nothing. Nothing that it
    imports may be new."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # pytest's process may have threads
        pid = os.fork()
    if pid == 0:
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
            action()
        except BaseException as error:
            os.write(write, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read) as words:
        said = words.read()
    os.waitpid(pid, 0)
    return said
