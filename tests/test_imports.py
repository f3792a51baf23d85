"""No module of the package warns or prints when it is imported, and the help imports little."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import intercode

ROOT = Path(intercode.__file__).parent
APART = {"starter", "adapters"}  # tasks' own modules, and what imports a framework
FILES = [
    path.relative_to(ROOT.parent).with_suffix("")
    for path in (*ROOT.rglob("*.py"), *ROOT.with_name("intercode_sandbox").rglob("*.py"))
    if not APART & set(path.parts)
]
MODULES = sorted(".".join(path.parts) for path in FILES if path.name != "__init__")


def test_no_module_warns_when_it_is_imported() -> None:
    importing = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    command = [sys.executable, "-W", "error", "-c", importing, *MODULES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert {"intercode.envs.bash.env", "intercode_sandbox.local"} < set(MODULES)


def imported(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=True
    )
    return {
        line.rpartition("|")[2].strip()
        for line in done.stderr.splitlines()
        if line.startswith("import time:")
    }


def test_help_imports_hardly_more_than_click_does() -> None:
    """It costs at most 1.5 of `import click, rich`, by benchmarks/startup.py: one module too many
    is a tenth of that."""
    helped = imported("from intercode.cli import main; main(['--help'], standalone_mode=False)")
    assert "intercode.cli.lazy" in helped
    more = {name.partition(".")[0] for name in helped - imported("import click, rich")}
    assert more - {"intercode", "intercode_sandbox"} <= {
        "click",
        "textwrap",
        "importlib",
        "locale",
        "_locale",
        "dataclasses",
        "copy",
        "org",
    }
