"""The Inspect tasks, evaluated by Inspect with its own mock model and with its client of a real
local server; Inspect's own tools in our sandboxes; and runs as logs that Inspect's viewer shows in
a real browser."""

from __future__ import annotations

import asyncio
import gc
import re
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from chat_server import serving
from chromium import browser, needs_chromium
from families import wait_until
from shaky import ANSWERS, REWARDS, SHAPED

import intercode
from intercode.interop.export import export_run

pytestmark = [
    pytest.mark.integrations,
    pytest.mark.skipif(
        find_spec("inspect_ai") is None, reason="inspect_ai is not installed: make integrations"
    ),
    pytest.mark.filterwarnings("default"),
]


@pytest.fixture(autouse=True)
def _leftovers() -> Iterator[None]:
    """Collect the stream that Inspect leaves open for each sample; at the end of pytest, the
    warning would be an error."""
    yield
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        gc.collect()


def evaluate(model: Any, folder: Path, token_limit: int | None = None, **options: Any) -> Any:
    from inspect_ai import eval as inspect_eval

    kept = {
        "log_dir": str(folder),
        "display": "none",
        "fail_on_error": False,
        "token_limit": token_limit,
    }
    (log,) = inspect_eval(
        "intercode/coding", model=model, task_args={"env": "shaky:ShakyEnv"} | options, **kept
    )
    assert log.status == "success", log.error
    return log


def rewards(log: Any) -> dict[str, float | None]:
    return {
        sample.id: sample.scores["reward"].value if sample.scores else None
        for sample in log.samples
    }


def mock(answer: Callable[[list[Any], list[Any]], str | tuple[str, dict[str, Any]]]) -> Any:
    """Return Inspect's mock model, which says a text or calls a tool, as `answer` chooses from the
    messages and the tools."""
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    def output(messages: list[Any], tools: list[Any], *_: Any) -> ModelOutput:
        said = answer(messages, tools)
        if isinstance(said, str):
            found = ModelOutput.from_content("mockllm/model", said)
        else:
            found = ModelOutput.for_tool_call("mockllm/model", *said)
        found.usage = ModelUsage(input_tokens=10, output_tokens=5, total_tokens=15)
        return found

    return get_model("mockllm/model", custom_outputs=output)


@pytest.mark.parametrize("shaped", [False, True])
def test_each_sample_scores_what_its_answer_deserves_and_a_fault_is_an_error(
    shaped: bool, tmp_path: Path
) -> None:
    from inspect_ai.model import get_model

    with serving(ANSWERS) as server:
        model = get_model(
            "openai-api/stub/scripted", base_url=f"{server.url}/v1", api_key="none-needed"
        )
        log = evaluate(model, tmp_path, shaped=shaped)
        assert rewards(log) == (SHAPED if shaped else REWARDS)
        scored = [sample for sample in log.samples if not sample.error]
        assert all(sample.metadata["shaped_reward"] == SHAPED[sample.id] for sample in scored)
        (error,) = (sample.error.message for sample in log.samples if sample.error)
        assert "the machine has lost the sandbox" in error


def test_the_mock_model_calls_tools(tmp_path: Path) -> None:
    def answer(messages: list[Any], tools: list[Any]) -> tuple[str, dict[str, Any]]:
        assert {tool.name for tool in tools} == {"execute", "submit"}
        codes = next(ANSWERS[message.text] for message in messages if message.text in ANSWERS)
        left = [codes] if isinstance(codes, str) else codes
        done = sum(message.role == "tool" for message in messages)
        return ("execute", {"code": left[done]}) if done < len(left) else ("submit", {})

    log = evaluate(mock(answer), tmp_path, agent="tools")
    assert rewards(log) == REWARDS
    assert log.stats.model_usage["mockllm/model"].output_tokens > 0


@pytest.mark.parametrize("env", ["bash", "sql", "python", "ctf"])
def test_the_starter_tasks_have_names_of_their_own(env: str, tmp_path: Path) -> None:
    from inspect_ai import eval as inspect_eval

    golds = {task.query: task.gold for task in intercode.prepare(env).tasks}

    def answer(messages: list[Any], tools: list[Any]) -> str:
        code = next(golds[message.text] for message in messages if message.text in golds)
        if messages[-1].role != "user" or messages[-1].text not in golds:
            flag = re.search(r"intercode\{.*?\}", messages[-1].text)
            code = f"submit {flag[0] if flag else ''}".strip()
        return f"```{'bash' if env == 'ctf' else env}\n{code}\n```"

    options = {"log_dir": str(tmp_path), "display": "none", "limit": 2}
    (log,) = inspect_eval(f"intercode/{env}", model=mock(answer), task_args={"turns": 3}, **options)
    assert log.eval.task == f"intercode/{env}"
    assert list(rewards(log).values()) == [1.0, 1.0]


