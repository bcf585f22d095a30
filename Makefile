# Everything runs in the project's own virtual environment; `make demo` and `make test` set it up.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
DONE := $(VENV)/.installed
# Tests start a hundred processes: what Python compiles is kept for the next, also where the environment says not to.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test install lint types layers unit test-frameworks fuzz pages ledger pictures docs bench bench-flows bench-forecast bench-sweeps bench-verdicts stress clean

demo: $(DONE)  ## one figure at paper scale: verdicts, a picture and a report
	$(BIN)/afterfit run boursier2025/fig2 --scale paper --out results/demo

test: lint layers  ## every check; types beside the unit tests, which leave a core free now and then
	$(MAKE) --no-print-directory --jobs 2 types unit

install: $(DONE)

$(DONE): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[dask,data]" --group test
	touch $@

lint: $(DONE)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DONE)
	$(BIN)/basedpyright --pythonpath $(BIN)/python

layers: $(DONE)
	$(BIN)/lint-imports

# Most tests compile much and compute little, and take two thirds of the time when LLVM is not asked to optimise. The
# gallery computes, and so do those with runs that take their time: they are asked for the least that makes loops quick.
COMPUTING := tests/test_papers* tests/test_processes.py tests/test_cluster.py tests/test_continued.py
unit: $(DONE)
	XLA_FLAGS=--xla_backend_optimization_level=1 $(BIN)/pytest -n 2 --dist worksteal $(COMPUTING)
	XLA_FLAGS=--xla_backend_optimization_level=0 $(BIN)/pytest -n 2 --dist worksteal \
		$(foreach file,$(COMPUTING),--ignore-glob="$(file)")

# Beside PyTorch itself, in an environment of its own: the wheel is large, and `make test` needs none.
TORCH ?= torch
test-frameworks: .venv-frameworks/.installed  ## nets and the page of PyTorch's users against PyTorch (TORCH="torch==…" chooses one)
	.venv-frameworks/bin/pytest tests/test_torch.py tests/test_torch_live.py \
		"tests/test_docs.py::test_examples_run_and_print_what_the_page_says[docs/your-model.md]"

.venv-frameworks/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-frameworks
	.venv-frameworks/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venv-frameworks/bin/python -m pip install --quiet --editable . --group test "$(TORCH)"
	touch $@

SECONDS ?= 600
fuzz: $(DONE)  ## odd and hostile input, for SECONDS; goes on where it was stopped
	$(BIN)/python tests/fuzz --seconds $(SECONDS)

stress: $(DONE)  ## the whole gallery, cut short, in batches of random widths on two processes: does everything end?
	$(BIN)/python tests/stress_gallery.py --times 3

pages: $(DONE)  ## the pages that are made: everything public, the ledger, the errata
	$(BIN)/python docs/pages.py

ledger: $(DONE)  ## measure what the gallery claims, at both scales; goes on where it was stopped
	$(BIN)/afterfit verify --ledger docs/ledger.jsonl || true
	$(BIN)/afterfit verify --scale paper --ledger docs/ledger.jsonl || true
	$(BIN)/python docs/pages.py

pictures: $(DONE)  ## draw the gallery's pictures, at quick scale; goes on where it was stopped
	$(BIN)/afterfit gallery --pictures docs/pictures --ledger docs/ledger.jsonl --out results/gallery

docs: $(DONE)  ## the site, in site/
	$(BIN)/python -m pip install --quiet --group docs
	$(BIN)/mkdocs build --strict

bench: $(DONE)  ## the speed and memory table, and those of the flows; some rows need torch and scikit-learn in the environment
	$(BIN)/python benchmarks/core.py
	$(BIN)/python benchmarks/flows.py

bench-flows: $(DONE)  ## the tables of the flows alone
	$(BIN)/python benchmarks/flows.py

bench-forecast: $(DONE)  ## forecasts against 60 runs; goes on where it was stopped
	$(BIN)/python benchmarks/forecast.py

bench-sweeps: $(DONE)  ## sweeps and the store: times, memory, kills; nearly half an hour
	$(BIN)/python benchmarks/sweeps.py

bench-verdicts: $(DONE)  ## how often verdicts are right, on random curves: the table in docs/concepts.md
	$(BIN)/python benchmarks/verdicts.py

clean:
	rm -rf $(VENV) .venv-frameworks site results
