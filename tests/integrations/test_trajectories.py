"""Trajectories of real episodes, checked by Harbor's own model and read by Inspect Scout."""

from __future__ import annotations

import asyncio
import json
from importlib.util import find_spec
from pathlib import Path

import pytest

import intercode
from intercode.interop.export import export_run

pytestmark = [
    pytest.mark.integrations,
    pytest.mark.skipif(
        not (find_spec("harbor") and find_spec("inspect_scout")),
        reason="harbor or inspect_scout is not installed: make integrations",
    ),
    pytest.mark.filterwarnings("default"),
]
TOOLS = [
    {
        "text": "Both.",
        "reasoning": "Two at once.",
        "calls": [
            {"name": "execute", "arguments": {"code": "1"}},
            {"name": "execute", "arguments": "{"},
        ],
    },
    {"calls": [{"name": "submit", "arguments": {}}]},
]
TEXT = ["I look.\n```\nls\n```", "No code: these are only words.", "```\nsubmit\n```"]


def test_harbor_and_scout_take_two_hundred_real_episodes_of_all_environments(
    tmp_path: Path,
) -> None:
    from harbor.models.trajectories import Trajectory
    from inspect_scout import Transcript
    from inspect_scout.sources._atif import atif

    scripts = {"tools": TOOLS, "try_again": TEXT, "tree_search": TEXT}
    for agent, replies in scripts.items():
        (tmp_path / f"{agent}.json").write_text(json.dumps(replies))
    written = 0
    for env in ("bash", "sql", "python", "ctf"):
        for agent in ("gold", *scripts):
            model = {} if agent == "gold" else {"model": f"scripted:{tmp_path / agent}.json"}
            limit = None if agent == "gold" else 3
            run = intercode.evaluate(
                env, agent=agent, limit=limit, turns=5, out=tmp_path / f"{env}-{agent}", **model
            )
            written += export_run(run.path, "atif", output=tmp_path / "atif" / run.path.name)[0]
    assert written >= 200
    files = sorted((tmp_path / "atif").rglob("trajectory.json"))
    for file in files:
        Trajectory.model_validate_json(file.read_bytes())

    async def read() -> list[Transcript]:
        return [transcript async for transcript in atif(tmp_path / "atif")]

    transcripts = asyncio.run(read())
    assert len({transcript.transcript_id for transcript in transcripts}) == written == len(files)
    assert {transcript.agent for transcript in transcripts} == {"gold", *scripts}
