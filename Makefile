# Every target is one task of the runner in xtask/; `cargo xtask` lists them. ARGS is passed on.
TASKS := setup dev wheel demo test test-extras newest oldest lint tidy lock gpu-check bench differential libraries fuzz docs

.PHONY: $(TASKS)
$(TASKS):
	@cargo xtask $@ $(ARGS)

# Random plans of datasets against known answers; tests/plans says which arguments there are.
.PHONY: plans
plans:
	@PYTHONPATH=tests .venv/bin/python -m plans $(ARGS)

# How much of the Python package the tests reach: a table, and pages in target/coverage. What workers run is not counted.
.PHONY: coverage
coverage:
	@COVERAGE_FILE=target/.coverage .venv/bin/python -m pytest --dist loadfile --numprocesses auto \
		--cov=heliostat --cov-report=term --cov-report=html:target/coverage $(ARGS)

# Random programs with known answers; `make programs ARGS=--help` says which arguments there are.
.PHONY: programs
programs:
	@PYTHONPATH=tests .venv/bin/python -m programs $(ARGS)

# Programs as strangers wrote them, each with its answer; `--ray PYTHON` runs them on the Ray of that interpreter.
.PHONY: strangers
strangers:
	@PYTHONPATH=tests .venv/bin/python -m strangers $(ARGS)

# Machines of namespaces under random faults, with answers that are known (root only); `make chaos ARGS=--help`.
.PHONY: chaos
chaos:
	@PYTHONPATH=tests .venv/bin/python -m chaos $(ARGS)
