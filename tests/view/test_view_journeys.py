"""Journeys of a reader through the viewer in a real Chromium: light, dark and 400 pixels wide.

Each page on the way is checked for its width, contrast, names and console (`Reader.check`).
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from chromium import Tab, browser, needs_chromium
from kept import needs_bwrap
from viewing import LOOKS, PARAMETERS, Reader, episode, eval_run, make_run, viewer

from intercode.runs.index import Index
from intercode.runs.store import stream_run
from intercode.types import Turn, Usage

pytestmark = [pytest.mark.slow, needs_chromium]

SHELL = "a < b & \"c\" \\ 'd' é"
ENDED = {"failed": ["answer"], "agent": {"answer": "1\n2"}, "gold": {"answer": "1\n3"}}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of 250 tasks, one with epochs and long episodes, one that forks, and a log of
    InterCode v1."""
    folder = tmp_path_factory.mktemp("runs")
    needs_bwrap()
    # indexed, as `eval` leaves them: a page indexes for a moment only, whatever the load
    for name, every in (("first", 2), ("second", 3)):
        turns = [
            Turn(action=f"echo {n} of {name if n > 1 else 'both'}", observation="x\n", exit_code=0)
            for n in range(3)
        ]
        usage = Usage(100, 20, 0.001)
        make_run(
            folder / name,
            [
                episode(
                    f"t{n}",
                    *turns,
                    *([Turn(action="cat x", exit_code=1, usage=usage)] * (n % 5)),
                    Turn(action="submit"),
                    solved=n % every == 0,
                    outcomes=ENDED if n % every else {},
                )
                for n in range(250)
            ],
        )
        config, _ = stream_run(folder / name)
        Index(folder / name, config).update()
    long = [
        Turn(action=f"echo {n}", observation=SHELL if n == 470 else "line\n" * 40, exit_code=0)
        for n in range(500)
    ]
    large = Turn(action="yes | head -c 10000000", observation="y" * 10_000_000, exit_code=0)
    epochs = [episode("same", solved=epoch == 1, epoch=epoch) for epoch in range(3)]
    make_run(folder / "long", [*epochs, episode("long", *long), episode("large", large)], epochs=3)
    cut = Turn(
        reply="<think>Where is it? It may be in /srv.</think>\nI would",
        observation="Your reply was cut off at its limit of tokens.",
        finish_reason="length",
        reply_seconds=1.5,
        usage=Usage(300, 200),
    )
    forced = Turn(action="submit", forced=True)
    common = {"passed": False, "gold": "passed"}
    tests = [
        {
            "number": 2,
            "test": "assert add(1, 2) == 3",
            "agent": "AssertionError",
            "expected": "3",
            "got": "-1",
            **common,
        },
        {"number": 3, "test": "add('a', 'b')", "agent": "TypeError: no texts", **common},
        {"number": 1, "test": "assert add(0, 0) == 0", **common, "passed": True},
    ]
    failed = {"failed": ["tests"], "tests": tests}
    data = {"data_digest": "0" * 64, "data_from": "gone.jsonl"}
    make_run(folder / "tests", [episode("add", outcomes=failed)], env="python", **data)
    make_run(
        folder / "deep" / "small",
        [
            episode("lost", cut, Turn(action="ls", exit_code=0), forced, ended="turns"),
            episode("done", solved=True),
        ],
        turns=2,
    )
    assert eval_run(folder / "forks", "forking", "--limit", "2").wait(60) == 0
    return folder


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    with browser() as tab:
        yield tab


@pytest.fixture(scope="module")
def address(runs: Path) -> Iterator[str]:
    log = runs / "v1 log.json"
    history = {
        "actions": ["ls", "ls | wc -l"],
        "observations": ["a\n", "3\n"],
        "rewards": [0.5, 1.0],
        "valid_action": [True] * 2,
    }
    entry = {"environment": "ic_bash", "task_id": 0, "query": "count", "turn_history": history}
    log.write_text(json.dumps({"0": {**entry, "summary": {"max_reward": 1.0, "turns_max": 10}}}))
    with viewer(runs, log) as address:
        yield address


