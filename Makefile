# Every target is one task of the runner in xtask/; `cargo xtask` lists them. ARGS is passed on.
TASKS := setup dev wheel demo quick test test-extras newest oldest lint tidy lock gpu-check bench differential libraries fuzz docs

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

# Tests of the API a second time, as drivers outside the cluster. Left out: what looks at the store of the driver's own node, and
# at what `init` returns on a machine of the cluster.
.PHONY: afar
afar:
	@TESTS_AFAR=1 .venv/bin/python -m pytest --dist loadfile --numprocesses auto $(or $(ARGS),\
		$(addprefix tests/api/test_,$(addsuffix .py,tasks generators actor_names placement_groups actors cancelling objects errors\
		actor_order actor_concurrency actor_lifetime actor_classes async_groups scheduling runtime_env logs)))

# Machines of namespaces under random faults, with answers that are known (root only); `make chaos ARGS=--help`.
.PHONY: chaos
chaos:
	@PYTHONPATH=tests .venv/bin/python -m chaos $(ARGS)

# Algorithms of reinforcement learning, each from a seed to its return; `make learning ARGS="PPO SAC --seed 3"`.
.PHONY: learning
learning:
	@PYTHONPATH=tests .venv/bin/python -m learning $(ARGS)
