"""Why a re-executed turn earns another reward than the recorded one: one rule for each cause, each an experiment.

    executed in another variant    the recorded observation appears, and the recorded reward       clock, bash 5.2, userland, …
    the recorded text for ours     it differs only so far, and earns the recorded reward           order, clock, userland, …
    the gold's output cut          its last characters, as many as the agent's output has, do so   recording cut
    network programs listened to   one that the gold or the action ran reached nothing             network

The first rule that holds gives the cause. A rule looks at no task number and no query. What none explains is
"unexplained". Causes that hold only together are joined by "+".

The cut: in its runs of May 20 and 21 the first system scored against only the last N characters of the gold's output,
N being the length of the agent's, wherever both are recorded. `cut_evidence` counts where, run by run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

from fidelity.proof import UNEXPLAINED, Proof
from fidelity.scenes import BASE, NETWORK_LOG, Scene, Variant, saying
from fidelity.text import kinship, no_network, not_found, recut, reordered
from intercode.types import Outcome

CUT = "recording cut"
_TREES = "/index.html /testbed /system /backup /workspace /.placeholder"

BASH_51 = Variant("bash's old patterns", "\necho 'shopt -u globskipdots' > /etc/bash-5.1\n", (("BASH_ENV", "/etc/bash-5.1"),))
AGES = [
    Variant("all files new", f"\nfind {_TREES} -exec touch -h {{}} + 2>/dev/null || true\n"),
    Variant("all files old", f"\nfind {_TREES} -exec touch -h -d '400 days ago' {{}} + 2>/dev/null || true\n"),
]
LOGS = Variant(
    "Ubuntu's /var/log",
    """
