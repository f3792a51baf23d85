"""Whether `check` names tests that load code of the agent into their own process, in the languages
that tests/envs/test_verified_languages.py leaves out.

    python scripts/verified_languages.py [LANGUAGE…]

For each language there is a task whose tests load the gold's code and are judged by their exit
status; it must be named (`unsafe_test`). Another task's tests start a process for each case and
compare its text; it must not be named. What is not installed in /usr/bin is said. Exit status 1 if
a task is judged wrongly.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import intercode

FOLDERS = "export HOME=/w GOCACHE=/w/go GO111MODULE=off GOFLAGS=-p=1; mkdir -p /w; "
JAVA_MAIN = "public class Main { public static void main(String[] words) { System.exit(%s); } }"


class Language(NamedTuple):
    """The file /srv/app/`name` defines a function in `code`, which `loads` tests; in `program` it
    prints twice its argument, and `starts` starts it. `tests` are files next to test.sh."""

    tool: str
    name: str
    code: str
    loads: str
    program: str
    starts: str
    tests: Mapping[str, str] = MappingProxyType({})


LANGUAGES = {
    "ts": Language(
        "tsc",
        "fee.ts",
        "export function fee(n: number): number { return 2 * n; }",
        "tsc --outDir /w /srv/app/fee.ts; "
        "node -e 'process.exit(+(require(\"/w/fee.js\").fee(2) !== 4))'",
        "declare var process: any; console.log(2 * process.argv[2]);",
        "(tsc --outDir /w /srv/app/fee.ts >/dev/null; node /w/fee.js $n)",
    ),
    "ts, types stripped": Language(
        "node",
        "fee.ts",
        "export function fee(n: number): number { return 2 * n; }",
        "node --experimental-strip-types --input-type=module -e "
        "'import {fee} from \"/srv/app/fee.ts\"; process.exit(+(fee(2) !== 4))'",
        "console.log(2 * +process.argv[2]);",
        "node --experimental-strip-types /srv/app/fee.ts $n",
    ),
    "mjs": Language(
        "node",
        "fee.mjs",
        "export const fee = n => 2 * n;",
        "node --input-type=module -e "
        "'import {fee} from \"/srv/app/fee.mjs\"; process.exit(+(fee(2) !== 4))'",
        "console.log(2 * process.argv[2]);",
        "node /srv/app/fee.mjs $n",
    ),
    "rb": Language(
        "ruby",
        "fee.rb",
        "def fee(n) = 2 * n",
        "ruby -I/srv/app -rfee -e 'exit fee(2) == 4'",
        "puts 2 * ARGV[0].to_i",
        "ruby /srv/app/fee.rb $n",
    ),
    "php": Language(
        "php",
        "fee.php",
        "<?php function fee($n) { return 2 * $n; }",
        "php -r 'require \"/srv/app/fee.php\"; exit(fee(2) === 4 ? 0 : 1);'",
        "<?php echo 2 * $argv[1];",
        "php /srv/app/fee.php $n",
    ),
    "lua": Language(
        "lua5.4",
        "fee.lua",
        "function fee(n) return 2 * n end",
        "lua5.4 -e 'dofile(\"/srv/app/fee.lua\"); os.exit(fee(2) == 4)'",
        "print(2 * arg[1])",
        "lua5.4 /srv/app/fee.lua $n",
    ),
    "cpp": Language(
        "g++",
        "fee.cpp",
        "int fee(int n) { return 2 * n; }",
        "g++ -o /w/main /tests/main.cc /srv/app/fee.cpp && /w/main",
        "#include <iostream>\nint main(int, char **w) { std::cout << 2 * std::stoi(w[1]); }",
        "(g++ -o /w/fee /srv/app/fee.cpp && /w/fee $n)",
        {"main.cc": "int fee(int); int main() { return fee(2) != 4; }"},
    ),
    "go": Language(
        "go",
        "fee.go",
        "package main\n\nfunc fee(n int) int { return 2 * n }",
        "cp /srv/app/fee.go /tests/main.go /w && cd /w && "
        "go build -o main fee.go main.go && ./main",
        'package main\nimport ("fmt"; "os"; "strconv")\n'
        "func main() { n, _ := strconv.Atoi(os.Args[1]); fmt.Println(2 * n) }",
        "(cd /w; go run /srv/app/fee.go $n)",
        {"main.go": 'package main\nimport "os"\nfunc main() { if fee(2) != 4 { os.Exit(1) } }'},
    ),
    "java": Language(
        "javac",
        "Fee.java",
        "/** This class adds. */\npublic class Fee\n"
        "{ public static int of(int n) { return 2 * n; } }",
        "javac -d /w /srv/app/Fee.java /tests/Main.java && java -cp /w Main",
        "public class Fee { public static void main(String[] words) {"
        " System.out.println(2 * Integer.parseInt(words[0])); } }",
        "java /srv/app/Fee.java $n",
        {"Main.java": JAVA_MAIN % "Fee.of(2) == 4 ? 0 : 1"},
    ),
    "rs": Language(
        "rustc",
        "fee.rs",
        "pub fn fee(n: i32) -> i32 { 2 * n }",
        "rustc -o /w/main /tests/main.rs && /w/main",
        'fn main() { println!("{}", 2 * std::env::args().nth(1).unwrap()'
        ".parse::<i32>().unwrap()); }",
        "(rustc -o /w/fee /srv/app/fee.rs && /w/fee $n)",
        {
            "main.rs": '#[path = "/srv/app/fee.rs"] mod fee;\n'
            "fn main() { std::process::exit((fee::fee(2) != 4) as i32) }"
        },
    ),
}


def records(name: str, language: Language, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the tasks `NAME loads` and `NAME starts`; their tests are written into the folder."""
    compares = f'[ "$( {language.starts})" = $((2 * n)) ] || exit 1'
    for how, code, script in (
        ("loads", language.code, language.loads),
        ("starts", language.program, f"for n in 2 5; do {compares}; done"),
    ):
        tests = folder / f"{name} {how}"
        tests.mkdir()
        for file, text in {**language.tests, "test.sh": f"{FOLDERS}{script}\n"}.items():
            (tests / file).write_text(text)
        yield {
            "id": f"{name} {how}",
            "query": f"Write the code of {name} that the tests {how}.",
            "gold": f"mkdir -p /srv/app; cat >/srv/app/{language.name} <<'CODE'\n{code}\nCODE",
            "verify": tests.name,
            "verify_seconds": 120,
        }


