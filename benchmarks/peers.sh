#!/usr/bin/env bash
# Installs the systems that benchmarks/ measures against, each in a virtual environment of its own below FOLDER (outside of this
# repository), and prints the variables by which the scripts find them:
#
#     eval "$(benchmarks/peers.sh FOLDER)"
#
# InterCode v1's import name is `intercode` as well, so it can never share an environment with ours.
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: peers.sh FOLDER" >&2; exit 2; }
: "${PYTHON:=python3}"
mkdir -p "$1"
folder=$(cd "$1" && pwd)

install() { # VARIABLE PACKAGE [what it needs and does not say]
    local home=$folder/$2
    [ -x "$home/bin/python" ] || "$PYTHON" -m venv "$home" >&2
    "$home/bin/python" -m pip install --quiet "${@:2}" >&2
    printf 'export %s=%q\n' "$1" "$home/bin/python"
}

install INTERCODE_BENCH_PYTHON intercode-bench
install SWE_REX_PYTHON swe-rex aiohttp
install MINI_SWE_AGENT_PYTHON mini-swe-agent --editable "$(dirname "$0")/.." # for our adapter
install SANDLOCK_PYTHON sandlock
install BASHKIT_PYTHON bashkit
