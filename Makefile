# Every target is one task of the runner in xtask/; `cargo xtask` lists them. ARGS is passed on.
TASKS := setup dev wheel demo quick test test-extras newest oldest lint tidy lock gpu-check bench differential libraries fuzz docs \
	coverage programs plans strangers afar chaos learning

.PHONY: $(TASKS)
$(TASKS):
	@cargo xtask $@ $(ARGS)
