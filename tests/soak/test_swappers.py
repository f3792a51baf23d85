"""Submissions beside jobs that swap files for one another: no wrong one is paid, and none becomes
an error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kept import kept, needs_bwrap

from intercode.errors import IntercodeError

SUBMISSIONS = 200
TASK = {"id": "new", "query": "Make the empty file /srv/new.", "gold": "touch /srv/new"}
SWAPS = {
    "a link and a file": (
        """
        os.symlink("a", "t"); os.rename("t", "l")
        open("t", "w").close(); os.rename("t", "l")
    """
    ),
    "a folder and a file": (
        """
        os.makedirs("d/in", exist_ok=True); os.rename("d", "e")
        open("d", "w").close(); os.remove("d"); os.rename("e", "d")
    """
    ),
    "a hole, a pipe and a text": (
        """
        open("f", "w").write("x" * 9000); os.truncate("f", 0); os.truncate("f", 1 << 20)
        os.mkfifo("p"); os.rename("p", "f")
        open("g", "w").write("x"); os.rename("g", "f")
    """
    ),
}


def swapping(folder: str) -> str:
    """The gold, beside a job for each swap that never ends."""
    loops = "\n".join(
        f"python3 -c '\nimport os\nos.chdir(\"{folder}\")\nwhile True:{swap.rstrip()}' & jobs+=($!)"
        for swap in SWAPS.values()
    )
    return (
        f"mkdir -p {folder}; jobs=()\n{loops}\n"
        f"{TASK['gold']}; until [ -e {folder}/d -a -e {folder}/f ]; do sleep .01; done"
    )


@pytest.mark.soak
def test_no_swap_pays_or_ends_a_submission_and_beside_one_in_tmp_honest_work_pays(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    needs_bwrap()
    (tmp_path / "tasks.jsonl").write_text(json.dumps(TASK) + "\n")
    came: dict[str, dict[str, int]] = {}
    for folder in ("/opt/swaps", "/tmp/swaps"):
        env = kept("bash", tmp_path)()()
        came[folder] = {"paid": 0, "unpaid": 0, "errors": 0}
        for _ in range(SUBMISSIONS):
            try:
                env.reset()
                env.step(swapping(folder))
                paid = env.step("submit")[1] == 1.0
                came[folder]["paid" if paid else "unpaid"] += 1
            except IntercodeError:
                came[folder]["errors"] += 1
        env.close()
    with capfd.disabled():
        print(f"\n{came}")
    assert came["/opt/swaps"] == {"paid": 0, "unpaid": SUBMISSIONS, "errors": 0}
    assert came["/tmp/swaps"] == {"paid": SUBMISSIONS, "unpaid": 0, "errors": 0}
