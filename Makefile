# Every target is one task of the runner in xtask/; `cargo xtask` lists them. ARGS is passed on.
TASKS := setup dev wheel demo test lint tidy bench differential

.PHONY: $(TASKS)
$(TASKS):
	@cargo xtask $@ $(ARGS)
