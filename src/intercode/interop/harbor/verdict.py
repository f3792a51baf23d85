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

from intercode.env import InterCodeEnv
from intercode.envs import make
from intercode_sandbox import cache, template

APP = "/app"
"""The folder of the answers, empty when an answer runs."""
TESTS, REWARD = Path("/tests"), Path("/logs/verifier/reward.txt")
ROUND = "ROUNDS_PLAYED"
"""The variable that says how many rounds have been played."""
_LONGEST = 1 << 20
_OF_SHELL = {ROUND, "HOSTNAME", "OLDPWD", "PWD", "SHLVL", "_"}
"""Variables that are not the image's."""


def earned(env: InterCodeEnv, task: str, answers: Iterable[str], *, is_word: bool) -> float:
    """Return the reward of the episode in which each answer is executed and submitted. `is_word`:
    the answers themselves are what is submitted."""
    env.reset(options={"task": task})
    reward, ended = 0.0, False
    for answer in answers:
        actions = ["submit"]
        if is_word:
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
    """Make an image of this container's files and variables without the tests, the answers, this
    program and the cache. Return its name."""
    hidden = [TESTS, REWARD.parents[1], Path(__file__).parent, cache.root(), f"{APP}/*"]
    words = ["tar", "-C", "/", "--one-file-system", "--anchored"]
    words += [f"--exclude=.{path}" for path in hidden]

    def build(image: Path) -> None:
        tree = template.new_tree(image)
        with subprocess.Popen([*words, "-cf", "-", "."], stdout=subprocess.PIPE) as files:
            template.untar(Path("/"), tree, files.stdout)
        if files.returncode:
            sys.exit("no verdict: not all files of the image can be read")
        template.mount_points(tree)
        variables = {name: os.environ[name] for name in os.environ.keys() - _OF_SHELL}
        template.write_settings(image, {"environment": variables})

    return cache.folder("images", "verifier", build).name


def main() -> None:
    """Score the answers to the task in /tests, and write the reward."""
    about = json.loads((TESTS / "task.json").read_text("utf-8"))
    paths = about["answers"][: int(os.environ.get(ROUND, "1"))]
    options = {"image": this_image()} if about["in_image"] else {}
    env = make(about["env"], data=TESTS / "data", max_turns=None, **options)
    for task in env.tasks:
        if about["runs"] and (faults := env.run_gold(task).faults):
            sys.exit(f"no verdict: {faults[0]}")  # such as a program that the image lacks
    answers = map(read_answer, paths)
    reward = earned(env, about["task"], answers, is_word=about["is_word"])
    REWARD.write_text(f"{reward}\n", "utf-8")
    print(ascii(env.outcomes()))


if __name__ == "__main__":
    main()