rm -rf /var/log/*
touch -d '70 days ago' /var/log/{bootstrap.log,btmp,wtmp}
mkdir /var/log/apt; touch /var/log/{faillog,lastlog,alternatives.log,dpkg.log} /var/log/apt/{history,term}.log
""",
)
ANOTHER = Variant("the first container", number=1)
_FIND = """
printf '#!/bin/bash\\nset -o pipefail; /usr/bin/find "$@" | TMPDIR=/dev/shm {}\\n' > /usr/local/bin/find
chmod 755 /usr/local/bin/find
"""
ORDERS = [
    Variant("find printing backwards", _FIND.format("tac")),
    Variant("find printing in order", _FIND.format("LC_ALL=C sort")),
]
LISTENING = Variant(
    "network programs listened to",
    f"""
for name in dig host nslookup ping curl wget getent; do
    real=$(type -P "$name") || continue
    printf '#!/bin/bash\\n%s "$@" > >(tee -a {NETWORK_LOG}) 2> >(tee -a {NETWORK_LOG} >&2)\\n' "$real" > "/usr/local/bin/$name"
    chmod 755 "/usr/local/bin/$name"
done
""",
)


Rule = Callable[[Scene], Proof | None]
Said = tuple[Outcome, str | None]
"""An outcome, and the cause that its text stands for; None: it is as executed."""


def explain(scene: Scene, rules: Sequence[Rule] | None = None) -> Proof:
    for rule in RULES if rules is None else rules:
        proof = rule(scene)
        if proof is not None:
            return proof
    return Proof(UNEXPLAINED, "")


# -- executed in another variant ----------------------------------------------------------------------------------------


def by_chance(scene: Scene) -> Proof | None:
    if scene.hits(scene.agent(), scene.gold()):
        return Proof("chance", "executed once more, it agrees")
    return None


def by_bash(scene: Scene) -> Proof | None:
    return _in_variant(scene, BASH_51, "bash 5.2")


def by_programs(scene: Scene) -> Proof | None:
    """Programs that were not found then and are now."""
    then = not_found(scene.observation + (scene.gold_output or ""))
    missing = then - not_found(scene.agent().output + scene.gold().output)
    names = " ".join(sorted(missing))
    without = Variant(f"without {names}", f'\nfor name in {names}; do rm -f "$(type -P "$name")"; done\n')
    return _in_variant(scene, without, "userland") if names else None


def by_logs(scene: Scene) -> Proof | None:
    actions = [scene.episode.task.gold, *filter(None, scene.episode.then.actions[: scene.index + 1])]
    return _in_variant(scene, LOGS, "userland") if any("/var/log" in action for action in actions) else None


def by_order(scene: Scene) -> Proof | None:
    return _in_pairs(scene, ORDERS, "order")


def by_container(scene: Scene) -> Proof | None:
    """Some runs on the second tree were executed in a container with the first, as their listings of `/` show."""
    return _in_variant(scene, ANOTHER, "wrong container")


def by_age(scene: Scene) -> Proof | None:
    """The agent's container and the gold's had histories, hence ages, of their own."""
    return _in_pairs(scene, AGES, "clock")


def _in_pairs(scene: Scene, variants: list[Variant], cause: str) -> Proof | None:
    """The agent in one variant, the gold in the same or another."""
    for one, other in product([BASE, *variants], repeat=2):
        proof = _text_and_reward(scene, one, other, cause) if (one, other) != (BASE, BASE) else None
        if proof is not None:
            return proof
    return None


def _in_variant(scene: Scene, variant: Variant, cause: str) -> Proof | None:
    return _text_and_reward(scene, variant, variant, cause)


def _text_and_reward(scene: Scene, one: Variant, other: Variant, cause: str) -> Proof | None:
    """The agent in one variant sees what was recorded, and against the gold in the other earns what was recorded."""
    for agent, gold, causes in _pairs(scene, one, other):
        if agent.output == scene.observation and scene.hits(agent, gold):
            return Proof(_named(cause, *causes), f"executed elsewhere: agent with {one.name}, gold with {other.name}")
    return None


# -- texts --------------------------------------------------------------------------------------------------------------


def by_cut(scene: Scene) -> Proof | None:
    """The gold's output is cut, and nothing else differs."""
    agent, gold = scene.agent(), scene.gold()
    if not scene.cut or not scene.hits(agent, clipped(gold, agent)):
        return None
    known = scene.last and scene.gold_output == clipped(gold, agent).output
    lengths = f"the last {len(agent.output)} of {len(gold.output)} characters"
    return Proof(CUT, f"{'cut as recorded' if known else 'cut to the length'}: {lengths} earn the recorded reward")


def by_text(scene: Scene) -> Proof | None:
    for agent, gold, causes in _pairs(scene, BASE, BASE):
        if causes and scene.hits(agent, gold):
            return Proof(_named(*causes), "recorded text in place of ours: earns the recorded reward")
    return None


def _pairs(scene: Scene, one: Variant, other: Variant) -> Iterator[tuple[Outcome, Outcome, list[str]]]:
    """Outcomes of both sides as executed, then with recorded texts where these are kin, then cut; and the causes so far."""
    for (agent, seen), (gold, told) in product(_agents(scene, one), _golds(scene, other)):
        causes = [cause for cause in (seen, told) if cause]
        yield agent, gold, causes
        short = clipped(gold, agent)
        if scene.cut and short != gold:
            yield agent, short, [*causes, CUT]


def _agents(scene: Scene, variant: Variant) -> Iterator[Said]:
    ours = scene.agent(variant)
    yield ours, None
    cause = kinship(scene.observation, ours.output)
    if cause:
        yield saying(ours, scene.observation), cause


def _golds(scene: Scene, variant: Variant) -> Iterator[Said]:
    """The gold as executed; as recorded; with the recorded values in the part that was recorded; in the agent's order."""
    ours, recorded = scene.gold(variant), scene.gold_output
    yield ours, None
    if recorded is not None and recorded != ours.output:
        cause, valued = kinship(recorded, ours.output), recut(ours.output, recorded) if scene.cut else None
        if cause:
            yield saying(ours, recorded), cause
        elif valued and valued != ours.output:
            yield saying(ours, valued), "userland"
    ordered = reordered(ours.output, scene.observation)
    if ordered != ours.output:
        yield saying(ours, ordered), "order"


def clipped(gold: Outcome, agent: Outcome) -> Outcome:
    """The gold with as much of its output's end as the agent's output is long; whole against an empty one."""
    return saying(gold, gold.output[-len(agent.output) :])


def cut_evidence(scene: Scene) -> str | None:
    """Was the gold's output "cut" or "whole" at an episode's last turn? None if that cannot be told.

    The recorded output tells; where there is none (ReAct), the recorded reward.
    """
    agent, gold, recorded = scene.agent(), scene.gold(), scene.gold_output
    if agent.output != scene.observation or not 0 < len(agent.output) < len(gold.output):
        return None
    short = clipped(gold, agent)
    if recorded is not None:
        return {short.output: "cut", gold.output: "whole"}.get(recorded)
    return {(True, False): "cut", (False, True): "whole"}.get((scene.hits(agent, short), scene.hits(agent, gold)))


def _named(*causes: str) -> str:
    return " + ".join(dict.fromkeys(causes))


# -- network ------------------------------------------------------------------------------------------------------------


def by_network(scene: Scene) -> Proof | None:
    """A network program that the gold or this turn's action ran says that it reached nothing."""
    heard = scene.episode.on(LISTENING)
    before = heard.network[scene.index - 1] if scene.index else ""
    heard_of = {"gold": heard.gold_network, "action": heard.network[scene.index].removeprefix(before)}
    who = [name for name, said in heard_of.items() if no_network(said)]
    return Proof("network", f"listened to: what the {' and the '.join(who)} ran reached nothing") if who else None


RULES: list[Rule] = [
    by_chance,
    by_cut,
    by_text,
    by_bash,
    by_programs,
    by_logs,
    by_age,
    by_container,
    by_order,
    by_network,
]
