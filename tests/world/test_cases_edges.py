"""Scripts of ../shared/cases about servers, tools, sandboxes, services, judges and InterCode v1."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from faults import definitions
from intercode.adapters.trl import environments
from kept import needs_bwrap
from loopback import Server, serving

import intercode
from intercode.env import EnvFactory
from intercode.models import OpenAIModel
from intercode.train import RolloutPool, groups

pytestmark = pytest.mark.world


@pytest.fixture(scope="module")
def count(tmp_path_factory: pytest.TempPathFactory) -> EnvFactory:
    needs_bwrap()
    file = tmp_path_factory.mktemp("count") / "tasks.jsonl"
    record = {"query": "How many lines are in /srv/n?", "gold": "wc -l < /srv/n"}
    file.write_text(json.dumps(record | {"setup": r"printf 'a\nb\nc\n' > /srv/n"}))
    return intercode.prepare("bash", data=str(file))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["good", "text", "null", "dupids"])
def test_an_odd_answer_of_a_server_is_read(cases: Path, count: EnvFactory, name: str) -> None:
    script = definitions(cases / "14-server.py", "ONE", "TWO", "reply", "Handler")
    agent = "tools" if name == "dupids" else "try_again"
    with serving(Server(script.Handler)) as server, RolloutPool(count, agent, envs=1) as pool:
        model = OpenAIModel(name, base_url=f"{server.url}/v1", logprobs=True, backoff=0.01)
        (rollout,) = pool.run(groups(count.tasks, 1), model)
    assert (rollout.reward, rollout.episode.error) == (1.0, None)
    if name == "null":  # both turns have tokens
        assert [len(segment.token_ids) for segment in rollout.segments] == [3, 3]


def test_the_submit_of_trl_answers_with_that_text(cases: Path, tmp_path: Path) -> None:
    needs_bwrap()
    answers = json.loads((cases / "03-trl-submit.json").read_text())
    texts = ["2" if answer["answer"] is None else answer["answer"] for answer in answers]
    setup = "".join(f"cat > /srv/{n} <<'END'\n{text}\nEND\n" for n, text in enumerate(texts))
    lines = [
        {"query": f"Print the text of /srv/{n}.", "gold": f"cat /srv/{n}", "setup": setup}
        for n in range(len(texts))
    ]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    _, make = environments(intercode.prepare("bash", data=str(tmp_path / "tasks.jsonl")))
    env, rewards = make(), []
    for number, answer in enumerate(answers):
        env.reset(str(number))
        if answer.get("execute"):
            env.execute(f"cat /srv/{number}")
        env.submit() if answer["answer"] is None else env.submit(answer["answer"])
        rewards.append(env.get_reward())
    assert rewards == [1.0] * 7
