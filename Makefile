# `make train` and `make test` need Python 3.11 and nothing else: no GPU, no key, no data.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
SCIENCE := .venv-science

.PHONY: train test lint bench install science
install: $(STAMP)

$(STAMP): setup.py constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[rl,dev]"
	touch $@

train: $(STAMP)
	$(BIN)/mappa-rl train demo

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	for script in $(filter-out benchmarks/gpu_%,$(wildcard benchmarks/*.py)); do echo "== $$script"; $(BIN)/python $$script --quick || exit 1; done

# An interpreter for agents' code with all that data science asks for: sandbox={"name": "local", "python": ...}
science: $(SCIENCE)/.installed

$(SCIENCE)/.installed: constraints.txt constraints-science.txt
	$(PYTHON) -m venv $(SCIENCE)
	$(SCIENCE)/bin/python -m pip install --quiet -c constraints.txt -c constraints-science.txt \
		numpy pandas scikit-learn scipy sympy matplotlib lightgbm xgboost-cpu pyarrow
	touch $@
