"""How the first system executed an action, in what its recordings show beyond the shell itself."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import intercode


@pytest.mark.parametrize("action", ["(sleep 0.2; echo late; echo x > /late) &", "echo late | tee >(sleep 0.2; cat > /late)"])
def test_what_background_jobs_print_and_leave_belongs_to_the_action(make: Any, action: str) -> None:
    env = make(protocol="paper", max_turns=3)
    env.reset(options={"task": "count"})
    assert env.step(action)[0] == "late\n"
    assert env.step("ls /late")[0] == "/late\n"


def test_an_endless_background_job_is_not_waited_for_longer_than_docker_did(make: Any) -> None:
    env = make(protocol="paper", max_turns=3)
    env.reset(options={"task": "count"})
    observation, _, _, _, info = env.step("echo now; sleep 1000 &")
    assert (observation, info["timed_out"]) == ("now\n", False)
    assert env.step("echo next")[0] == "next\n"


@pytest.mark.parametrize("action", [r"printf '\xff'", "head -c 64 /bin/sh", "echo fine | gzip -c"])
def test_an_output_that_is_not_utf8_is_called_malformed(make: Any, action: str) -> None:
    env = make(protocol="paper", max_turns=3)
    env.reset(options={"task": "count"})
    assert env.step(action)[0] == "Malformed command"
    assert env.step("printf 'ünd €'")[0] == "ünd €"


def test_a_stateless_session_under_the_papers_reward_is_the_first_systems_container_with_submit_too(make: Any) -> None:
    for how in ({"protocol": "paper"}, {"protocol": "submit", "reward": "paper", "session": "stateless"}):
        env = make(**how)
        env.reset(options={"task": "count"})
        assert env.step("ls -d /.dockerenv /tmp; env | grep -c PAGER")[0] == (
            "ls: cannot access '/tmp': No such file or directory\n/.dockerenv\n0\n"
        )


def test_the_root_is_a_repository_whose_own_files_do_not_count_and_variables_name_the_file_system(tmp_path: Path) -> None:
    data = tmp_path / "nl2bash_fs_4.json"
    data.write_text(json.dumps([{"query": "Print 1.", "gold": "echo 1"}]))
    with closing(intercode.make("bash", data=str(data), protocol="paper")) as env:
        env.reset()
        found = env.step("ls -d /.git /.gitignore; echo $file_system_version $script")[0]
        assert found == "/.git\n/.gitignore\n4 setup_nl2b_fs_4.sh\n"
        observation, reward, *_ = env.step("touch /x; git status --short; echo 1")
        assert (observation, reward < 1) == ("?? x\n1\n", True)
        assert env.step("rm /x; git status --short; git commit --allow-empty -qm empty; echo 1")[:2] == ("1\n", 1.0)
