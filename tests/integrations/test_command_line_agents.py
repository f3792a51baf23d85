"""Real command-line agents play starter tasks with a scripted server in each form; `make programs`
plays mini-swe-agent's Chat Completions and Codex."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line_agents import PROGRAMS, Program, check_solved, check_turn_limit, starter_tasks

from intercode.agents.named import programs

pytestmark = pytest.mark.integrations


def test_each_agent_of_the_table_is_played_by_name() -> None:
    assert {program.agent for program in PROGRAMS.values()} == programs().keys()


@pytest.mark.parametrize("name", ["pi", "opencode", "cline"])
def test_slow_programs_solve_three_tasks(name: str, tmp_path: Path) -> None:
    PROGRAMS[name].needed()
    check_solved(PROGRAMS[name], [task.id for task in starter_tasks()[:3]], tmp_path / "run")


@pytest.fixture(params=["mini-responses", "mini-messages", "claude", "claude-titles", "qwen"])
def program(request: pytest.FixtureRequest) -> Program:
    program = PROGRAMS[request.param]
    program.needed()
    return program


def test_programs_solve_ten_tasks_and_turns_are_what_the_server_saw_and_sent(
    program: Program, tmp_path: Path
) -> None:
    check_solved(program, [task.id for task in starter_tasks()[:10]], tmp_path / "run")


def test_titles_do_not_count_as_turns_and_all_else_does(program: Program, tmp_path: Path) -> None:
    check_turn_limit(program, starter_tasks()[0].id, tmp_path / "run")