def test_a_server_that_fails_gives_an_error_and_no_score(tmp_path: Path) -> None:
    from inspect_ai.model import GenerateConfig, get_model

    with serving(ANSWERS) as server:
        server.healthy = False
        config = GenerateConfig(max_retries=0)
        model = get_model(
            "openai-api/stub/scripted",
            base_url=f"{server.url}/v1",
            api_key="none-needed",
            config=config,
        )
        log = evaluate(model, tmp_path, limit=1)
        assert rewards(log) == {"right": None}
        assert log.samples[0].error


def test_a_limit_of_inspect_ends_the_episode_scored(tmp_path: Path) -> None:
    from inspect_ai.model import get_model

    with serving(ANSWERS) as server:  # each reply costs 110 tokens
        model = get_model(
            "openai-api/stub/scripted", base_url=f"{server.url}/v1", api_key="none-needed"
        )
        log = evaluate(model, tmp_path, limit=2, token_limit=150)
        assert rewards(log) == {"right": 1.0, "late": 0.0}
        assert {sample.limit.type for sample in log.samples} == {"token"}


@pytest.fixture
def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The log of a run in which the machine fails at one task."""
    with serving(ANSWERS) as server:
        monkeypatch.setenv("INTERCODE_BASE_URL", server.variables["INTERCODE_BASE_URL"])
        intercode.evaluate(
            "shaky:ShakyEnv", agent="try_again", model="m", price=(1.0, 2.0), out=tmp_path / "run"
        )
    (tmp_path / "logs").mkdir()
    assert export_run(tmp_path / "run", "inspect", output=tmp_path / "logs" / "run.eval")[0] == 4
    return tmp_path / "logs"


def test_an_exported_fault_is_an_error_and_no_score(exported: Path) -> None:
    from inspect_ai.log import read_eval_log

    log = read_eval_log(str(exported / "run.eval"))
    assert rewards(log) == SHAPED  # the reward of the run
    (score,) = log.results.scores
    assert (score.scored_samples, score.unscored_samples) == (3, 1)
    assert score.metrics["mean"].value == pytest.approx(2.5 / 3)
    samples = {sample.id: sample for sample in log.samples}
    assert "the machine has lost the sandbox" in samples["broken"].error.message
    late = samples["late"]
    assert [message.role for message in late.messages[:5]] == [
        *("system", "user", "assistant", "tool", "assistant"),
    ]
    (call,) = late.messages[2].tool_calls
    assert (call.function, call.arguments) == ("execute", {"code": "ls /"})
    assert (late.scores["reward"].answer, late.messages[5].text) == ("8\n", "8\n")
    usage = late.model_usage["m"]
    assert (usage.input_tokens, usage.output_tokens) == (300, 30)
    assert usage.total_cost == pytest.approx(0.00036)
    assert log.stats.model_usage["m"].total_tokens == sum(
        sample.model_usage["m"].total_tokens for sample in log.samples
    )


@contextmanager
def inspect_view(folder: Path) -> Iterator[str]:
    """Serve the logs of a folder on loopback within the block; yield the address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["view", "--log-dir", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen([Path(sys.executable).with_name("inspect"), *words])

    def answers() -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_until(answers, 60)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


@needs_chromium
def test_inspect_view_shows_an_exported_run(exported: Path) -> None:
    def shows(text: str) -> str:
        return f"document.body.innerText.includes({text!r})"

    with inspect_view(exported) as address, browser() as tab:
        tab.open(f"{address}/?1#/logs/run.eval", width=1300)
        tab.wait(shows("1 of 4 samples (25%) had errors and were not scored"), 60)
        for name in REWARDS:
            tab.wait(shows(name), 30)
        tab.open(f"{address}/?2#/logs/run.eval/samples/sample/late/1", width=1300)
        tab.wait(shows("Print the sum of 4 and 4."), 60)
        tab.wait(shows("execute") + "&&" + shows("echo 8"), 30)


def test_tools_of_an_inspect_task_run_in_our_sandboxes(tmp_path: Path) -> None:
    from inspect_ai import Task
    from inspect_ai import eval as inspect_eval
    from inspect_ai.dataset import Sample
    from inspect_ai.solver import solver
    from inspect_ai.util import sandbox

    outputs: list[str] = []

    @solver
    def shout() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            done = await sandbox().exec(["sh", "-c", "cat given - | tr a-z A-Z"], input=" it")
            outputs.append(done.stdout)
            return state

        return solve

    samples = [Sample("x", files={"given": f"say{number}"}) for number in range(8)]
    task = Task(samples, solver=shout(), sandbox="intercode")
    (log,) = inspect_eval(task, model="mockllm/model", log_dir=str(tmp_path), display="none")
    assert log.status == "success", log.error
    assert sorted(outputs) == [f"SAY{number} IT" for number in range(8)]


def test_a_time_limit_of_inspect_ends_a_command_in_our_sandbox(tmp_path: Path) -> None:
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.solver import Generate, TaskState, solver
    from inspect_ai.util import sandbox

    @solver
    def waiting() -> Any:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            await sandbox().exec(["sleep", "infinity"])
            return state

        return solve

    task = Task([Sample("wait")], solver=waiting(), sandbox="intercode", time_limit=3)
    (log,) = eval(task, model="mockllm/model", log_dir=str(tmp_path), display="none")
    assert log.status == "success", log.error
    (sample,) = log.samples
    assert sample.limit.type == "time"


def test_our_sandboxes_pass_all_checks_of_inspect_but_those_of_a_second_user() -> None:
    import anyio
    from inspect_ai.util._sandbox import self_check

    from intercode_sandbox.adapters.inspect_sandbox import IntercodeSandbox

    async def failing() -> list[str]:
        worlds = await IntercodeSandbox.sample_init("test", None, {})
        failed = []
        for name in self_check.__all__:
            try:
                await getattr(self_check, name)(worlds["default"])
            except AssertionError:
                failed.append(name)
        await IntercodeSandbox.sample_cleanup("test", None, worlds, False)
        return failed

    assert len(self_check.__all__) == 44
    assert anyio.run(failing) == ["test_exec_as_user"]


def test_inspects_own_tools_run_in_a_hundred_sandboxes_at_once(tmp_path: Path) -> None:
    from inspect_ai import Task
    from inspect_ai import eval as inspect_eval
    from inspect_ai.dataset import Sample
    from inspect_ai.scorer import includes
    from inspect_ai.solver import generate, solver, use_tools
    from inspect_ai.tool import bash, python

    count = 100
    arrived: list[str] = []
    all_open = asyncio.Event()

    @solver
    def meet() -> Any:
        """Wait until all sandboxes are open."""

        async def solve(state: Any, generate: Any) -> Any:
            arrived.append(state.input_text)
            if len(arrived) == count:
                all_open.set()
            await asyncio.wait_for(all_open.wait(), 600)
            return state

        return solve

    def answer(messages: list[Any], tools: list[Any]) -> str | tuple[str, dict[str, Any]]:
        seen = " ".join(message.text.strip() for message in messages if message.role == "tool")
        if "squared" in seen:
            return seen
        if seen:
            return "python", {"code": "print('squared', int(open('/tmp/n').read()) ** 2)"}
        return "bash", {"command": "cat given | tee /tmp/n"}

    samples = [
        Sample(str(number), target=f"{number} squared {number**2}", files={"given": str(number)})
        for number in range(count)
    ]
    task = Task(
        samples,
        solver=[meet(), use_tools([bash(), python()]), generate()],
        scorer=includes(),
        sandbox="intercode",
    )
    options = {"log_dir": str(tmp_path), "display": "none", "max_connections": count}
    (log,) = inspect_eval(task, model=mock(answer), max_samples=count, **options)
    assert log.status == "success", log.error
    assert log.results.scores[0].metrics["accuracy"].value == 1.0
    assert len(set(arrived)) == count


def test_the_command_line_puts_a_ctf_task_into_our_sandboxes(tmp_path: Path) -> None:
    from inspect_ai.log import read_eval_log

    command = [
        Path(sys.executable).with_name("inspect"), "eval", "flag_task.py",
        "--sandbox", "intercode", "--log-dir", tmp_path, "--display", "plain",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.glob("*.eval")
    log = read_eval_log(str(path))
    assert log.eval.sandbox.type == "intercode"
    scores = {sample.id: sample.scores["includes"].value for sample in log.samples}
    assert scores == {"given": "C", "other": "I"}
