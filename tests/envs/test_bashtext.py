"""Bash itself says which command of a gold gave its status, and whether that was an answer."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from intercode.envs.bashtext import answers, ends_in_failure

TELLING, OTHER = 42, 7
STUBS = "".join(
    f"function {name} {{ return {status}; }}\n"
    for status, names in (
        (TELLING, "grep egrep fgrep zgrep diff cmp zdiff zcmp test [ expr let"),
        (OTHER, "rm mv cp cat ls tar sort wc head"),
    )
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
    "zdiff a.gz b.gz",
    "cd / && zcmp a.gz b.gz",
    "expr 1 - 1; let x=0",
    "let x=1; cat f",
]


def shell(script: str, **where: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL, check=False, **where
    )


@pytest.mark.parametrize("gold", GOLDS)
def test_the_command_that_gives_the_status(gold: str) -> None:
    done = shell(STUBS + gold)
    assert done.returncode in {TELLING, OTHER, 0}, done
    assert answers(gold, "") == (done.returncode == TELLING)


@pytest.mark.parametrize(
    "gold",
    [
        "[[ a == b ]]", "[[ a == a && c == d ]]", "[[ a == b || c > d ]]", "((0))", "(( 1 > 3 ))", "! true", "! true | cat",
        "cd / && ! true", "false || [[ a == b ]]", "false || ! true", "cd /; [[ a == b ]] # so",
        "true; /bin/grep zzz /dev/null", "grep -c zzz /dev/null >/dev/null", "[[ a == b ]] && echo same",
        "cat nosuch", "rm $(grep -l zzz /dev/null)", "cd /nosuch", "ls $(! true) /nosuch | cat /nosuch", "mkdir /dev/null/x",
        "grep zzz /dev/null; cat nosuch", "[[ a == b ]]; cat nosuch", "! true; cat nosuch", "mkdir nosuch/b/c && ! true",
        "[[ a == a ]] && rmdir /dev", "[[ -e nosuch ]] < nosuch", "(( 1.5 > 1 ))", "(( 1 / 0 ))", "[[ 1.5 -gt 1 ]]",
        "grep x < nosuch", "grep -c x /dev/null > nosuch/x", "cd nosuch && grep x f", "cat nosuch && grep x /dev/null",
        "set -o pipefail; cat nosuch | grep x", "set -e; cat nosuch; grep x f", "cat nosuch || exit 1; grep x f",
        "[ -f nosuch ] && cat nosuch", "cmp -s /dev/null /etc/passwd && echo same", "expr 2 - 2", "let 0", "let 1/0",
        "set -u -o pipefail; cat nosuch | grep x", "set -uo pipefail; cat nosuch | grep x",
    ],
)  # fmt: skip
def test_status_1_is_an_answer_where_nothing_complains(gold: str) -> None:
    done = shell(gold)
    assert done.returncode == 1
    assert ends_in_failure(1, gold, done.stdout + done.stderr) == bool(done.stderr)
    assert ends_in_failure(2, gold, "")
    assert not ends_in_failure(0, gold, done.stderr)


WATCHED = "".join(
    f'function {name} {{ local rc=0; command {name} "$@" || rc=$?; printf "%s\\n" "{name} $rc" >> "$RECORD"; return $rc; }}\n'
    for names in ("grep diff cmp test [", "cat ls find sort rm mkdir rmdir cp echo head chmod python3 tar")
    for name in names.split()
)
IN_A_FOLDER = [
    "grep zzz notes",
    "grep x < nosuch",
    "grep -c host notes > nosuch/x",
    "cd nosuch && grep host notes",
    "cd sub && grep zzz a",
    "cat nosuch && grep host notes",
    "mkdir b/c && grep x notes",
    "cp notes copy && diff copy sub/a",
    "[ -f notes ] && rmdir sub",
    "grep -q host notes && rmdir sub",
    "grep -q host notes && cat sub",
    "grep -q host notes && python3 -c 'raise ValueError(3)'",
    "test -f notes && cp sub copy",
    "test -f notes && head -n 1 sub",
    "test -f notes && chmod 600 nosuch",
    "[ -f nosuch ] && cat nosuch",
    "cmp -s notes sub/a && echo same",
    "grep -q zzz notes && echo yes",
    "test -d sub && test -d nosuch",
    "find nosuch | grep nosuch",
    "ls nosuch | grep x",
    "cat nosuch 2>&1 | grep zzz",
    "cd nosuch || cd sub; grep -q zzz a",
    "rm nosuch; [ -e nosuch ]",
    "ls nosuch | cat; grep -q foo notes",
    "rm nosuch || grep zzz notes",
    "diff notes sub/a",
    "diff notes sub/a | grep '^>' | grep zzz",
    "echo 'cat: permission denied' > log; cat log; grep -q fatal log",
    "echo 'bash: line 3: x: y' > log; cat log; grep -q fatal log",
    "sort nosuch | cat; rmdir sub",
    "[ -f notes ] && rm nosuch 2> /dev/null",
    "[ -d sub ] && rmdir sub &> /dev/null",
    "grep -q host notes && cp nosuch x 2>> log",
    "test -f notes && cat nosuch > /dev/null 2>&1",
    "cmp notes nosuch > /dev/null 2>&1 || grep zzz notes 2>&1",
    "test -f nosuch && cat notes 2>&1",
    "tar cf new.tar /etc/hostname && grep zzz notes",
    "mkdir -v new && [ -f new/x ]",
    "rmdir -v sub/* new; mkdir new && rmdir -v new && [ -d new ]",
    "{ grep host notes; } > nosuch/out",
    "(grep host notes) > nosuch/out",
    "{ grep zzz notes; } > out",
    "grep zzz notes 2> /dev/null",
    "cd nosuch &&\n  grep host notes",
    "[ -f nosuch ] &&\n  cat nosuch",
    "cat notes |\n  grep zzz",
    "rm nosuch ||\n  grep zzz notes",
    "set -e; cat nosuch; grep host notes",
    "set -eu\nrm nosuch\n[ -f notes ]",
    "set -o errexit; cp nosuch copy; diff notes copy",
    "rmdir sub || exit 1; diff notes sub/a",
    "cat nosuch || { echo none; exit 1; }; grep host notes",
    "cat notes || exit 1; grep zzz notes",
    "set -e; cat notes; grep -q zzz notes",
    "echo exit; rm nosuch 2> /dev/null; grep zzz notes",
    "cat nosuch notes | grep -w return",
    "find nosuch sub -type f | sort | grep exit",
    "rm nosuch; grep -w exit notes",
    "rm nosuch; echo 'set -e'; grep zzz notes",
    "cd nosuch || cd sub; grep -rw return .",
    "f() { cat $1 || return 1; }; f nosuch && grep zzz notes",
    "if cat nosuch; then ls; else exit 1; fi; grep zzz notes",
    "set -u -e; rm nosuch; grep zzz notes",
    "set -o nounset -o errexit; rm nosuch; grep zzz notes",
    "set -e; cd nosuch; grep zzz notes",
    "rm nosuch || ! exit 1; grep zzz notes",
    "rm nosuch || >&2 exit 1; grep zzz notes",
    "A=1 set -e; rm nosuch; grep zzz notes",
    "if set -e; then rm nosuch; fi; grep zzz notes",
    "readonly A=1; declare A=2; grep zzz notes",
    "set -e; bind -l > names; grep zzz names",
    "set -e; mkdir -v new; grep zzz notes",
    "set -e; echo 'na''me: not set' > conf; cat conf; grep -q fatal conf",
    "grep host < 'my file'",
    "set -e; cat < 'my file'; grep host notes",
    "echo x > 'no dir/x' || exit 1; grep host notes",
    "cd warning && grep zzz notes",
    "x=$((1/0)); grep host notes",
    "UID=5; grep host notes",
    "shopt -s failglob; rm *.bak; grep host notes",
    "let 1/0; grep zzz notes",
]


@pytest.mark.parametrize("gold", IN_A_FOLDER)
def test_status_1_is_an_answer_of_the_command_that_was_the_last_to_end(gold: str, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("a host\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a").write_text("other\n")
    record = tmp_path / "record"
    done = shell(f"{WATCHED}exec 2>&1\n{gold}", cwd=tmp_path, env={**os.environ, "RECORD": str(record)})
    last = record.read_text().splitlines()[-1] if record.exists() else ""
    assert done.returncode == 1
    assert ends_in_failure(1, gold, done.stdout) == (last not in {"grep 1", "diff 1", "cmp 1", "test 1", "[ 1"})


@pytest.mark.parametrize(
    "piece", ["1", "[[ ", "((", "<", "$(", "a && ", "then set ", "a=b ", "<<E\n", "<<E ", f"<<{'E' * 200}\n", "'", "\\"]
)
def test_a_long_gold_takes_no_longer_than_its_length(piece: str) -> None:
    def seconds(pieces: int) -> float:
        start = time.process_time()
        answers("grep x " + piece * pieces + " f", "")
        return time.process_time() - start

    assert min(seconds(8_000) for _ in range(3)) < 10 * max(min(seconds(2_000) for _ in range(3)), 0.002)
