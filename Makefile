# The commands of a working day. Each sets up what it needs first; CMakePresets.json holds the builds themselves.
# With WEFT_PYTHON set, the torch of that interpreter is used instead of the one in .venv.
JOBS ?= $(shell nproc)
PYTHON = $(or $(WEFT_PYTHON),.venv/bin/python)
SOURCES = git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cpp' | xargs -0r ls -d 2>/dev/null

.PHONY: help setup setup-tests demo wheel test differential faults mutate bench lint format asan tsan fuzz clean
.PRECIOUS: build/%/build.ninja

help:
	@echo "make demo            export a decoder, shard it over four ranks, run it, compare with PyTorch"
	@echo "make test            build with warnings as errors, run all tests"
	@echo "make faults          kill, stop or confuse a rank of a training run, RUNS times each (50); seeds are printed"
	@echo "make wheel           make build/wheel/weft-*.whl, which installs next to torch in seconds"
	@echo "make lint            format, syntax, what docs name, layers, mirror of tests, sizes, twins, names of types, words"
	@echo "make format          format all sources"
	@echo "make bench [ONLY=x]  build and run the benchmarks, or only x"
	@echo "make asan, tsan      run all tests under the address (and undefined) or the thread sanitizer"
	@echo "make fuzz            run the fuzzers over their corpus, each for FUZZ_SECONDS (600); -j2 runs two at once"
	@echo "make differential    run PROGRAMS (20000) random Python programs on distributed and on plain tensors, and compare"
	@echo "make mutate          give each reader COUNT (5000) files that were changed somewhere; make test gives it 300"
	@echo "make clean           remove build/"

setup:
	@scripts/setup
setup-tests:
	@scripts/setup tests

# Once configured, Ninja runs CMake again when one of its files changes; the presets are the one thing it does not see.
build/%/build.ninja: CMakePresets.json | setup
	cmake --preset $*
	@touch $@
build/dev/build.ninja: | setup-tests

demo: build/release/build.ninja
	cmake --build --preset release -j $(JOBS) --target weft_command
	$(PYTHON) examples/python/demo.py --weft build/release/bin/weft

wheel: build/release/build.ninja
	cmake --build --preset release -j $(JOBS) --target weft_python weft_command
	$(PYTHON) -m pip wheel . --no-deps --no-build-isolation -w build/wheel \
	  -C cmake.define.WEFT_PREBUILT="$(CURDIR)/build/release"

bench: setup-tests build/release/build.ninja
	cmake --build --preset release -j $(JOBS) --target benches weft_command
	$(PYTHON) bench/run.py $(if $(ONLY),--only $(ONLY))

test: check-dev
asan: check-asan
tsan: check-tsan
check-%: build/%/build.ninja
	cmake --build --preset $* -j $(JOBS)
	ctest --preset $* -j $(JOBS)

RUNS ?= 50
faults: build/dev/build.ninja
	cmake --build --preset dev -j $(JOBS) --target faults_tests
	OMP_NUM_THREADS=1 WEFT_FAULT_RUNS=$(RUNS) WEFT_FAULT_JOBS=$(JOBS) build/dev/tests/faults_tests

# What is found goes to build/fuzz/found, what breaks to build/fuzz; fuzz/corpus stays as it is.
FUZZ_SECONDS ?= 600
FUZZERS = $(patsubst fuzz/%_fuzz.cpp,%,$(wildcard fuzz/*_fuzz.cpp))
fuzz: $(addprefix fuzz-,$(FUZZERS))
fuzz-%: build-fuzzers
	@mkdir -p build/fuzz/found/$*
	build/fuzz/fuzz/$*_fuzz -max_total_time=$(FUZZ_SECONDS) -timeout=10 -malloc_limit_mb=256 -max_len=65536 \
	  -dict=fuzz/model.dict -artifact_prefix=build/fuzz/$*- -print_final_stats=1 build/fuzz/found/$* fuzz/corpus/$*
.PHONY: build-fuzzers
build-fuzzers: build/fuzz/build.ninja
	cmake --build --preset fuzz -j $(JOBS)

# Failing programs are made smaller and printed; `make test` runs the first 150.
PROGRAMS ?= 20000
differential: build/dev/build.ninja
	cmake --build --preset dev -j $(JOBS) --target weft_python
	PYTHONPATH=build/dev/python $(PYTHON) tests/python/differential/run.py --seeds 0:$(PROGRAMS) --jobs $(JOBS) --shrink

COUNT ?= 5000
mutate: build/dev/build.ninja
	cmake --build --preset dev -j $(JOBS) --target integration_tests
	WEFT_MUTATIONS=$(COUNT) build/dev/tests/integration_tests --file=mutated_files_test.cpp

lint: setup
	@$(SOURCES) | xargs -r .venv/bin/clang-format --dry-run --Werror && echo "format: as .clang-format says"
	@git ls-files -z --cached --others --exclude-standard -- '*.py' | xargs -0r ls -d 2>/dev/null | xargs -r .venv/bin/python -c \
	  'import ast, sys; [ast.parse(open(path).read(), path) for path in sys.argv[1:]]' && echo "python: every file parses"
	@.venv/bin/python scripts/check_docs.py
	@.venv/bin/python scripts/check_layers.py
	@.venv/bin/python scripts/check_mirror.py
	@.venv/bin/python scripts/check_sizes.py
	@.venv/bin/python scripts/check_twins.py
	@.venv/bin/python scripts/check_types.py
	@.venv/bin/python scripts/check_words.py

format: setup
	@$(SOURCES) | xargs -r .venv/bin/clang-format -i

clean:
	rm -rf build
