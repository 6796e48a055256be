# What a person runs here; `make help` lists it. Each target installs what it needs, and only what is missing.
#
#   PYTHON=/usr/bin/python3.12   the interpreter that .venv is made with (3.11 or later)
#   ARGS='-k thp -x'             further arguments for pytest
#   SECONDS=120                  for each target of make fuzz-native

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# The order of prerequisites is the order of work: system packages, .venv, dballoc.
.NOTPARALLEL:

# The system's own Python rather than the first on the PATH: the packages that we ask apt for belong to it.
PYTHON ?= $(shell test -x /usr/bin/python3 && echo /usr/bin/python3 || echo python3)
ARGS ?=

bin := .venv/bin
python := $(bin)/python
pip := PATH="$(CURDIR)/$(bin):$$PATH" $(python) -I -m pip --quiet --disable-pip-version-check --no-input
stamps := .stamps

# Directories too: their times tell of files that were removed.
sources := $(shell find src native -name __pycache__ -prune -o -print) pyproject.toml meson.build LICENSE
native := $(shell find native tests -name '*.[ch]' 2>/dev/null)

cli_reference := $(bin)/typer dballoc.cli.reference utils docs --name dballoc --output

# What times, loads or switches the machine has it to itself, the rest shares it, a file to a worker: what the tests of one share
# is made once; in the order of the files, so that what waits for servers comes before the many short ones.
# Two workers a CPU, for tests often wait for a server or a clock. 5: ARGS select nothing of these.
# The files with such a mark: to read all of them takes ten seconds. With ARGS, those say which.
marked = $(if $(ARGS),,$(shell grep -lr --include='test_*.py' 'mark\.$(1)\b' tests))
workers := $(shell expr 2 \* $$(nproc))
run-tests = { $(python) -m pytest -n $(workers) --dist loadfile --no-loadscope-reorder -m '$(1) and not alone' $(ARGS) || [ $$? = 5 ]; }; shared=$$?; \
	{ $(python) -m pytest -m '$(1) and alone' $(call marked,alone) $(ARGS) || [ $$? = 5 ]; } && exit $$shared

# Fuzz one target alone (FUZZ=name), or for another time (SECONDS=60).
FUZZ ?=
SECONDS ?=

.PHONY: help demo demo-hosts setup quick test test-all test-aarch64 test-many-cpus fuzz fuzz-native lint format docs dist portable kit lock clean
.PHONY: packages packages-test packages-fetch packages-hosts packages-lint packages-fuzz packages-aarch64 packages-many-cpus packages-release

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

demo: setup ## Compare the system's allocators under a private MariaDB, in ten minutes; resumes where it was stopped
	@$(bin)/dballoc bench

demo-hosts: packages-hosts setup ## The same on three Ray nodes in network namespaces of this machine; root
	@tools/demo-hosts $(ARGS)

setup: packages $(stamps)/package ## Install what running needs: system packages, .venv, dballoc in it

quick: setup $(stamps)/requirements-dev ## Lint, and the unit tests nearest to what changed since main: a minute, no server
	@$(python) -I tools/quick $(ARGS)

test: packages-test setup $(stamps)/requirements-dev ## Run all but the slow tests; as root, some also as an ordinary user
	$(call run-tests,not slow)
	$(if $(filter 0,$(shell id -u)),tools/run-unprivileged $(python) -m pytest -p no:cacheprovider -n $(workers) --dist loadfile -m 'unprivileged and not slow' $(call marked,unprivileged) $(ARGS) || [ $$? = 5 ])

test-all: packages-test packages-fetch setup $(stamps)/requirements-dev ## Run all tests, the slow ones included
	$(call run-tests,(slow or not slow))
	@$(MAKE) --no-print-directory test-aarch64
	@$(MAKE) --no-print-directory test-many-cpus

# Where this machine is one there is nothing to emulate: the native tests run as they are.
test-aarch64: packages-aarch64 setup $(stamps)/requirements-dev ## Run what aarch64 may break, on an emulated one
ifneq ($(shell uname -m),aarch64)
	@rm -rf build/aarch64/meson
	@PATH="$(CURDIR)/$(bin):$$PATH" meson setup --cross-file tools/aarch64.ini build/aarch64/meson >/dev/null
	@PATH="$(CURDIR)/$(bin):$$PATH" ninja --quiet -C build/aarch64/meson
	$(python) -I tools/debian-root arm64 programs build/aarch64/root
	DBALLOC_TEST_MACHINE=aarch64 $(python) -m pytest -m 'not slow' tests/native tests/emulated $(ARGS) || [ $$? = 5 ]
endif

# Emulated by qemu, an x86-64 with more CPUs than this machine, which a kit comes to.
test-many-cpus: packages-many-cpus setup $(stamps)/requirements-dev ## Run a kit on an emulated machine with 16 CPUs; as root
	@$(MAKE) --no-print-directory kit KIT=tests/emulated/many_cpus.toml
	DBALLOC_TEST_MACHINE=many-cpus DBALLOC_TEST_KIT=dist/dballoc-kit-many_cpus.tar.gz $(python) -m pytest tests/emulated $(ARGS)

fuzz: setup $(stamps)/requirements-dev $(stamps)/fuzz ## Fuzz every reader, resuming where it stopped; FUZZ=name SECONDS=60 for one
	@nice $(python) -I tools/fuzz $(if $(FUZZ),--target $(FUZZ)) $(if $(SECONDS),--seconds $(SECONDS))

