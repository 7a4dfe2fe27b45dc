# The two-command door in front of Meson. `make help` says what there is.
BUILD ?= build
MESON_ARGS ?=
BENCH_ARGS ?=

.PHONY: all setup setup-long deb check check-wide check-long interop pyverbs demo bench scenarios install uninstall clean help format

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

$(BUILD)/build.ninja: | setup
	@meson setup $(BUILD) $(MESON_ARGS)

setup: ## install the Debian packages that are missing
	@scripts/setup

setup-long: ## and those that only check-long and deb need
	@scripts/setup --long

check: setup ## build, then run the tests
	@scripts/check

check-wide: setup ## and what CI runs beside them: sanitizers, more places and transports
	@scripts/check --wide

check-long: setup-long ## fuzzing, long simulations, all cases of all programs (within 3 hours)
	@scripts/check --long

interop: setup all ## weft against the Linux kernel in QEMU guests; writes docs/interop.md
	@scripts/interop

pyverbs: setup all ## rdma-core's own test suite, unmodified, on weft
	@tests/interop/pyverbs.py $(BUILD)

demo: setup all ## serve a disk image over NVMe/RDMA and use it
	@scripts/demo

bench: setup all ## one table beside raw UDP, TCP and others, with targets (10 minutes; BENCH_ARGS=)
	@bench/run --build $(BUILD) $(BENCH_ARGS)

scenarios: setup all ## networks in virtual time beside what was published of them
	@scripts/scenarios $(BUILD)

deb: setup-long ## the Debian package, in build/deb
	@scripts/deb

install: all ## install under the prefix Meson was given
	@meson install -C $(BUILD)

uninstall: ## take away what `make install` has put there
	@scripts/uninstall $(BUILD)

format: ## clang-format every C file
	@git ls-files '*.c' '*.h' | xargs clang-format -i

clean:
	@rm -rf $(BUILD) build-*

help:
	@awk -F'##' '/^[a-z-]+:.*##/ {split($$1, t, ":"); printf "  make %-12s %s\n", t[1], $$2}' Makefile
