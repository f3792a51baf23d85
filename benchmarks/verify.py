"""The cost of an episode that is verified by tests, against running its tests alone.

    python benchmarks/verify.py [--runs 30] [--json]

Both sides run the same script, a few unit tests that start the agent's program, on the same files:
the episode is a reset, one action and a submission; alone, the script is one program in a sandbox
that is ready. Both take turns. The gold's work was verified before, as it is once for each task.
Exit status 1 if the median of an episode is more than twice that of the tests.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from measuring.clock import timed
from measuring.rows import Row, command, finish, table

import intercode
from intercode.envs.bash.env import BashEnv

MOST = 2.0
GOLD = "mkdir -p /app; printf 'import sys\\nprint(sum(map(int, sys.argv[1:])))\\n' >/app/add.py"
TESTS = """
import subprocess, unittest

class Adds(unittest.TestCase):
    def test(self):
        for numbers in (["1", "2"], ["-1", "5"], ["0"], ["10", "20", "30"]):
            done = subprocess.run(["python3", "/app/add.py", *numbers], capture_output=True)
            self.assertEqual(int(done.stdout), sum(map(int, numbers)))

unittest.main()
"""


def measure(runs: int) -> tuple[list[float], list[float]]:
    """Return the seconds of episodes, and of the tests alone."""
    with tempfile.TemporaryDirectory() as folder:
        tests = Path(folder) / "tests"
        tests.mkdir()
        (tests / "test.sh").write_text("python3 /tests/test_add.py\n")
        (tests / "test_add.py").write_text(TESTS)
        record = {"id": "add", "query": "Write /app/add.py.", "gold": GOLD, "verify": "tests"}
        (Path(folder) / "tasks.jsonl").write_text(json.dumps(record))
        env = intercode.make("bash", data=folder)
        assert isinstance(env, BashEnv)
        with closing(env), env.world.spec.make() as sandbox:
            sandbox.exec(GOLD)
            for name in ("test.sh", "test_add.py"):
                sandbox.write(f"/tests/{name}", (tests / name).read_bytes())

            def episode() -> None:
                env.reset()
                env.step(GOLD)
                assert env.step("submit")[1] == 1.0

            def alone() -> None:
                done = sandbox.exec("", argv=["bash", "/tests/test.sh"], cwd="/")
                assert done.exit_code == 0

            episode()
            return zip_sorted([(timed(episode), timed(alone)) for _ in range(runs)])


def zip_sorted(pairs: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    ours, against = zip(*pairs, strict=True)
    return sorted(ours), sorted(against)


def main() -> int:
    parser = command(__doc__)
    parser.add_argument("--runs", type=int, default=30)
    options = parser.parse_args()
    ours, against = map(statistics.median, measure(options.runs))
    row = Row("a verified episode, s", ours, against)
    faults = (
        [f"an episode takes {ours / against:.2f} times its tests"] if ours > MOST * against else []
    )
    return finish(options, [row], show=lambda: table([row]), faults=faults)


if __name__ == "__main__":
    sys.exit(main())