lint: packages-lint setup $(stamps)/requirements-dev build/lint/compile_commands.json ## Check style, types, native code, docs/cli.md
	$(bin)/ruff check
	$(bin)/ruff format --check
	$(bin)/mypy
	$(python) -I tools/check-structure
	$(python) -I tools/measure-code --check
	clang-format --dry-run -Werror $(native)
	clang-tidy --quiet -p build/lint $(filter native/%.c,$(native))
	$(python) -I tools/check-hardening $$($(python) -I -c 'import glob, sysconfig; print(*glob.glob(sysconfig.get_path("platlib") + "/dballoc/_native/*"))')
	@$(cli_reference) build/cli.md >/dev/null
	@diff -u docs/cli.md build/cli.md || { echo "docs/cli.md is not what the commands say; run: make docs" >&2; exit 1; }

fuzz-native: packages-fuzz $(stamps)/requirements-run ## Fuzz the native parts' readers, SECONDS=120 each
	$(python) -I tools/fuzz-native --seconds $(or $(SECONDS),120) $(ARGS)

format: packages-lint setup $(stamps)/requirements-dev ## Rewrite the sources in the project's style
	$(bin)/ruff check --fix-only
	$(bin)/ruff format
	clang-format -i $(native)

docs: setup ## Write the command reference, docs/cli.md, from the commands' own help, and the pages of docs/evidence from their CSV files
	mkdir -p docs
	$(cli_reference) docs/cli.md
	$(python) tools/evidence-page --again

# What is built for other systems: against the C library of an old one, in a root that only root can make.
old_root := build/release/root
# Not of kits, which lie there too.
sum-release = cd dist && sha256sum $$(ls | grep -v -e SHA256SUMS -e dballoc-kit) > SHA256SUMS
dist: packages-release setup ## Build the sdist and the wheels into dist/, with their checksums; as root
	tools/release/make-root $(old_root)
	tools/release/make-sysroots $(old_root)
	@rm -f dist/*.whl dist/dballoc-[0-9]*.tar.gz dist/*.deb dist/dballoc-portable*
	$(python) -I tools/release/build_wheels.py dist
	$(sum-release)

portable: dist ## Build dballoc with an interpreter of its own as one file and as a .deb into dist/; as root, 3 to 15 minutes at first
	tools/release/make-python $(old_root)
	PATH="$(CURDIR)/$(bin):$$PATH" $(python) tools/release/build_portable.py dist/*_x86_64.whl dist
	$(sum-release)

# An experiment's name, or one's own file.
KIT ?= scaling
kit: packages-release setup dist/dballoc-portable ## Build into dist/ a kit that runs KIT=my.toml (scaling) on a machine without network; as root
	$(bin)/dballoc kit make $(KIT) --portable dist/dballoc-portable --out dist/dballoc-kit-$(basename $(notdir $(KIT))).tar.gz

# Made anew when what is in it has changed. For a kit the newest sources that the mirror has are enough.
dist/dballoc-portable: $(sources) tools/locks/portable.txt $(wildcard tools/release/*)
	DBALLOC_OLDER_SOURCES=1 $(MAKE) --no-print-directory portable

lock: $(stamps)/venv ## Update every dependency to its newest version, and pin it with the hashes of its files
	PYTHON=$(python) tools/lock

clean: ## Remove everything built and installed here; results stay
	rm -rf --one-file-system .venv $(stamps) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -prune -exec rm -rf {} +

packages:
	@tools/install-packages run

packages-test:
	@tools/install-packages run test

packages-fetch:
	@tools/install-packages run fetch

packages-hosts:
	@tools/install-packages run hosts

packages-lint:
	@tools/install-packages run lint

packages-release:
	@tools/install-packages run release

packages-fuzz:
	@tools/install-packages run fuzz

packages-aarch64:
	@tools/install-packages run aarch64

packages-many-cpus:
	@tools/install-packages run many-cpus

$(stamps)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "dballoc needs Python 3.11 or later, not $(PYTHON); run: make PYTHON=/path/to/python3 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -I -m venv --clear .venv
	@mkdir -p $(stamps)
	@touch $@

# Every package and what it depends on, by version and hash, from the index that pip is configured for; wheels alone, for what an
# sdist is built with has no hash.
$(stamps)/requirements-%: tools/locks/%.txt $(stamps)/venv
	$(pip) install --only-binary :all: --require-hashes --requirement $<
	@touch $@

# There is a wheel of it for some Pythons alone; without it inputs are made at random, not guided by coverage.
$(stamps)/fuzz: $(stamps)/venv tools/locks/fuzz.txt
	@$(pip) install --only-binary :all: --require-hashes --requirement tools/locks/fuzz.txt || \
		echo "no atheris for this Python: inputs are made at random, not guided by coverage" >&2
	@touch $@

# --no-build-isolation: the build's own requirements are in .venv already, so that this takes seconds.
$(stamps)/package: $(sources) $(stamps)/requirements-run
	$(pip) install --no-deps --no-build-isolation --force-reinstall .
	@touch $@

# clang-tidy wants to know how each file is compiled.
build/lint/compile_commands.json: meson.build native/meson.build $(stamps)/requirements-run
	@rm -rf build/lint
	@PATH="$(CURDIR)/$(bin):$$PATH" meson setup build/lint >/dev/null
