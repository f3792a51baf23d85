"""Sandboxes inside a container: the image's own Python, the package from its wheel, the cache on
the container's overlay.

namespaces allowed, /proc masked    local sandbox, wall shared-proc    as root, as an ordinary user
no namespaces                       pod                                as root; others are refused
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docker_images
import pytest
import wheel

pytestmark = pytest.mark.alone

SETS = ("bash", "sql", "python", "ctf")
USER = ["--user", "1234:1234", "--env", "HOME=/tmp"]
NAMESPACES = ["--security-opt", "seccomp=unconfined"]
WALLS = {
    "shared /proc": (NAMESPACES, "shared-proc"),
    "an ordinary user": ([*NAMESPACES, *USER], "shared-proc"),
    "pod": ([], "pod"),
}
NO_GIT = {"amended"}
"""A gold that calls git, which the image lacks."""
NEED_PROC = {"short-parts", "not-recounted"}
"""Golds with `<(…)`, which pods leave out."""

PLAY = """
import json
import sys
import zlib
from contextlib import closing

import intercode
from intercode.agents import gold, noop
from intercode.errors import DataError
from intercode.runner.budget import BudgetTracker
from intercode.runner.episode import play

found = {}
for name in sys.argv[1:]:
    factory = intercode.prepare(name)
    with closing(factory()) as env:
        for task in factory.tasks:
            if zlib.crc32(task.id.encode()) % 4:  # a quarter of them, the same everywhere
                continue
            run = env.run_gold(task)
            try:
                rewards = [play(env, task, agent, None, BudgetTracker()).reward for agent in (gold, noop)]
            except DataError:
                rewards = None
            found[f"{name} {task.id}"] = [repr(run.evidence), list(run.faults), rewards]
    print(name, factory.facts().get("wall"), sorted(task.id for task, _ in factory.left_out), file=sys.stderr)
print(json.dumps(found))
"""

SPY = """
import os
import subprocess

from intercode_sandbox.pod import usual_provider
from intercode.testing import check_sandbox

provider = usual_provider()
start = provider.prepare()
try:
    check_sandbox(lambda: provider.sandbox(start))
except AssertionError as error:
    print([line.partition("[")[2].partition("]")[0] for line in str(error).splitlines() if line.startswith("  - ")])
with provider.sandbox(start) as sandbox, provider.sandbox(start) as other:
    secret = subprocess.Popen(["sleep", "300"], env={"KEY": "secret-of-the-caller"})
    other.exec("export KEY=secret-of-a-sibling; sleep 300 &")
    looks = "for at in /proc/[0-9]*; do cat $at/environ $at/root/etc/hostname $at/cwd/*; ls -l $at/fd $at/exe; done 2>&1"
    print("secret" in sandbox.exec(looks, timeout=5).output)
    sandbox.exec("for at in $(seq 400); do [ $at = $$ ] || kill -9 $at; done 2> /dev/null; kill -9 -1")
    print(secret.poll(), other.exec("echo $KEY; jobs | wc -l").output)
    writes = "for at in /proc/[0-9]*; do for to in oom_score_adj comm mem; do echo 7 > $at/$to && echo written; done; done"
    print(sandbox.exec(f"({writes}; echo 1 > /proc/sys/kernel/sysrq && echo written) 2> /dev/null | grep -c written").output)
    secret.kill()
    secret.wait()
"""

PUT_BACK = """
from intercode_sandbox.pod import PodProvider

provider = PodProvider()
LOOK = (
    "find /depot -printf '%p %A@\\\\n' | sort | sha256sum; "
    "find / -path /usr -prune -o -printf '%p %m %u %g %s %n %l %T@\\\\n' | sort | sha256sum; "
    "find /etc /depot -type f | sort | xargs cat | grep -av ^root: | sha256sum"
)
TAMPER = '''
cd /etc; mv passwd p; cp -p p passwd; echo more >> group; chmod 000 hosts; touch -d 2001-01-01 hostname; ln hosts /tmp/hard
mv /home /home2; ln -s /etc /home; cd /depot; rm -rf a; mkdir a; echo 1 > a/one; rm b/two; ln b/three b/two
mkdir -p /root/x; cd /root/x; for i in $(seq 300); do mkdir deep-deep-deep-deep; cd deep-deep-deep-deep; done
rm /etc/passwd; mkfifo /etc/passwd; seq -f /tmp/many-%.0f 3000 | xargs touch; touch /dev/null
mkfifo /tmp/fifo; echo shared > /dev/shm/file; cp /bin/true /tmp/suid; chmod u+s /tmp/suid; rm -rf /var /bin /lib /lib64
chmod 000 /depot /etc /tmp /; mv /usr /usr2; rm -rf /dev/null; echo > /usr/bin/new
'''
SETUP = '''
mkdir -p /depot/a /depot/b; cd /depot/b; echo 1 > ../a/one; echo 2 > two
ln two three; ln -s two link; mkfifo fifo; chmod 700 .
'''
import pathlib
pathlib.Path("/tmp/setup.sh").write_text(SETUP)
with provider.sandbox(provider.prepare(setup=pathlib.Path("/tmp/setup.sh"))) as sandbox:
    first = sandbox.exec(LOOK).output
    sandbox.reset()
    for action in TAMPER.strip().splitlines():
        sandbox.exec(action)
        sandbox.reset()
        print(sandbox.exec(LOOK).output == first, sandbox.diff())
    copy = sandbox.fork()
    copy.exec("echo 1 > /tmp/of-the-copy; rm /depot/a/one")
    print(sorted(copy.diff()), sorted(sandbox.diff()))
    copy.reset()
    print(copy.exec(LOOK).output == first)
    copy.close()
    before = sandbox.exec("stat -c %y%z /usr/bin/passwd; mv /etc /e; ln -s /usr/bin /etc").output
    sandbox.fork().close()
    print(sandbox.exec("stat -c %y%z /usr/bin/passwd").output == before)