@pytest.fixture(params=PARAMETERS)
def reader(tab: Tab, address: str, request: pytest.FixtureRequest) -> Reader:
    return Reader(tab, address, LOOKS[request.param])


@pytest.mark.journey
def test_find_a_failed_episode_and_why(reader: Reader) -> None:
    reader.open()
    reader.follow("first")
    reader.choose("state", "failed")
    assert "125 of 250 episodes" in reader.text("#list")
    reader.press("j")
    reader.press("Enter", loads=True)
    assert "Not solved (reward 0, the agent submitted). Failed: answer" in reader.text("#verdict")
    assert reader.texts(".sides mark") == ["3", "2"]


def test_the_runs_are_not_cut_and_words_do_not_break(tab: Tab, tmp_path: Path) -> None:
    turn = Turn(action="ls", observation="a\n", exit_code=0, seconds=1.0, usage=Usage(900, 9, 0.1))
    paths = [{"path": "/a/list.txt", "gold": "untouched", "agent": "modified"}]
    wrong = episode("a", turn, outcomes={"failed": ["files"], "paths": paths})
    facts = {"model": "vendor/Model-135M-Instruct", "data": "intercode-starter-bash"}
    make_run(tmp_path / "demo" / "bash-tree_search", [wrong], **facts)
    command = "exec:/opt/bin/claude -p {query} --output-format stream-json --max-turns 40"
    make_run(tmp_path / "program", [wrong], **facts, agent=command)
    with viewer(tmp_path) as address:
        table = "document.querySelector('.wide')"
        for width in (1300, 1000, 420):
            tab.open(address, width=width)
            assert tab.ask(f"{table}.scrollWidth - {table}.clientWidth") == 0, width
        assert "exec:claude\n" in tab.ask(f"{table}.innerText"), "a name, not the command"
        name = "run/demo%2Fbash-tree_search/episode?task=a&epoch=0"
        tab.open(f"{address.rstrip('/')}/{name}", width=420)
        heights = "[...document.querySelectorAll('.verdict td')].map(cell => cell.clientHeight)"
        assert max(tab.ask(heights)) < 40, "each cell has one line"


def test_compare_two_runs_to_the_first_turn_that_differs(reader: Reader) -> None:
    reader.open()
    for name in ("first", "second"):
        reader.click(f'input[value="{name}"]', loads=False)
    reader.follow("compare the chosen runs")
    reader.follow("show only tasks that differ")
    assert "125 tasks" in reader.text()
    reader.click("a.row")
    assert "Compared with first: the first turn that differs is turn 3" in reader.text(".notice")
    reader.click(".notice a", loads=False)
    assert reader.text(".turn:target .action") == "echo 2 of second"
    assert reader.text("#b3 .action") == "echo 2 of first"
    assert reader.texts("#p3 h4") == ["second", "first"]
    reader.tab.ask("document.querySelector('input[name=turn]').value = 2")
    reader.tab.ask("document.querySelector('input[name=to]').value = 3")
    reader.follow("show these")
    assert reader.texts("#turns .number") == ["turn 2", "turn 2", "turn 3", "turn 3"]


def test_an_episode_is_shown_beside_the_golds_command(tab: Tab, tmp_path: Path) -> None:
    needs_bwrap()
    assert eval_run(tmp_path / "run", "slow", "--limit", "1").wait(120) == 0
    with viewer(tmp_path / "run") as address:
        reader = Reader(tab, address, LOOKS["light"])
        reader.open()
        reader.click("a.row")
        reader.click("a.row")
        reader.click("details:has(a[href*='beside=gold']) summary", loads=False)
        reader.follow("side by side")
        assert reader.texts("#p1 h4")[1:] == ["the gold"]
        assert "find /depot" in reader.text("#p1 > div:last-child pre")


