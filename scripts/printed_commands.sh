# Makes the files that pages expect, in the working folder; printed_commands.py runs it.
# A file in for-ENV is for the blocks of that environment.
set -euo pipefail
mkdir -p files/srv for-sql/folder for-ctf/folder/easy databases dev_databases/shop tasks/hello/{solution,tests}

printf 'one\ntwo\n' >files/srv/notes.txt
cat >tasks.jsonl <<'EOF'
{"query": "How many lines are in /srv/notes.txt? Print the number only.", "gold": "wc -l < /srv/notes.txt"}
EOF
echo 'echo three >>/srv/notes.txt' >prepare.sh
echo 'Print the number of lines in /etc/passwd.' >all.nl
echo 'wc -l < /etc/passwd' >all.cm
printf "key,question,command\n1,Print the number of lines in /etc/passwd.,wc -l < /etc/passwd\n" >mine.csv
cat >mine.json <<'EOF'
[{"question": "Print the number of articles.", "sql": "SELECT COUNT(*) FROM article", "schema": "shop"}]
EOF
cat >convert.py <<'EOF'
def record(record):
    return {"query": "Print the number of lines in /etc/passwd.", "gold": "wc -l < /etc/passwd"}
EOF

cat >databases/shop.sql <<'EOF'
CREATE TABLE article (id INTEGER PRIMARY KEY, name TEXT);
INSERT INTO article VALUES (1, 'pen'), (2, 'ink'), (3, 'cup');
EOF
cp databases/shop.sql for-sql/folder
python -c 'import sqlite3; sqlite3.connect("dev_databases/shop/shop.sqlite").executescript(open("databases/shop.sql").read())'
{ printf 'CREATE DATABASE `shop`;\nUSE `shop`;\n'; cat databases/shop.sql; } >databases.sql
record='"db_id": "shop", "query": "Print the number of articles.", "gold": "SELECT COUNT(*) FROM article"'
echo "{$record}" | tee for-sql/tasks.jsonl for-sql/tasks.json >/dev/null
echo '[{"db_id": "shop", "question": "Print the number of articles.", "SQL": "SELECT COUNT(*) FROM article"}]' >dev.json

echo flag{easy} >for-ctf/folder/easy/note.txt
echo '[{"id": "easy", "query": "Find the flag in note.txt.", "gold": "flag{easy}"}]' >for-ctf/tasks.json
cat >mbpp.json <<'EOF'
[{"task_id": 1, "text": "Write a function that doubles a number.", "code": "def double(n):\n    return 2 * n", "test_list": ["assert double(3) == 6", "assert double(0) == 0"]}]
EOF
gzip >HumanEval.jsonl.gz <<'EOF'
{"task_id": "own/1", "prompt": "def double(n):\n    \"\"\"Return twice n.\"\"\"\n", "entry_point": "double", "canonical_solution": "    return 2 * n\n", "test": "def check(candidate):\n    assert candidate(3) == 6\n    assert candidate(0) == 0\n"}
EOF
printf 'version = "1.0"\n[environment]\ndocker_image = "v1-bash"\n' >tasks/hello/task.toml
echo 'Write the word hello into /srv/hello.txt.' >tasks/hello/instruction.md
printf '#!/bin/bash\necho hello >/srv/hello.txt\n' >tasks/hello/solution/solve.sh
printf '#!/bin/bash\ngrep -qx hello /srv/hello.txt\necho $((1 - $?)) >/logs/verifier/reward.txt\n' >tasks/hello/tests/test.sh

intercode data generate bash-files --n 20 --out data/files
cat >every_other.py <<'EOF'
from intercode.agents import Act


def every_other(task, protocol):
    yield Act(task.gold if int(task.id[-1]) % 2 else "pwd")
    yield Act("submit")


every_other.needs_model = False
EOF
intercode eval bash --data data/files --agent "$PWD/every_other.py:every_other" --out runs/mine
intercode eval bash --data data/files --agent gold --out runs/gold
intercode eval bash --data data/files --agent noop --out runs/noop
intercode export runs/mine --format atif --out jobs/mine
cp -r jobs/mine trajectories
intercode export runs/mine --format intercode --out log.json
for part in 1 3 4 5 6 7; do
    intercode eval bash --agent try_again --model stub --epochs 4 --shard $part/7 --out parts/$part
done
for set in nl2bash spider mbpp ctf; do
    [ ! -d "${INTERCODE_DATA:-}/$set" ] || { mkdir $set && ln -s "$INTERCODE_DATA/$set"/* $set; }
done
intercode image build v1-bash || echo "no image v1-bash: its commands fail"
