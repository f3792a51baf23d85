# setup leaves everything in .venv; every other target but demo and learn calls it first: these install only what users need.
PYTHON ?= $(firstword $(wildcard /usr/bin/python3.13 /usr/bin/python3.12 /usr/bin/python3.11) python3)
BIN := .venv/bin
STAMP := .venv/.ready
DEMO_STAMP := .venv/.ready-for-demo
FRAMEWORKS := .venv-integrations
PROGRAMS := .venv-programs
PYTEST := $(BIN)/python -m pytest -n auto
BY_HAND := not soak and not integrations
OUTSIDE := not fidelity and not world and not programs and $(BY_HAND)

.PHONY: setup demo test test-rest fidelity fidelity-all world programs collected gate lint soak integrations check docs pictures learn bench bench-all commands format clean

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
	$(PYTEST) -m "not rest and $(OUTSIDE)" --durations=10

test-rest: setup
	$(PYTEST) -m "rest and $(OUTSIDE)" --durations=10

fidelity: setup
	$(PYTEST) -m fidelity

fidelity-all: setup
	INTERCODE_FIDELITY_ALL=1 $(PYTEST) -m fidelity

world: setup
	$(PYTEST) -m world tests/world

collected: setup # pytest keeps the tests that it rewrites, so that the processes of the gate need not
	-PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --collect-only >/dev/null

gate: lint $(PROGRAMS)/.ready
	$(PYTEST) -m "$(BY_HAND)$(WITHOUT)" --maxfail=3 --durations=10

soak: setup
	$(BIN)/python -m pytest -m soak

programs: setup $(PROGRAMS)/.ready
	$(PYTEST) -m programs tests/world/test_foreign_programs.py --durations=10

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

lint: setup
	$(BIN)/ruff format --check src tests benchmarks examples scripts
	$(BIN)/ruff check src tests benchmarks examples scripts

check: lint
	$(BIN)/mypy
	INTERCODE_ONLY_CHANGED=1 $(PYTEST) -m "not slow and $(OUTSIDE)"

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
