.DEFAULT_GOAL := help
include kernels/kernels.mk

.PHONY: help lib run
help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

lib: $(BUILD)/libarmtrain.a ## the C library

run: $(BUILD)/armtrain-run ## the static trainer without Python
