"""Completion in the shell, asked for as the script of bash asks."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from cli_words import INTERCODE


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("", {"eval", "play", "data"}),
        ("eval ", {"bash", "sql", "python", "ctf"}),
        ("eval bas", {"bash"}),
        ("check py", {"python"}),
        ("score file --env s", {"sql"}),
        ("eval bash --ag", {"--agent"}),
        ("eval bash --agent ", {"try_again", "react", "best_of", "gold", "replay:", "static:"}),
        ("eval bash --agent t", {"try_again", "try_again_blind", "tools", "tree_search"}),
        ("play bash --sandbox ", {"local", "pod", "docker"}),
        ("eval sql --engine m", {"mariadb"}),
        ("eval bash --data nl2bash_f", {f"nl2bash_fs_{number}" for number in (1, 2, 3, 4)}),
        ("data get s", {"spider"}),
        ("data generate ba", {"bash-files"}),
        ("eval bash --protocol ", {"submit", "paper"}),
        ("eval bash --data ./", set()),
    ],
)
def test_names_are_completed(words: str, names: set[str], tmp_path: Path) -> None:
    typed = f"intercode {words}"
    variables = {
        "_INTERCODE_COMPLETE": "bash_complete",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split(" ")) - 1),
    }
    done = subprocess.run(
        [INTERCODE], env={**os.environ, **variables}, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stderr == ""
    completed = [line.split(",", 1) for line in done.stdout.splitlines()]
    assert names <= {name for kind, name in completed if kind == "plain"}
    if not names:
        assert completed == [["file", "./"]], "files are completed by the shell itself"
    elif not words.endswith(" ") and words:
        assert all(name.startswith(words.split(" ")[-1]) for _, name in completed)
