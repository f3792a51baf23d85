"""What hostile agents do amid honest ones, by environment, and the strategy that mixes it in.

For Bash and CTF these are the attacks of `intercode_sandbox.attacks`, but for those that last until
a time limit ends them.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from families import OVERWRITE_INIT

from intercode.agents import Act, Strategy, StrategySteps
from intercode.agents.baselines import gold
from intercode.types import Task
from intercode_sandbox import attacks

_LASTING = {
    "removing everything",
    "removing everything, then the shell",
    "exec of a program that stays",
    "stopping the shell",
    "a shell that executes nothing",
    "a loop",
    "a loop that ignores signals",
    "a program that ignores signals",
    "a trap with a loop",
    "functions that replace builtins",
    "a fork bomb of short-lived processes",
    "endless output",
}
_TABLES = (attacks.KERNEL, attacks.LEFT, attacks.SHELL, attacks.GUEST, attacks.FATAL)
_SHELL = [attack.action for table in _TABLES for attack in table if attack.name not in _LASTING] + [
    OVERWRITE_INIT
]
_PYTHON = [
    "import os; os._exit(1)",
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "import os, signal; os.kill(-1, signal.SIGKILL)",
    "import subprocess; left = subprocess.Popen(['sleep', '4242'], start_new_session=True)",
    "import os\nfor fd in range(3, 256):\n    try: os.close(fd)\n    except OSError: pass",
    "import sys; sys.stdout.close(); sys.stderr.close()",
    "import builtins; builtins.print = builtins.eval = builtins.exec = builtins.compile = None",
    "hold = b'x' * (200 << 20)",
    "hold = [open('/dev/null') for _ in range(1000)]",
    "open('/tmp/left', 'wb').write(b'x' * (20 << 20))",
    (
        "import threading, time; "
        "threading.Thread(target=time.sleep, args=(4242,), daemon=True).start()"
    ),
    "def f(n): return f(n + 1)\nf(0)",
    "print('x' * (10 << 20))",
    "import sys; sys.modules.clear()",
    "import signal; [signal.signal(n, signal.SIG_IGN) for n in (2, 15)]",
]
_SQL = [
    "DELETE FROM person",
    "DROP TABLE person",
    "CREATE TABLE mine AS SELECT hex(zeroblob(200000)) AS filler",
    "CREATE TEMP TABLE person (id INTEGER)",
    "BEGIN; DELETE FROM person",
    "BEGIN",
    "PRAGMA journal_mode = OFF",
    "PRAGMA writable_schema = 1",
    "ATTACH '/tmp/left' AS other",
    "SELECT zeroblob(2000000000)",
    (
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r LIMIT 50000) "
        "SELECT n, hex(zeroblob(100)) FROM r"
    ),
    "SELECT load_extension('/tmp/x')",
    "CREATE TRIGGER later AFTER DELETE ON person BEGIN DELETE FROM person; END",
    "((((((((((",
]
ACTIONS = {"bash": _SHELL, "ctf": _SHELL, "python": _PYTHON, "sql": _SQL}


def hostile(actions: Sequence[str], chance: Random) -> Strategy:
    """One or two hostile actions, and then the gold, if there is still anybody to hear it."""

    def strategy(task: Task, protocol: str) -> StrategySteps:
        for action in chance.sample(actions, chance.randint(1, 2)):
            yield Act(action)
        yield from gold(task, protocol)

    return strategy