"""

TRACES = """
from pathlib import Path
from intercode_sandbox.pod import PodProvider

provider, setup = PodProvider(), Path("/tmp/setup.sh")
setup.write_text("mkdir /depot; cd /depot; seq 9 | tee a b > c")
FILES = "/depot /etc /var"
with provider.sandbox(provider.prepare(setup=setup)) as sandbox:
    now = sandbox.exec("sleep 0.02; date +@%s.%N; sleep 0.02").output.strip()
    for gold in ("sort -r /depot/a; ls -lR /depot /usr/share", "sed -i s/1/2/ /depot/a; rm /depot/b", "touch -a /depot/c"):
        sandbox.exec(gold)
        seen = sandbox.exec(f"find {FILES} -newerct {now} | wc -l").output.strip()
        now = sandbox.exec("sleep 0.02; date +@%s.%N; sleep 0.02").output.strip()
        sandbox.reset()
        newer, older = (sandbox.exec(f"find {FILES} {no} -newerct {now} | wc -l").output.strip() for no in ("", "!"))
        read = sandbox.exec(f"find {FILES} /usr -printf '%A@\\n' | sort -u | wc -l").output.strip()
        print(seen != "0", "0" in (newer, older), read)
"""

ENDS = """
import os
import signal
import subprocess
import sys
import time

from intercode_sandbox.pod import PodProvider

PLAYS = '''
import time
from intercode_sandbox.pod import PodProvider
provider = PodProvider()
sandbox = provider.sandbox(provider.prepare())
sandbox.exec("sleep 1000 & (setsid sleep 2000 &); trap '' TERM HUP INT; sleep 3000 &")
print(sandbox.host._process.pid, flush=True)
time.sleep(100)
'''

def sleeping():
    found = subprocess.run(["ps", "-eo", "stat,comm"], capture_output=True, text=True).stdout.splitlines()
    return sum("sleep" in line and not line.startswith("Z") for line in found)  # nobody reaps zombies in this container

for victim in (lambda child, supervisor: child.pid, lambda child, supervisor: supervisor):
    child = subprocess.Popen([sys.executable, "-c", PLAYS], stdout=subprocess.PIPE, text=True)
    supervisor = int(child.stdout.readline())
    until = time.monotonic() + 60
    while (before := sleeping()) < 3 and time.monotonic() < until:  # a job may not be its program yet
        time.sleep(0.05)
    os.kill(victim(child, supervisor), signal.SIGKILL)
    until = time.monotonic() + 5
    while sleeping() and time.monotonic() < until:
        time.sleep(0.05)
    print(before, sleeping())
    child.kill()
    child.wait()
"""

NUMBERS = """
import json

from intercode.cli import main

golds = ["id -u", "id -u > /tmp/n", "cp /etc/passwd /tmp/n", "cp -a /etc /tmp/etc", "id -u | md5sum"]
golds += ["seq 61000 65510", "ls -ln /etc"]
with open("/tmp/tasks.jsonl", "w") as file:
    for gold in golds:
        print(json.dumps({"query": f"run {gold}", "gold": gold}), file=file)
