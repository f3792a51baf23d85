"""No module of the package warns or prints when it is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import intercode

ROOT = Path(intercode.__file__).parent
FILES = [path.relative_to(ROOT.parent).with_suffix("") for path in ROOT.rglob("*.py") if "starter" not in path.parts]
MODULES = sorted(".".join(path.parts) for path in FILES if path.name != "__init__")


def test_no_module_warns_when_it_is_imported() -> None:
    importing = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    command = [sys.executable, "-W", "error", "-c", importing, *MODULES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert {"intercode.envs.bash", "intercode.sandbox.local"} < set(MODULES)
