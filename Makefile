# Every target that builds runs tools/setup.sh first, then starts make again to read what that found.
# Only relative paths stand here, so that a checkout may live in a folder with spaces in its name.
#   JOBS=4                 compile and test with 4 jobs (default: all processors)
#   PRESET=dev             build or test another preset of CMakePresets.json, in build-dev
#   CMAKE_ARGS="-DX=Y"     more arguments for the configure step
#   AGAIN=1                check-all repeats what passed before with the same sources
#   STAGES="lint test"     check-all runs these only

SHELL := bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory --no-builtin-rules

JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PRESET := release
FOLDER := $(if $(filter release,$(PRESET)),build,build-$(PRESET))
SOURCES := find frn bench examples tests -type f \( -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \)

-include .deps/environment.mk

.PHONY: help run build test bench check-all lint format times clean
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

run: ## build, then train the paper's Table 2 in small on the built-in images (out/table2/report.html)
build: ## build build/bin/frn and build/lib/libfrn_ops.so
test: ## build, then run the C++ tests and the comparison with PyTorch
bench: ## build, then run all kernel benchmarks
check-all: ## test, sanitizers, fuzzing and lint: everything before a release
lint: ## check format, file names, shell scripts and clang-tidy

run build bench: TIER := run
test: TIER := test
check-all lint: TIER := check
run build test bench check-all lint:
	@tools/setup.sh $(TIER)
	+@$(MAKE) do-$@

format: ## format the C++ sources in place
	@tools/setup.sh test
	+@$(MAKE) do-format

times: ## seconds of the slowest steps of what was built, and of all together
	@awk -F'\t' 'NF > 4 { took[$$4] = ($$2 - $$1) / 1000 } END { for (step in took) { all += took[step]; print took[step], step } \
	  print all, "all steps together" }' $(FOLDER)/.ninja_log | sort -rn | head -n 16

clean: ## remove builds and results, keep what was fetched (.deps)
	rm -rf build build-* out

# --- After set-up ---

.PHONY: do-run do-build do-test do-bench do-check-all do-studies do-lint do-format do-format-check
do-run: do-build
	@echo "frn: training small networks with 32 down to 1 images per device: about three minutes on two processors"
	@build/bin/frn study table2 --scale smoke --out out/table2

do-build: $(FOLDER)/build.ninja
	@NINJA_STATUS='[%f of %t, %es] ' cmake --build $(FOLDER) --parallel $(JOBS)

do-test: $(if $(filter release,$(PRESET)),do-format-check) do-build
	ctest --preset $(PRESET) -j $(JOBS)
ifeq ($(PRESET),release)
	"$(PYTHON)" -m pytest -q -rs tests/install
	GOMP_SPINCOUNT=1000 FRN_LIBRARY="$$PWD/build/lib/libfrn_ops.so" PYTHONPATH=python "$(PYTHON)" -m pytest -q -n $(JOBS) --dist worksteal tests/layout tests/parity
endif

# The formatter and clang-tidy of the tests' packages: versions differ in what they find. They may lie beside another Python's torch.
tools_of = $(shell "$(PYTHON)" -c 'import $(1), os; print(os.path.dirname($(1).__file__) + "/data/bin")')
CLANG_FORMAT = "$(call tools_of,clang_format)/clang-format"
CLANG_TIDY = $(call tools_of,clang_tidy)
do-format-check:
	@$(SOURCES) -print0 | xargs -0 -r $(CLANG_FORMAT) --dry-run --Werror

do-bench: do-build
	build/bin/frn bench kernels

# Its stages call back: do-lint, do-test, do-studies.
do-check-all:
	+@AGAIN="$(AGAIN)" STAGES="$(STAGES)" tools/check-all.sh

do-studies: do-build
	"$(PYTHON)" tests/e2e/study.py build/bin/frn --all

do-format:
	@$(SOURCES) -print0 | xargs -0 -r $(CLANG_FORMAT) -i

do-lint: do-format-check
	@bad=$$($(SOURCES) | grep -Ev '^([a-z0-9_]+/)*[a-z0-9_]+(-inl)?\.[a-z]+$$'); [ -z "$$bad" ] || \
	  { echo "lint: file names are snake_case, unlike: $$bad" >&2; exit 1; }
	@if command -v shellcheck >/dev/null; then shellcheck tools/setup.sh tools/check-all.sh tools/keep-results.sh .ci/run bench/gpu_check.sh; fi
	+@$(MAKE) build-lint/build.ninja PRESET=lint
	@cmake --build build-lint --target frn_commit >/dev/null
	@"$(PYTHON)" "$(CLANG_TIDY)/run-clang-tidy.py" -quiet -hide-progress -clang-tidy-binary "$(CLANG_TIDY)/clang-tidy" -p build-lint -j $(JOBS)

# The whole path and the compiler are in every object's command: when one of them changes, start from nothing.
# Otherwise (tests now on, presets edited) the folder is only configured again.
absolute = $(if $(filter /%,$(firstword $(1))),$(1),$$PWD/$(1))
$(FOLDER)/build.ninja: .deps/environment.mk CMakePresets.json
	@made_for="$$(pwd -P), $(TORCH_DIR), $(COMPILER)"; \
	if [ -e $(FOLDER)/made-for ] && [ "$$(cat $(FOLDER)/made-for)" != "$$made_for" ]; then rm -rf $(FOLDER); fi; \
	mkdir -p $(FOLDER) && echo "$$made_for" >$(FOLDER)/made-for
	@[ -e $@ ] || echo "frn: compiling for the first time: two to nine minutes on two processors"
	@CXX="$(COMPILER)" cmake --preset $(PRESET) "-DFRN_TORCH_DIR=$(call absolute,$(TORCH_DIR))" \
	  "-DFRN_PYTHON=$(if $(findstring /,$(PYTHON)),$(call absolute,$(PYTHON)),$(PYTHON))" \
	  -DFRN_BUILD_TESTS=$(BUILD_TESTS) $(CMAKE_ARGS) >$(FOLDER)/configure.log || { cat $(FOLDER)/configure.log; exit 1; }
	@sed -n 's/^-- frn: /frn: /p' $(FOLDER)/configure.log
	@touch $@