@pytest.mark.parametrize("look", PARAMETERS)
def test_follow_a_run_that_is_being_played(tab: Tab, tmp_path: Path, look: str) -> None:
    needs_bwrap()
    late = []
    with eval_run(tmp_path / "live", "slow", "--limit", "4", "--workers", "1") as process:
        try:
            while not (tmp_path / "live" / "run.json").exists():
                time.sleep(0.05)
            with viewer(tmp_path) as address:
                reader = Reader(tab, address, LOOKS[look])
                reader.open("run/live")
                tab.ask("window.same = true")
                tab.wait("document.querySelector('#live a')?.innerText")
                for count in (1, 2):
                    tab.wait(
                        f"document.querySelector('#head').innerText.includes('{count} "
                        "of 4 episodes')"
                    )
                tab.wait("document.querySelector('#live a')?.innerText")
                assert tab.ask("window.same"), "the list counts up without being loaded again"
                reader.click("#live a")
                tab.ask("window.same = true")
                for number in range(2, 5):
                    said = tab.wait(f"document.querySelector('#t{number} .observation')?.innerText")
                    late.append(time.time() - float(said.split()[-1]))
                tab.wait("document.querySelector('#verdict').innerText.includes('Not solved')")
                assert tab.ask("window.same")
                reader.check()
        finally:
            process.kill()
    print(
        f"a turn appears after {statistics.median(late):.2f} s (median of {len(late)}, "
        f"at most {max(late):.2f} s)"
    )
    assert max(late) < 1.0


def test_search_a_text_and_see_the_turns_with_it(reader: Reader) -> None:
    reader.open("run/long")
    reader.press("/")
    reader.tab.call("Input.insertText", text=SHELL)
    reader.press("Enter", loads=True)
    assert "1 of 5 episodes" in reader.text("#list")
    assert reader.value("[name=text]") == SHELL
    reader.click("a.row")
    assert reader.texts(".strip .hit") == ["471"]
    reader.click(".strip .hit")
    assert SHELL in reader.text(".turn:target .observation")


def test_read_an_episode_of_500_turns_by_keyboard(reader: Reader) -> None:
    reader.open("run/long?state=failed")
    reader.press("j")
    reader.press("Enter", loads=True)
    while "long" not in reader.text("h1"):
        reader.press("n", loads=True)
    seen = []
    for _ in range(120):  # beyond a page
        last = reader.tab.ask(
            "document.activeElement === [...document.querySelectorAll('.turn')].at(-1)"
        )
        reader.press("j", loads=last)
        seen.append(reader.tab.ask("document.activeElement.id"))
    assert seen == [f"t{n}" for n in range(1, 121)]
    while reader.tab.ask("document.activeElement !== document.querySelector('.turn')"):
        reader.press("k")
    number = int(reader.tab.ask("document.activeElement.id").removeprefix("t"))
    reader.press("k", loads=True)
    assert reader.tab.ask("document.activeElement.id") == f"t{number - 1}"
    reader.press("?")
    assert reader.tab.ask("document.querySelector('#keys').open")
    reader.check()
    reader.press("Escape")
    reader.press("p", loads=True)
    reader.press("u", loads=True)
    assert reader.tab.ask("location.search") == "?state=failed"
    reader.press("u", loads=True)
    assert reader.text("h1") == "Runs"


def test_open_a_fork_tree_and_jump_to_a_turn_in_it(reader: Reader) -> None:
    reader.open("run/forks")
    reader.click("a.row")
    assert reader.texts(".tree > li > a") == ["turn 1"]
    assert reader.texts(".tree > li > ul > li > ul > li > a") == ["turn 4", "turn 5"]
    reader.click(".tree ul ul a", loads=False)
    assert reader.text(".turn:target .action") == "echo below"
    reader.click("#verdict summary", loads=False)
    gold, action = reader.texts("#verdict details pre")
    assert gold
    assert action == "echo branch 2"


