# `make train` and `make test` need Python 3.11 and nothing else: no GPU, no key, no data.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
SCIENCE := .venv-science
VLLM    := .venv-vllm

.PHONY: train test lint bench install science vllm test-vllm
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

# An environment of its own for what needs vLLM: it narrows versions, and takes 3 GB.
vllm: $(VLLM)/.installed

$(VLLM)/.installed: setup.py constraints-vllm.txt
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet -c constraints-vllm.txt -e ".[rl,dev,vllm]"
	$(VLLM)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec triton
	touch $@

test-vllm: $(VLLM)/.installed
	$(VLLM)/bin/python -m pytest tests/rl/test_engine_contract.py tests/rl/test_engine_vllm.py \
		tests/rl/test_vllm_in_place.py tests/rl/test_run_vllm.py tests/rl/test_coach_vllm.py

# An interpreter for agents' code with all that data science asks for: sandbox={"name": "local", "python": ...}
science: $(SCIENCE)/.installed

$(SCIENCE)/.installed: constraints.txt constraints-science.txt
	$(PYTHON) -m venv $(SCIENCE)
	$(SCIENCE)/bin/python -m pip install --quiet -c constraints.txt -c constraints-science.txt \
		numpy pandas scikit-learn scipy sympy matplotlib lightgbm xgboost-cpu pyarrow
	touch $@
