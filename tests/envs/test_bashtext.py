"""Bash itself says which command of a gold gave its status, and whether that was an answer."""

from __future__ import annotations

import subprocess
import time

import pytest

from intercode.envs.bash import ends_in_failure
from intercode.envs.bashtext import tells_by_status

TELLING, OTHER = 42, 7
STUBS = "".join(
    f"function {name} {{ return {status}; }}\n"
    for status, names in ((TELLING, "grep egrep fgrep zgrep diff cmp test ["), (OTHER, "rm mv cp cat ls tar sort wc head"))
    for name in names.split()
)
GOLDS = [
    "grep zzz /etc/passwd",
    'grep -q "a|b" f',
    "grep 'z;z' f",
    "grep a\\|b f",
    "grep zzz \\\n  /etc/passwd",
    "grep zzz <<EOF\nabc; cat\nEOF",
    "grep zzz <<'EOF' | cat\nabc\nEOF",
    "cat <<-EOF | grep x\n\tabc\n\tEOF\n",
    "grep zzz <<<'a; b'",
    "grep zzz f 2>&1",
    "grep zzz f &>/dev/null",
    "grep zzz 2>/dev/null </dev/null",
    "LC_ALL=C A='b c' grep zzz f",
    "cat f | sort | egrep -v x",
    "grep a f | wc -l",
    "cd / && fgrep zzz f",
    "nosuch 2>/dev/null || grep zzz f",
    "grep a f; cat nosuch",
    "grep a f\ncat nosuch",
    "grep a f\n\n\n",
    "# don't\ngrep 'zzz' f",
    "grep zzz f # a; cat b",
    "cat a#b # grep",
    "(cd /; grep zzz f)",
    "{ grep zzz f; }",
    "{ cat f; } | { sort; grep x; }",
    "rm $(grep -l zzz /srv/*)",
    "mv $(grep -l zzz /srv/* | sort) /dest",
    "cp $(test -f a) b",
    "cat nosuch $(diff a b)",
    "cat nosuch `grep a b`",
    "cat <(grep zzz f)",
    "diff <(ls a) <(ls b)",
    "cat $( (grep a b) )",
    "grep x $((1+2))",
    'cat "$(grep a b)"',
    "echo 'x; grep' && ls",
    "ls ! f",
    "test a = b",
    "[ a = b ]",
    "x=$(date)\ngrep zzz f",
    "if grep a f; then cat b; fi",
    "for each in 1 2; do grep a f; done | cat",
    "grep\tzzz f",
    "cmp a b && cat same",
    "[ -f x ] && cat x || rm x",
    "test a = b && grep x f && sort f",
    "cat f || test a && ls",
    "cat f & grep zzz f",
]


def shell(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL, check=False
    )


@pytest.mark.parametrize("gold", GOLDS)
def test_the_command_that_gives_the_status(gold: str) -> None:
    done = shell(STUBS + gold)
    assert done.returncode in {TELLING, OTHER, 0}, done
    assert tells_by_status(gold) == (done.returncode == TELLING)


@pytest.mark.parametrize(
    "gold",
    [
        "[[ a == b ]]", "[[ a == a && c == d ]]", "[[ a == b || c > d ]]", "((0))", "(( 1 > 3 ))", "! true", "! true | cat",
        "cd / && ! true", "false || [[ a == b ]]", "false || ! true", "cd /; [[ a == b ]] # so",
        "true; /bin/grep zzz /dev/null", "grep -c zzz /dev/null >/dev/null",
        "cat nosuch", "rm $(grep -l zzz /dev/null)", "cd /nosuch", "ls $(! true) /nosuch | cat /nosuch", "mkdir /dev/null/x",
        "grep zzz /dev/null; cat nosuch", "[[ a == b ]]; cat nosuch", "! true; cat nosuch",
        "grep x < nosuch", "grep -c x /dev/null > nosuch/x", "cd nosuch && grep x f", "cat nosuch && grep x /dev/null",
        "mkdir nosuch/b/c && ! true", "set -o pipefail; cat nosuch | grep x", "set -e; cat nosuch; grep x f",
        "cat nosuch || exit 1; grep x f", "[ -f nosuch ] && cat nosuch", "cmp -s /dev/null /etc/passwd && echo same",
    ],
)  # fmt: skip
def test_status_1_is_an_answer_where_nothing_complains(gold: str) -> None:
    done = shell(gold)
    assert done.returncode == 1
    assert ends_in_failure(1, gold, done.stdout + done.stderr) == bool(done.stderr)
    assert ends_in_failure(2, gold, "")
    assert not ends_in_failure(0, gold, done.stderr)


@pytest.mark.parametrize("piece", ["1", "[[ ", "((", "<", "$(", "a && ", "'", "\\"])
def test_a_long_gold_takes_no_longer_than_its_length(piece: str) -> None:
    def seconds(pieces: int) -> float:
        start = time.perf_counter()
        tells_by_status("grep x " + piece * pieces + " f")
        return time.perf_counter() - start

    assert min(seconds(8_000) for _ in range(3)) < 10 * max(min(seconds(2_000) for _ in range(3)), 0.002)
