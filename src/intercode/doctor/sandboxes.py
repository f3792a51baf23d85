"""The real thing: a sandbox, timed, and which of the backends can be used here."""

from __future__ import annotations

import time
from collections.abc import Iterator

from intercode.doctor.finding import Finding
from intercode.errors import IntercodeError
from intercode.sandbox import template
from intercode.sandbox.build import with_script
from intercode.sandbox.local import LocalSandbox

_BACKENDS = {"local": "sandbox", "docker": "docker"}


def findings() -> Iterator[Finding]:
    try:
        made = with_script(template.base(None), "rmdir /media", name="doctor")
        assert isinstance(made, template.Template)
        start = time.perf_counter()
        with LocalSandbox(made) as sandbox:
            started = time.perf_counter() - start
            said = sandbox.exec("echo works > /file; cat /file; ls -d /media 2>/dev/null").output
            start = time.perf_counter()
            sandbox.reset()
            left = sandbox.exec("ls /file 2>/dev/null").output
            reset = time.perf_counter() - start
        if (said, left) == ("works\n", ""):
            detail = f"started in {started * 1e3:.0f} ms, reset with a first command in {reset * 1e3:.0f} ms"
            yield Finding("sandbox", True, detail, "")
        else:
            yield Finding("sandbox", False, f"printed {said!r}, and after a reset {left!r}", "report it")
    except (IntercodeError, OSError) as error:
        yield Finding("sandbox", False, str(error), "mend what is found above")


def backends(found: list[Finding]) -> Finding:
    """Which of them can be used, by what else was found."""
    well = {finding.what for finding in found if finding.ok}
    names = [name for name, what in _BACKENDS.items() if what in well]
    if names:
        return Finding("backends", True, f"--sandbox {' or '.join(names)} works here", "")
    return Finding("backends", False, "no sandbox works here", "mend what is found above")
