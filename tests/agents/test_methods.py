"""Every strategy but the searches, driven by hand: what each says to the model and does, and how an
agent is named."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from intercode.agents import MODELLED, NAMES, Act, Ask, Step, StrategySteps, make_agent
from intercode.agents.prompts import load_prompts
from intercode.envs import language_of
from intercode.errors import UsageError
from intercode.language import PLAIN
from intercode.types import Message, Reply, Task, ToolCall

TASK = Task("t", "count the lines of notes.txt", "wc -l notes.txt")
OTHERS = [
    Task("b", "count the words of notes.txt", "wc -w notes.txt"),
    Task("c", "list all folders", "ls -d */"),
]


def drive(
    moves: StrategySteps, replies: Sequence[str | Reply], *, score: float = 0.0
) -> tuple[list[str | None], list[Sequence[Message]], list[Act]]:
    """The actions, the questions and the moves of a strategy until it has nothing more to do or to
    ask."""
    left, acts, asked = list(replies), list[Act](), list[Sequence[Message]]()
    answer: object = None
    while True:
        try:
            move = moves.send(answer)
        except StopIteration:
            break
        if isinstance(move, Ask):
            asked.append(move.messages)
            if not left:
                break
            reply = left.pop(0)
            answer = Reply(reply) if isinstance(reply, str) else reply
        else:
            assert isinstance(move, Act)
            acts.append(move)
            acted = (
                f"saw {move.action}",
                score,
                False,
                False,
                {"exit_code": 2 if move.action == "bad" else 0},
            )
            answer = Step(*acted) if move.action else Step(str(move.note), score)
    return [act.action for act in acts], asked, acts


def named(name: str, protocol: str = "submit", turns: int = 10, env: str = "bash") -> StrategySteps:
    language = language_of({"env": env})
    agent = make_agent(name, tasks=[TASK, *OTHERS], turns=turns, language=language)
    return agent.strategy(TASK, protocol)


@pytest.mark.parametrize("env", ["bash", "sql", "python", "ctf"])
@pytest.mark.parametrize("protocol", ["submit", "paper"])
@pytest.mark.parametrize("name", [name.partition(":")[0] for name in MODELLED])
def test_every_prompt_is_filled_and_says_how_much_there_is(
    name: str, protocol: str, env: str
) -> None:
    moves = named(name, protocol, 12, env)
    ask = next(move for move in moves if isinstance(move, Ask))
    system = str(ask.messages[0]["content"])
    assert [message["role"] for message in ask.messages] == ["system", "user"]
    assert str(ask.messages[1]["content"]).startswith(TASK.query)
    for left_open in ("{turns}", "{form}", "{ending}", "{most}", "{tried}"):
        assert left_open not in str(ask.messages)
    assert ("4 turns" if name == "best_of" else "12 turns") in system
    ending = "blind" if (name, protocol) == ("try_again_blind", "paper") else protocol
    assert (
        load_prompts("fence", language_of({"env": env})).texts[ending].partition("{turns}")[2]
        in system
    )


def test_react_reads_actions_and_answers_with_observations() -> None:
    replies = ["Thought: look\nAction: execute[ls]", "I wonder.", "Thought: done\nAction: submit"]
    actions, asked, acts = drive(named("react", turns=3), replies)
    assert actions[:3] == ["ls", None, "submit"]
    assert acts[0].thought == "Thought: look"
    assert "Thought:" in asked[0][0]["content"]
    assert asked[1][-1]["content"] == "Observation: saw ls\n[2 turns left]"
    assert "Action: execute[" in asked[2][-1]["content"]


@pytest.mark.parametrize(
    ("name", "protocol"),
    [("try_again", "submit"), ("try_again", "paper"), ("try_again_blind", "paper")],
)
def test_try_again_is_told_output_exit_code_score_and_turns_left(name: str, protocol: str) -> None:
    actions, asked, acts = drive(
        named(name, protocol, 3), ["```bash\nbad\n```", "I do not know.", "pwd"], score=0.34
    )
    assert actions == ["bad", None, "pwd", *(["submit"] if protocol == "submit" else [])]
    assert acts[1].thought == "I do not know."
    assert "one turn was used up" in str(acts[1].note)
    assert len(asked[0]) == 2, "what was asked does not change afterwards"
    reply, told = asked[1][2:]
    assert reply == {"role": "assistant", "content": "```bash\nbad\n```"}
    assert told["content"].startswith("saw bad\n[exit code 2]")
    assert told["content"].endswith("[2 turns left]")
    assert ("[score 0.34]" in told["content"]) == ((name, protocol) == ("try_again", "paper"))
    assert all(TASK.gold not in str(messages) for messages in asked)


def test_a_plan_is_carried_out_step_by_step_and_submitted() -> None:
    actions, asked, _ = drive(named("plan_solve"), ["1. Look\n2. Count", "ls", "wc -l notes.txt"])
    assert actions == ["ls", "wc -l notes.txt", "submit"]
    assert "at most 10 steps" in asked[0][-1]["content"]
    assert "Step 1 of 2 of your plan: Look" in asked[1][-1]["content"]
    assert asked[2][-1]["content"].startswith("saw ls\n[9 turns left]\n\nStep 2 of 2")


def test_a_plan_with_refinement_goes_on_until_the_model_submits() -> None:
    actions, asked, _ = drive(
        named("plan_solve_refine"), ["1. Count", "wc notes.txt", "wc -l notes.txt", "submit"]
    )
    assert actions[:3] == ["wc notes.txt", "wc -l notes.txt", "submit"]
    assert "Your plan has been carried out" in asked[2][-1]["content"]
    assert "Your plan" not in asked[3][-1]["content"]


def calls(*pairs: tuple[str, str], text: str = "") -> Reply:
    return Reply(
        text,
        calls=tuple(
            ToolCall(f"id{n}", name, arguments) for n, (name, arguments) in enumerate(pairs)
        ),
    )


def code(text: str) -> tuple[str, str]:
    return "execute", json.dumps({"code": text})


def test_each_call_is_an_action_and_each_is_answered() -> None:
    actions, asked, acts = drive(
        named("tools"), [calls(code("ls"), code("pwd"), text="So."), calls(("submit", "{}"))]
    )
    assert actions[:3] == ["ls", "pwd", "submit"]
    assert [act.thought for act in acts[:2]] == ["So.", None]
    said, *answers = asked[1][2:]
    assert [call["id"] for call in said["tool_calls"]] == ["id0", "id1"]
    assert [(told["role"], told["tool_call_id"]) for told in answers] == [
        ("tool", "id0"),
        ("tool", "id1"),
    ]
    assert answers[1]["content"] == "saw pwd\n[8 turns left]"


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (("execute", '{"code": "ls'), "not JSON"),
        (("execute", "[]"), "not a JSON object"),
        (("execute", '{"code": 7}'), "no text under the key code"),
        (("rm", "{}"), "no tool 'rm'"),
    ],
)
def test_a_malformed_call_costs_a_turn_and_is_told_in_its_tool_message(
    call: tuple[str, str], why: str
) -> None:
    actions, asked, _ = drive(named("tools", turns=3), [calls(call)])
    assert actions == [None]
    assert asked[1][-1]["role"] == "tool"
    assert why in asked[1][-1]["content"]
    assert asked[1][-1]["content"].endswith("[2 turns left]")


@pytest.mark.parametrize(
    ("env", "worded"), [("bash", False), ("sql", False), ("python", True), ("ctf", True)]
)
def test_a_word_is_asked_for_only_where_one_is_submitted(env: str, worded: bool) -> None:
    ask = next(named("tools", env=env))
    assert isinstance(ask, Ask)
    assert ("answer" in ask.tools[1]["function"]["parameters"]["properties"]) is worded
    submitted = drive(named("tools", env=env), [calls(("submit", '{"answer": "18 files"}'))])[0]
    assert submitted == ["submit 18 files" if worded else "submit"]


TAKING = Task("t", "count the lines of notes.txt", "wc -l notes.txt", {"takes_answer": True})


@pytest.mark.parametrize(
    ("name", "reply", "action"),
    [
        ("try_again", "```bash\nsubmit 'two lines'\n```", "submit 'two lines'"),
        (
            "react",
            "Thought: done\nAction: submit <<'END'\none\n\ntwo\nEND",
            "submit <<'END'\none\n\ntwo\nEND",
        ),
        (
            "tools",
            Reply("", calls=(ToolCall("a", "submit", '{"answer": "it\'s $2\\n"}'),)),
            "submit 'it'\"'\"'s $2\n'",
        ),
        ("tools", Reply("", calls=(ToolCall("a", "submit", "{}"),)), "submit"),
    ],
)
def test_an_answer_may_be_submitted_where_the_task_takes_one(
    name: str, reply: str | Reply, action: str
) -> None:
    agent = make_agent(name, tasks=[TAKING], language=language_of({"env": "bash"}), turns=1)
    actions, asked, _ = drive(agent.strategy(TAKING, "submit"), [reply])
    assert actions[0] == action
    assert "`submit ANSWER`" in asked[0][0]["content"]
    _, unasked, _ = drive(agent.strategy(TASK, "submit"), [reply])
    assert "`submit ANSWER`" not in unasked[0][0]["content"]


@pytest.mark.parametrize(
    ("name", "protocol", "turns", "actions"),
    [
        ("gold", "submit", 9, ["wc -l notes.txt", "submit"]),
        ("gold", "paper", 9, ["wc -l notes.txt"]),
        ("noop", "paper", 9, [""]),
        ("retrieval", "submit", 9, ["wc -w notes.txt", "submit"]),
        ("retrieval", "paper", 9, ["wc -w notes.txt", "ls -d */"]),
        ("nearest", "submit", 9, ["wc -w notes.txt", "submit"]),
        ("intercode.agents.baselines:noop", "submit", 9, ["submit"]),
    ],
)
def test_the_baselines_act_without_a_model(
    name: str, protocol: str, turns: int, actions: list[str]
) -> None:
    assert drive(named(name, protocol, turns), [])[0] == actions
    assert make_agent(name, tasks=[TASK], language=PLAIN).needs_model == (":" in name), (
        "one of the user's own may ask"
    )


@pytest.mark.parametrize(
    ("query", "action"),
    [
        ("Count the lines of /desk/b.txt longer than 9.", "awk 'length > 9' /desk/b.txt | wc -l"),
        (
            "Now count the lines of /a/a-1.txt longer than 40.",
            "awk 'length > 40' /a/a-1.txt | wc -l",
        ),
        ("Count the lines of /desk/b.txt shorter than 9.", "awk 'length > 9' /desk/b.txt | wc -l"),
    ],
)
def test_nearest_copies_a_gold_with_the_names_of_the_task(query: str, action: str) -> None:
    known = Task(
        "known",
        "Count the lines of /yard/a.txt longer than 31.",
        "awk 'length > 31' /yard/a.txt | wc -l",
    )
    agent = make_agent("nearest", tasks=[known, OTHERS[1]], language=PLAIN)
    assert drive(agent.strategy(Task("t", query, ""), "submit"), [])[0] == [action, "submit"]


@pytest.mark.parametrize(
    "name", ["golden", "no_such_module:f", "intercode.agents:NAMES", "best_of:0"]
)
def test_unknown_agents_are_the_callers_fault(name: str) -> None:
    with pytest.raises(UsageError, match=r"agent|module|function") as error:
        make_agent(name, tasks=[TASK], language=PLAIN)
    assert name != "golden" or all(choice in str(error.value) for choice in NAMES)
