"""Our sandbox under other people's loops: mini-swe-agent's own agent, and NeMo Gym's own API."""

from __future__ import annotations

import asyncio
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.integrations, pytest.mark.filterwarnings("default")]
os.environ["MSWEA_SILENT_STARTUP"] = "1"
COMMANDS = [
    "echo one; echo two >&2; echo three",
    "cd /tmp && pwd",
    'pwd; echo "x$KEY"',
    "printf 'a\\377b'; exit 3",
    "no-such-program",
    "kill -9 $$",
    "sleep 60",
    "echo kept >/tmp/of-the-test; cat /tmp/of-the-test; rm /tmp/of-the-test",
    "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo the answer",
]


@pytest.mark.skipif(find_spec("minisweagent") is None, reason="mini-swe-agent: make integrations")
def test_mini_swe_agent_sees_what_it_sees_in_its_own_environment() -> None:
    from minisweagent.agents.default import DefaultAgent
    from minisweagent.environments import get_environment
    from minisweagent.models.test_models import DeterministicModel, make_output

    def play(environment: str) -> tuple[dict[str, Any], list[str]]:
        config = {"environment_class": environment, "cwd": "/", "env": {"KEY": "7"}, "timeout": 2}
        outputs = [make_output("hm", [{"command": command}]) for command in COMMANDS]
        agent = DefaultAgent(
            DeterministicModel(outputs=outputs),
            get_environment(config),
            system_template="{{cwd}}",
            instance_template="{{task}}",
            cost_limit=0,
        )
        result = agent.run("the task")
        return result, [str(message.get("content")) for message in agent.messages]

    ours = play("intercode_sandbox.adapters.mini_swe_agent.IntercodeEnvironment")
    result, messages = play("local")
    assert result == {"exit_status": "Submitted", "submission": "the answer\n"}
    assert ours[0] == result
    for mine, its in zip(ours[1], messages, strict=True):
        lines = [text.replace("bash: line 1", "/bin/sh: 1").splitlines() for text in (mine, its)]
        if "no-such-program" in its:  # its shell is sh, and words this otherwise
            lines = [[line for line in each if "no-such-program" not in line] for each in lines]
        if "<returncode>-9<" in its:  # Python counts signals below 0, a shell from 128
            lines = [[line.replace("-9", "137") for line in each] for each in lines]
        if "timed out" in its:
            lines = [[line.replace("after 2.0 ", "after 2 ") for line in each] for each in lines]
        assert lines[0] == lines[1]


@pytest.mark.skipif(find_spec("nemo_gym") is None, reason="nemo_gym: make integrations")
def test_nemo_gym_finds_the_provider_and_uses_it(tmp_path: Path) -> None:
    from nemo_gym.sandbox.api import AsyncSandbox
    from nemo_gym.sandbox.providers.base import SandboxCreateError, SandboxSpec, SandboxStatus

    async def use() -> None:
        spec = SandboxSpec(
            workdir="/srv", env={"A": "1"}, files={"/srv/b": "of the spec"}, resources={"cpu": 1}
        )
        box = await AsyncSandbox({"intercode": {}}, spec).start()
        assert await box.status() is SandboxStatus.RUNNING
        done = await box.exec("pwd; cat b; echo $A $C >&2; exit 3", env={"C": "2"})
        assert (done.stdout, done.stderr, done.return_code) == ("/srv\nof the spec", "1 2\n", 3)
        late = await box.exec("sleep 60", timeout_s=0.5)
        assert late.error_type == "timeout"
        (tmp_path / "up").write_bytes(bytes(range(256)))
        await box.upload(tmp_path / "up", "/srv/up")
        await box.download("/srv/up", tmp_path / "down")
        assert (tmp_path / "down").read_bytes() == bytes(range(256))
        many = await asyncio.gather(*(box.exec(f"echo {number}") for number in range(20)))
        assert [done.stdout for done in many] == [f"{number}\n" for number in range(20)]
        await box.stop()
        assert await box.status() is SandboxStatus.STOPPED
        for wrong in (
            SandboxSpec(image="/no/such/image"),
            SandboxSpec(resources={"gpu": 1}),
            SandboxSpec(ports=[8000]),
            SandboxSpec(provider_options={"network": "host"}),
        ):
            with pytest.raises(SandboxCreateError, match="intercode: "):
                await AsyncSandbox({"intercode": {}}, wrong).start()

    asyncio.run(use())
