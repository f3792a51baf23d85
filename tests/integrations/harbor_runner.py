"""Harbor's own runner, in the environment that `make integrations` makes for it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROGRAMS = HERE.parents[1] / ".venv-integrations" / "harbor" / "bin"
needs_harbor = pytest.mark.skipif(
    not (PROGRAMS / "harbor").exists(),
    reason="Harbor needs Python 3.12 or newer, and make integrations found none",
)


def run_harbor(tasks: Path, agent: str, out: Path) -> dict[str, float | None]:
    """The rewards by the names of the tasks' folders; None without a verdict."""
    settings = {
        **os.environ,
        "PYTHONPATH": str(HERE),
        "PATH": f"{HERE / 'programs'}:{os.environ['PATH']}",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    command = [PROGRAMS / "harbor", "run", "--path", tasks, "--agent", agent]
    command += ["--env", "plain_docker:PlainDocker", "--n-concurrent", "2", "--quiet", "--yes"]
    command += ["--jobs-dir", out, "--job-name", agent]
    subprocess.run(command, env=settings, check=True, stdout=subprocess.DEVNULL, timeout=1500)
    rewards = {}
    for file in (out / agent).glob("*/result.json"):
        result = json.loads(file.read_text())
        verdict = result["verifier_result"]
        name = Path(result["task_id"]["path"]).name
        rewards[name] = verdict["rewards"]["reward"] if verdict else None
    return rewards
