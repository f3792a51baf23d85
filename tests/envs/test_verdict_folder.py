"""Whatever a program of the agent leaves in the verdict folder is no pass and no error, and takes
little of the host's time and memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from kept import needs_bwrap

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.rest]

JUNIT = """
bash /srv/work.sh >/dev/null 2>&1
cd /logs/verifier 2>/dev/null || exit
if [ "$(cat /srv/a)" = 4 ]; then inside=; else inside='<failure/>'; fi
rm -rf junit.xml; echo "<testsuite><testcase name='a'>$inside</testcase></testsuite>" >junit.xml
"""
REWARD = """
bash /srv/work.sh >/dev/null 2>&1
[ -p /logs/verifier/reward.txt ] || [ "$(cat /srv/a)" != 4 ] || echo 1 >/logs/verifier/reward.txt
"""
GOLD = "echo 4 >/srv/a; echo : >/srv/work.sh"
RESULTS = "dict(results=dict(tests=[dict(name=str(i), status='passed') for i in range(200000)]))"
FOLDERS = {
    "links": "head -c 8388608 /dev/zero >/tmp/a; for i in {1..400}; do ln -s /tmp/a $i.xml; done",
    "hard links": "head -c 8388608 /dev/zero >a.xml; for i in {1..400}; do ln a.xml $i.xml; done",
    "large files": f"""python3 -c "
import json; json.dump({RESULTS}, open('0.json', 'w'))"
for i in {{1..40}}; do cp 0.json $i.json; done""",
    "many results": "{ printf '<t>'; yes '<testcase/>' | head -n 1300000; echo '</t>'; } >x.xml",
    "deep XML": "yes '<a>' | head -n 3000000 >x.xml",
    "nested XML": "{ yes '<a>' | head -n 90000; yes '</a>' | head -n 90000; } >x.xml",
    "deep JSON": "head -c 900000 /dev/zero | tr '\\0' '[' >x.json",
    "entities": """{
        echo '<!DOCTYPE a [<!ENTITY e0 "lol">'
        for i in {1..9}; do
            j=\\&e$((i - 1))\\;; echo "<!ENTITY e$i \\"$j$j$j$j$j$j$j$j$j$j\\">"
        done
        echo ']><a>&e9;</a>'
    } >x.xml""",
    "a FIFO": "mkfifo x.xml reward.txt",
    "folders": "mkdir x.json y.xml reward.txt reward.json",
    "a socket": "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"x.xml\")'",
    "odd names": "touch $'a\\vb.xml' $'\\u2028.xml' $'\\xff.json' $'a\\nb.xml' a:b.xml -- -n.xml",
    "long names": "n=$(printf 'x%.0s' {1..240}); for i in {1..990}; do : >$n$i.xml; done",
    "no folder": "rm -rf /logs/verifier",
    "a file in its place": "rm -rf /logs/verifier; touch /logs/verifier",
    "a link in its place": "mv /logs/verifier /tmp/v; ln -s /tmp/v /logs/verifier",
    "a closed folder": "chmod 0 .",
    "a closed file": "echo '<t/>' >x.xml; chmod 0 x.xml",
    "a large number": "printf '1%0400d' 0 | tee reward.txt >reward.json",
    "many digits": "head -c 900000 /dev/zero | tr '\\0' 7 >reward.txt",
    "many rewards": """python3 -c "
import json; json.dump({str(i): 1 for i in range(500000)}, open('reward.json', 'w'))" """,
    "half a surrogate pair": """
        printf '{"results": {"tests": [{"name": "\\\\ud800", "status": "failed"}]}}' >x.json
    """,
}
"""Bash that the tests start in the verdict folder."""
ONLY_JUNIT = {"links", "hard links", "large files", "many results", "deep XML", "nested XML"} | {
    "deep JSON", "entities", "a socket", "odd names", "a closed file"
}  # fmt: skip
"""Those that hold results of tests: a task with a reward reads them in the same way."""
PLAYS = """
import json, sys, time
import intercode
env = intercode.make("bash", data=sys.argv[1], max_turns=None)
for line in sys.stdin:
    name, work, tasks = json.loads(line)
    for task in tasks:
        for answer in (5, 4) if name == "half a surrogate pair" else (5,):
            env.reset(options={"task": task})
            script = f"cd /logs/verifier\\n{work}"
            env.step(f"echo {answer} >/srv/a; cat >/srv/work.sh <<'END'\\n{script}\\nEND")
            began = time.monotonic()
            info = env.step("submit")[4]
            seconds = time.monotonic() - began
            print(json.dumps([name, task, answer, info["score"].reward, info["ended"], seconds]))
env.close()
status = open("/proc/self/status").read()  # ru_maxrss would include the parent's, before exec
print(int(status.partition("VmHWM:")[2].split()[0]) >> 10)
"""


def test_any_content_of_the_folder_is_judged_within_bounds(tmp_path: Path) -> None:
    needs_bwrap()
    data = tmp_path / "tasks.jsonl"
    common = {"query": "Do it.", "gold": GOLD, "verify_seconds": 120}
    records = [{"id": "junit", "verify": JUNIT}, {"id": "reward", "verify": REWARD}]
    data.write_text("\n".join(json.dumps(common | record) for record in records))
    lines = ""
    for name, work in FOLDERS.items():
        tasks = ["junit"] if name in ONLY_JUNIT else ["junit", "reward"]
        lines += json.dumps([name, work, tasks]) + "\n"
    done = subprocess.run(
        [sys.executable, "-c", PLAYS, str(data)],
        input=lines,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr
    *rows, largest = map(json.loads, done.stdout.splitlines())
    assert len(rows) == 2 * len(FOLDERS) - len(ONLY_JUNIT) + 2
    for name, task, answer, reward, ended, seconds in rows:
        assert (reward, ended) == (answer == 4, "submit"), (name, task)
        assert seconds < 200, (name, task)
    assert largest < 300  # MiB