def test_the_address_keeps_the_filter_back_and_forward(reader: Reader) -> None:
    reader.open("run/first")
    reader.choose("state", "solved")
    reader.choose("state", "failed")
    assert reader.tab.ask("location.search") == "?state=failed"
    for way, state in (("back", "solved"), ("forward", "failed")):
        with reader.tab.loading():
            reader.tab.ask(f"history.{way}()")
        assert reader.tab.ask("location.search") == f"?state={state}"
        assert reader.value("select[name=state]") == state


def test_sort_by_a_column_and_page_through(reader: Reader) -> None:
    reader.open("run/first")
    reader.follow("turns")
    reader.follow("turns")
    assert (
        reader.tab.ask("document.querySelector('th[aria-sort=descending]').innerText.trim()")
        == "turns ▾"
    )
    found = [reader.texts("#list td:nth-last-child(4)")]
    for page in (2, 3):
        reader.follow("next →")
        assert f"page {page} of 3" in reader.text(".pages")
        found.append(reader.texts("#list td:nth-last-child(4)"))
    turns = [int(text) for page in found for text in page]
    assert (len(turns), turns) == (250, sorted(turns, reverse=True))


def test_the_same_task_in_another_epoch(reader: Reader) -> None:
    reader.open("run/long/episode?task=same&epoch=0")
    reader.click("summary", loads=False)
    reader.follow("long epoch 1")
    assert "Solved" in reader.text("#verdict")


def test_a_v1_log_and_an_output_of_10_megabytes(reader: Reader) -> None:
    reader.open()
    reader.follow("v1 log")
    reader.click("a.row")
    assert reader.texts(".turn .observation") == ["a\n", "3\n"]
    reader.open("run/long/episode?" + urlencode({"task": "large"}))
    assert "9,998,000 characters left out" in reader.text(".observation")
    assert len(reader.tab.ask("document.documentElement.outerHTML")) < 60_000
    whole = reader.tab.ask("document.querySelector('.observation .gap a').href")
    assert reader.fetch(whole) == [200, 10_000_000]


def test_a_failed_python_test(reader: Reader) -> None:
    reader.open("run/tests?state=failed")
    reader.press("j")
    reader.press("Enter", loads=True)
    assert "Failed: tests" in reader.text("#verdict")
    assert reader.texts("#verdict h3") == [
        "test 2: failed",
        "test 3: failed",
        "tests that passed",
    ]
    assert reader.text("#verdict h3 + pre") == "assert add(1, 2) == 3"
    assert reader.texts("#verdict h3 + pre .c-k") == ["assert"]
    assert reader.texts("#verdict .facts dt") == ["expected", "got", "error", "error"]
    facts = reader.texts("#verdict .facts dd")
    assert facts == ["3", "-1", "AssertionError", "TypeError: no texts"]
    assert "gone.jsonl, which is not here; say where they are now with --data" in reader.text(
        "#verdict > .quiet"
    )


def test_an_episode_out_of_turns(reader: Reader) -> None:
    reader.open()
    reader.follow("small")
    assert "why episodes failed: out of turns 1" in reader.text("#head")
    reader.follow("out of turns")
    reader.choose("ended", "turns")
    assert "1 of 2 episodes" in reader.text("#list")
    reader.press("j")
    reader.press("Enter", loads=True)
    assert "out of turns; the work was submitted for the agent" in reader.text("#verdict")
    assert reader.texts(".turn .number") == ["turn 1", "turn 2", "submitted for the agent"]
    assert "reply cut off at 200 tokens" in reader.text("#t1 header")
    assert "reply in 1.50 s" in reader.text("#t1 header")
    assert "Where is it?" not in reader.text("#t1")
    reader.click("#t1 summary", loads=False)
    assert "Where is it?" in reader.text("#t1 .reasoning")
    assert reader.text("#t1 pre.reply") == "I would"


def test_figures_of_all_journeys() -> None:
    print(f"{Reader.pages} pages were checked; the lowest contrast is {Reader.contrast:.2f}")
    assert Reader.pages >= 40  # 129 with the dark and the narrow looks, which `make soak` runs
