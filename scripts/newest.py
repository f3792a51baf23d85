#!/usr/bin/env python3
"""Install the newest releases of the programs and frameworks that tests are pinned to, run the same
tests with them, and print what differs. A difference is news, not a failure: the exit status is 0.

    .venv-integrations/frameworks/bin/python scripts/newest.py [PYTHON]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

PROJECT = Path(__file__).parents[1]
NEWEST = PROJECT / ".venv-integrations" / "newest"
INTEGRATIONS = "tests/integrations"
AGENTS = f"{INTEGRATIONS}/test_command_line_agents.py"
PROGRAMS = {
    "mini-swe-agent": ("mini", ["tests/world/test_foreign_programs.py", "-k", "kind and mini"]),
    "@openai/codex": ("codex", ["tests/world/test_foreign_programs.py", "-k", "kind and codex"]),
    "@anthropic-ai/claude-code": ("claude", [AGENTS, "-k", "solve and claude"]),
    "@qwen-code/qwen-code": ("qwen", [AGENTS, "-k", "solve and qwen"]),
}
FRAMEWORKS = {
    "inspect_ai": ("frameworks", [f"{INTEGRATIONS}/test_inspect.py"]),
    "openenv": ("frameworks", [f"{INTEGRATIONS}/test_openenv.py"]),
    "trl": ("frameworks", [f"{INTEGRATIONS}/test_trl.py"]),
    "nemo-gym": ("frameworks", [f"{INTEGRATIONS}/test_sandbox_adapters.py"]),
    "verifiers": ("verifiers", [f"{INTEGRATIONS}/test_verifiers.py"]),
}


def install(script: str, *arguments: str) -> None:
    subprocess.run([PROJECT / "scripts" / script, "--newest", *arguments], check=False)


def pinned(package: str) -> str:
    lines = [
        line.replace("==", "@")
        for name in ("versions.txt", "npm-versions.txt")
        for line in (PROJECT / INTEGRATIONS / name).read_text().split()
    ]
    return next(line for line in lines if line.startswith(f"{package}@")).rpartition("@")[2]


def installed(package: str, folder: Path) -> str | None:
    """Return the release of a package of npm or pip in a folder."""
    manifest = folder / "node_modules" / package / "package.json"
    if manifest.is_file():
        return str(json.loads(manifest.read_text())["version"])
    libraries = [str(path) for path in folder.glob("lib/python3*/site-packages")]
    found = distributions(name=package, path=libraries)
    return next((distribution.version for distribution in found), None)


def verdict(python: str, arguments: list[str]) -> str:
    command = [python, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    environment = os.environ | {"INTERCODE_PROGRAMS": str(NEWEST / "programs")}
    tests = subprocess.run(
        command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False
    )
    *lines, closing = tests.stdout.strip().splitlines() or ["no tests"]
    if tests.returncode == 0 and "skipped" not in closing:
        return "same"
    failed = [line.rpartition("::")[2] for line in lines if line.startswith(("FAILED", "ERROR"))]
    return "; ".join(["differs: " + closing, *failed[:1]])


def main() -> None:
    python = sys.argv[1] if len(sys.argv) > 1 else "python3"
    for name, _ in PROGRAMS.values():
        install("programs", python, str(NEWEST / "programs"), name)
    install("integrations", python)
    print(f"{'program':27}{'pinned':11}{'newest':11}verdict")
    for package, (name, arguments) in (PROGRAMS | FRAMEWORKS).items():
        framework = package in FRAMEWORKS
        folder = NEWEST / name if framework else NEWEST / "programs" / name
        release = installed(package, folder)
        runner = str(folder / "bin/python") if framework else sys.executable
        news = verdict(runner, arguments) if release else "differs: cannot be installed"
        print(f"{package:27}{pinned(package):11}{release or '-':11}{news}", flush=True)


if __name__ == "__main__":
    main()