def main(words: list[str]) -> int:
    wrong = False
    with tempfile.TemporaryDirectory() as temporary:
        folder, tree = Path(temporary), Path(temporary, "tree")
        for etc in Path("/etc").glob("java-*"):  # the settings of Debian's Java, not in a sandbox
            shutil.copytree(etc, tree / "etc" / etc.name)
        (tree / "srv").mkdir(parents=True)
        present = {name: it for name, it in LANGUAGES.items() if not words or name in words}
        for name, language in list(present.items()):
            if shutil.which(language.tool, path="/usr/bin") is None:
                print(f"{name}: not played, {language.tool} is not installed")
                del present[name]
        rows = [row for name, it in present.items() for row in records(name, it, folder)]
        (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        env = intercode.make("bash", data=str(folder / "tasks.jsonl"), tree=str(tree))
        with closing(env):
            for task in env.tasks:
                faults = env.run_gold(task).faults
                kinds = [getattr(fault, "kind", "gold_fails") for fault in faults]
                if "gold_fails" in kinds:
                    print(f"{task.id}: not played, {faults[0]:.900}")
                    continue
                right = kinds == (["unsafe_test"] if task.id.endswith("loads") else [])
                wrong |= not right
                print(f"{task.id}: {'right' if right else 'WRONG'}, {list(map(str, faults))}")
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
