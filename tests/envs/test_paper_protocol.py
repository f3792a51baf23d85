"""How the first system executed an action, in what its recordings show beyond the shell itself."""

from __future__ import annotations

from typing import Any

import pytest


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