how = ["--agent", "gold", "--epochs", "4", "--workers", "4", "--out", "/tmp/r", "--json"]
main(["eval", "bash", "--data", "/tmp/tasks.jsonl", *how])
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a function that runs a program in a container of its own, with the package and its
    dependencies."""
    docker_images.require_docker()
    if sys.version_info[:2] != (3, 11):
        pytest.skip(
            "the image has Python 3.11, which cannot import what another Python has installed"
        )
    own = [wheel.ROOT / name for name in ("src", "tests")]
    others = [path for path in sys.path if path.startswith("/") and not path.startswith("/usr")]
    others = [path for path in others if not any(Path(path).is_relative_to(each) for each in own)]
    folders = [str(wheel.install(tmp_path_factory.mktemp("wheel"))), *others]
    mounts = [word for path in folders for word in ("--volume", f"{path}:{path}:ro")]
    settings = ["--network", "none", "--env", f"PYTHONPATH={':'.join(folders)}", *mounts]

    def run_it(
        options: list[str], program: str, *arguments: str
    ) -> subprocess.CompletedProcess[str]:
        words = [
            "docker",
            "run",
            "--rm",
            *settings,
            *options,
            docker_images.debian(),
            "python3",
            "-c",
            program,
            *arguments,
        ]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run_it


@pytest.fixture(scope="module")
def outside() -> dict[str, Any]:
    """What golds do in this machine's local sandbox."""
    done = subprocess.run([sys.executable, "-c", PLAY, *SETS], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("name", WALLS)
def test_golds_do_in_a_container_what_they_do_outside_and_are_solved(
    name: str, run: Run, outside: dict[str, Any]
) -> None:
    options, wall = WALLS[name]
    done = run(options, PLAY, *SETS)
    left_out = sorted(NEED_PROC) if wall == "pod" else []
    assert done.stderr.splitlines() == [
        f"{each} {wall} {left_out if each == 'bash' else []}" for each in SETS
    ]
    found = json.loads(done.stdout)
    excepted = {key for key in outside if key.split()[1] in NO_GIT.union(left_out)}
    assert {key: found.get(key) for key in outside.keys() - excepted} == {
        key: outside[key] for key in outside.keys() - excepted
    }
    assert {str(found[key][2]) for key in outside.keys() - excepted} == {"[1.0, 0.0]"}


@pytest.mark.slow
@pytest.mark.parametrize("name", WALLS)
def test_an_agent_neither_reads_nor_ends_the_containers_processes(name: str, run: Run) -> None:
    options, wall = WALLS[name]
    lines = run(options, SPY).stdout.split("\n", 1)
    if wall == "pod":  # their actions have <(…)
        assert lines.pop(0) == str(["refuses_to_fork_processes", "keeps_descriptors"])
    assert " ".join(lines).split() == ["False", "None", "secret-of-a-sibling", "1", "0"]


@pytest.mark.journey
@pytest.mark.slow
def test_a_pod_puts_back_all_that_an_agent_can_change(run: Run) -> None:
    *resets, copied, fresh, rewritten = run([], PUT_BACK).stdout.splitlines()
    assert resets == ["True {}"] * 6
    assert (copied, fresh, rewritten) == ("['/depot/a/one', '/tmp/of-the-copy'] []", "True", "True")


@pytest.mark.slow
def test_the_times_in_a_pod_do_not_tell_which_files_a_gold_read_or_wrote(run: Run) -> None:
    # new files before the reset; all or no new files after it; times of access
    lines = run([], TRACES).stdout.splitlines()
    assert lines == ["False True 1", "True True 1", "True True 1"]


@pytest.mark.slow
def test_nothing_of_a_pod_outlives_its_driver_or_its_supervisor(run: Run) -> None:
    assert run([], ENDS).stdout.split() == ["3", "0", "3", "0"]


@pytest.mark.slow
def test_golds_that_show_who_the_user_is_are_solved_in_any_pod(run: Run) -> None:
    found = json.loads(run([], NUMBERS).stdout)
    assert (found["episodes"], found["success_rate"]) == (28, 1.0)


@pytest.mark.slow
def test_an_ordinary_user_without_namespaces_is_told_what_to_ask_for(run: Run) -> None:
    done = run(USER, "from intercode.cli import main; main()", "eval", "bash", "--agent", "gold")
    assert done.returncode == 3
    assert "docker run --security-opt seccomp=unconfined" in done.stderr
    assert "securityContext: {seccompProfile: {type: Unconfined}" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "named"),
    [
        pytest.param(
            "shared /proc",
            {"seeing processes", "finding the guest", "memory in TCP buffers", "inotify instances"},
            marks=pytest.mark.soak,
        ),
        ("pod", {"a disk filler", "an inode filler"}),
    ],
    ids=["shared /proc", "pod"],
)
def test_the_attacks_that_succeed_in_a_container_are_those_that_the_documents_name(
    name: str, named: set[str], run: Run
) -> None:
    command = ["attack", "bash", "--limit", "1", "--json"]
    done = run(WALLS[name][0], "from intercode.cli import main; main()", *command)
    report = json.loads(done.stdout)
    assert {each["name"] for each in report["exploits"] if each["escaped"]} <= named
    assert (report["paid"], report["harmed"]) == (0, 0)
