# `make demo` and `make test` are all a newcomer needs: each installs what it uses first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install test lint suite demo docs kill fuzz openenv ray readers kernels clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(STAMP)

lint: install
	$(BIN)/ruff check src tests
	$(BIN)/ruff format --check src tests
	$(BIN)/mypy
	$(BIN)/lint-imports

# mypy is one process: beside it the tests have begun.
test: install
	$(MAKE) --jobs=2 lint suite

# Tests start many processes: with PYTHONDONTWRITEBYTECODE each would compile the package again.
suite: install
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n auto --dist loadscope --no-loadscope-reorder

kill: install
	OMP_NUM_THREADS=1 $(BIN)/python tests/kill.py

MUTANTS ?= 50000
fuzz: install
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m fuzz.run --mutants $(MUTANTS)

demo: install
	$(BIN)/worldline demo --overwrite

# OpenEnv's dependencies and the pinned ones disagree (pillow): its tests have an environment of their own.
openenv:
	test -x .venv-openenv/bin/python || $(PYTHON) -m venv .venv-openenv
	.venv-openenv/bin/pip install --quiet --disable-pip-version-check -e '.[openenv]' pytest
	OMP_NUM_THREADS=1 .venv-openenv/bin/pytest tests/envs/test_openenv.py

ray: install
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[ray]'
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/test_ray_pool.py

readers: install
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[readers]'
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/store/test_readers_of_others.py

# On a CPU torch comes without Triton, whose 600 MB are for these tests alone.
kernels: install
	$(BIN)/pip install --quiet --disable-pip-version-check triton==3.9.0
	OMP_NUM_THREADS=1 TRITON_INTERPRET=1 $(BIN)/pytest tests/policies/language_model/test_triton_operations.py

docs: install
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) .venv-openenv build dist site .mypy_cache .ruff_cache .import_linter_cache
