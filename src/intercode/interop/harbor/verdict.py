"""The program that scores an answer in the verifier of an exported task. `export.py` packs it with
the environments; nothing but Python's standard library has to be installed there.

    answer file ──► env.step(its text), env.step("submit") ──► /logs/verifier/reward.txt

The answer runs in a sandbox as a user of its own, who sees neither the tests nor the verdict.
Without a verdict, because of a fault of the machine, no reward is written.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from intercode.env import InterCodeEnv
from intercode.envs import make
from intercode_sandbox import cache, template

APP = "/app"
"""The folder of the answers, empty when an answer runs."""
TESTS, REWARD = Path("/tests"), Path("/logs/verifier/reward.txt")
ROUND = "ROUNDS_PLAYED"
"""The variable that says how many rounds have been played."""
_LONGEST = 1 << 20
_PACK = (
    "tar -C / --one-file-system --anchored --exclude=./tests --exclude=./logs --exclude=./app/*"
    " --exclude=./var/*/* --exclude=.{} -cf - ."
)
"""Packs the image without the tests, the answers, this program, the cache, and package lists."""


def earned(env: InterCodeEnv, task: str, answers: Iterable[str]) -> float:
    """Return the reward of the episode in which each answer is executed and submitted; a flag is
    only submitted."""
    env.reset(options={"task": task})
    reward, ended = 0.0, False
    for answer in answers:
        actions = ["submit"]
        if "gold_is" in env.fields:
            actions = [f"submit {answer.strip()}"]
        elif answer:
            actions = [answer, "submit"]
        for action in actions:
            if not ended:
                *_, ended, _, info = env.step(action)
                if "score" in info:  # the answer may submit by itself
                    reward = info["score"].reward
                    break
    return reward


def read_answer(path: str) -> str:
    """Return the first MiB of the text in the agent's file; "" if it is no text, or a link."""
    file = Path(path)
    with suppress(UnicodeDecodeError):
        if file.is_file() and not file.is_symlink():
            return file.read_bytes()[:_LONGEST].decode().replace("\0", "")
    return ""


def this_image() -> str:
    """Make an image of this container's files and variables, but not of what the verdict needs.
    Return its name."""

    def build(image: Path) -> None:
        words = _PACK.format(cache.root()).split()
        with subprocess.Popen(words, stdout=subprocess.PIPE) as files:
            template.untar(Path("/"), template.new_tree(image), files.stdout)
        if files.returncode:
            sys.exit("no verdict: not all files of the image can be read")
        template.write_settings(image, {"environment": dict(os.environ)})

    return cache.folder("images", "verifier", build).name


def main() -> None:
    """Score the answers to the task in /tests, and write the reward."""
    about = json.loads((TESTS / "task.json").read_text("utf-8"))
    paths = about["answers"][: int(os.environ.get(ROUND, "1"))]
    options = dict[str, Any](data=TESTS / "data", max_turns=None)
    if about["env"] != "sql":
        options["image"] = this_image()
    env = make(about["env"], **options)
    for task in env.tasks:
        if about["runs"] and (faults := env.run_gold(task).faults):
            sys.exit(f"no verdict: {faults[0]}")  # such as a program that the image lacks
    answers = map(read_answer, paths)
    reward = earned(env, about["task"], answers)
    REWARD.write_text(f"{reward}\n", "utf-8")
    print(ascii(env.outcomes()))


if __name__ == "__main__":
    main()
