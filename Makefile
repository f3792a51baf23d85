# setup leaves everything in .venv; every other target but demo and learn calls it first: these install only what users need.
PYTHON ?= $(firstword $(wildcard /usr/bin/python3.13 /usr/bin/python3.12 /usr/bin/python3.11) python3)
BIN := .venv/bin
STAMP := .venv/.ready
DEMO_STAMP := .venv/.ready-for-demo
FRAMEWORKS := .venv-integrations
PROGRAMS := .venv-programs
PYTEST := $(BIN)/python -m pytest -n 2

.PHONY: setup demo test test-rest fidelity soak programs integrations check docs pictures learn bench bench-all commands format clean

setup: $(STAMP)

$(STAMP): pyproject.toml scripts/setup
	scripts/setup $(PYTHON) dev,view
	touch $(STAMP) $(DEMO_STAMP)

$(DEMO_STAMP): pyproject.toml scripts/setup
	scripts/setup $(PYTHON) view
	touch $(DEMO_STAMP)

demo: $(DEMO_STAMP)
	scripts/demo

test: setup
	$(PYTEST) -m "not rest and not fidelity and not soak and not programs and not integrations" --durations=10

test-rest: setup
	$(PYTEST) -m "rest and not fidelity and not soak and not programs and not integrations" --durations=10

fidelity: setup
	$(PYTEST) -m fidelity

soak: setup
	$(BIN)/python -m pytest -m soak

programs: setup $(PROGRAMS)/.ready
	$(PYTEST) -m programs tests/world/test_programs.py --durations=10

$(PROGRAMS)/.ready: scripts/programs tests/integrations/versions.txt tests/integrations/npm-versions.txt
	scripts/programs $(PYTHON)
	touch $@

integrations: $(FRAMEWORKS)/.ready $(PROGRAMS)/.ready
	for part in frameworks verifiers; do $(FRAMEWORKS)/$$part/bin/pip install --quiet --no-deps . || exit 1; done
	INTERCODE_NOTHING_SKIPS=1 $(FRAMEWORKS)/frameworks/bin/python -m pytest -m integrations tests/integrations --ignore tests/integrations/test_verifiers.py
	INTERCODE_NOTHING_SKIPS=1 $(FRAMEWORKS)/verifiers/bin/python -m pytest -m integrations tests/integrations/test_verifiers.py
	$(FRAMEWORKS)/frameworks/bin/python scripts/newest.py $(PYTHON)

$(FRAMEWORKS)/.ready: pyproject.toml scripts/integrations scripts/programs tests/integrations/versions.txt tests/integrations/npm-versions.txt
	scripts/integrations $(PYTHON)
	touch $@

check: setup
	$(BIN)/ruff format --check src tests benchmarks examples scripts
	$(BIN)/ruff check src tests benchmarks examples scripts
	$(BIN)/mypy
	$(PYTEST) -m "not slow and not fidelity and not soak and not programs and not integrations"

format: setup
	$(BIN)/ruff format src tests benchmarks examples scripts
	$(BIN)/ruff check --fix src tests benchmarks examples scripts

pictures: setup
	$(BIN)/python scripts/pictures.py
	$(BIN)/python examples/learn_menu.py --chart docs/images/learning.svg

learn: $(DEMO_STAMP)
	$(BIN)/python examples/learn_menu.py

bench: setup
	$(BIN)/python benchmarks/peers.py

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench-all: setup
	failed=0; for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || failed=1; done; exit $$failed

commands: setup
	$(BIN)/python scripts/printed_commands.py

clean:
	rm -rf .venv .venv-integrations .venv-programs build dist
