# SPDX-License-Identifier: GPL-2.0-or-later
PREFIX ?= /usr/local
DESTDIR ?=
PYTHON ?= python3
CC ?= gcc
B := build

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes \
	-Wmissing-prototypes -Wvla -Wundef -Wformat=2
# A warning stops `make check` and `make lint`, and never the build of a user whose compiler is newer.
WERROR ?=
CPPFLAGS += -D_GNU_SOURCE -Iprofiler -Icommon -Icalibrator -Iprofiler/tlb -Iprofiler/launch -Iprofiler/counters \
	-Iprofiler/trace -Iprofiler/thp -Iprofiler/region -Itests/c -MMD -MP
CFLAGS += -std=c11 -O2 -g $(WARNINGS) $(WERROR)
CXXFLAGS += -std=c++17 -O2 -g -Wall -Wextra $(WERROR)
LDLIBS += -lm -lpthread
# libpfm4 is linked in, so that an installed tlbcost needs no package of it.  PFM: a folder that
# holds another one than the system's (libpfm.a and include/), or "none": then nothing counts.
PFM ?=
ifeq ($(PFM),)
PFM_LIB ?= -l:libpfm.a
else ifneq ($(PFM),none)
PFM_LIB := $(PFM)/libpfm.a
CPPFLAGS += -isystem $(PFM)/include
endif
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer

# main() is in main.c, or in <program>_main.c where a folder has several programs; everything else is
# a module that tests can link.
PROGRAMS := $(addprefix $(B)/libexec/tlbcost-,calibrate run count region)
MODULES := $(filter-out %/main.c %_main.c,$(wildcard common/*.c calibrator/*.c profiler/tlb/*.c \
	profiler/launch/*.c profiler/counters/*.c profiler/region/*.c))
C_TESTS := $(wildcard tests/c/test_*.c)
# A process can be made to call the kernel on x86-64 alone.
X86_64 := $(findstring x86_64,$(shell $(CC) -dumpmachine))
TRACE_TESTS := $(addprefix tests/c/test_,heap.c live.c tasks.c)
ifneq ($(X86_64),)
PROGRAMS += $(B)/libexec/tlbcost-thp $(B)/libexec/tlbcost-sites.so
MODULES += $(filter-out %_main.c,$(wildcard profiler/trace/*.c profiler/thp/*.c))
TRACE_CODE := profiler/trace/trampoline_code
else
C_TESTS := $(filter-out $(TRACE_TESTS),$(C_TESTS))
endif
# Copies of a running program are followed on x86-64 where Zydis is installed; elsewhere Valgrind is
# the only engine.  What follows them can include the models, so it is built on its own.
ifneq ($(and $(X86_64),$(shell echo '\#include <Zydis/Zydis.h>' | $(CC) -E - >/dev/null 2>&1 && echo yes)),)
PROGRAMS += $(addprefix $(B)/libexec/tlbcost-,copies injector)
COPIES := $(filter-out %_main.c,$(wildcard profiler/copies/*.c))
COPIES_TESTS := $(wildcard tests/c/copies/test_*.c)
endif
ifeq ($(PFM),none)
PROGRAMS := $(filter-out %-count,$(PROGRAMS))
MODULES := $(filter-out profiler/counters/encode.c,$(MODULES))
C_TESTS := $(filter-out tests/c/test_encode.c tests/c/test_fuzzed.c,$(C_TESTS))
endif
# Whatever folder a workload is in, it is built as build/workloads/<name>.
WORKLOAD_FOLDERS := workloads/patterns workloads/numa workloads/suite
SCRIPTS := $(addprefix $(B)/workloads/,$(notdir $(filter-out %.c %.cc,$(wildcard workloads/suite/*.*))))
WORKLOADS := $(addprefix $(B)/workloads/,$(basename $(notdir $(wildcard $(WORKLOAD_FOLDERS:%=%/*.c) \
	$(WORKLOAD_FOLDERS:%=%/*.cc))))) $(SCRIPTS) $(B)/workloads/requests.log $(B)/workloads/visits.log
C_WORKLOADS := $(patsubst %.c,$(B)/workloads/%,$(notdir $(wildcard $(WORKLOAD_FOLDERS:%=%/*.c))))
vpath %.c $(WORKLOAD_FOLDERS)
vpath %.cc $(WORKLOAD_FOLDERS)
# STREAM with static arrays, linked so that hugectl --bss --data can put them on huge pages: where
# libhugetlbfs is installed with its linker script.
HUGETLBFS_LD := $(shell command -v ld.hugetlbfs)
ifneq ($(and $(HUGETLBFS_LD),$(filter /%,$(shell $(CC) -print-file-name=libhugetlbfs.so 2>/dev/null))),)
WORKLOADS += $(B)/workloads/stream-static
endif
STREAM_STATIC_BYTES ?= 1073741824
TESTS := $(C_TESTS:tests/c/%.c=$(B)/tests/%) $(COPIES_TESTS:tests/c/%.c=$(B)/tests/%)
# What tests are linked with.
CHECKED := $(B)/$(if $(SANITIZE),san,obj)

# A line for each file that is made; V=1: its command.
Q = $(if $(V),,@echo '  $(if $(filter %.o,$@),CC  ,MAKE) $(@:$(B)/%=%)' && )

all: $(PROGRAMS) simulator $(B)/tlbcost $(B)/completions/tlbcost workloads  ## build everything

$(B)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

$(B)/san/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(SANITIZE) -c -o $@ $<

$(B)/obj/%.o: %.S
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -c -o $@ $<

$(B)/san/%.o: %.S
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -c -o $@ $<

# Of an archive a program gets the modules that it uses; only few need libpfm4.  "q": two folders
# may have files of the same name.
$(B)/obj/modules.a: $(MODULES:%.c=$(B)/obj/%.o) $(TRACE_CODE:%=$(B)/obj/%.o)
$(B)/san/modules.a: $(MODULES:%.c=$(B)/san/%.o) $(TRACE_CODE:%=$(B)/san/%.o)
# The timing model and what drives it are only the engines'; their files have names that
# others have too.
TIMING := $(wildcard profiler/timing/*.c profiler/numa/*.c profiler/engine/*.c)
$(B)/obj/timing.a: $(TIMING:%.c=$(B)/obj/%.o)
$(B)/san/timing.a: $(TIMING:%.c=$(B)/san/%.o)
COPIES_OBJECTS := $(COPIES:%.c=%.o) $(patsubst %.S,%.o,$(and $(COPIES),$(wildcard profiler/copies/*.S)))
$(B)/obj/copies.a: $(COPIES_OBJECTS:%=$(B)/obj/%)
$(B)/san/copies.a: $(COPIES_OBJECTS:%=$(B)/san/%)
$(B)/obj/profiler/copies/%.o $(B)/san/profiler/copies/%.o: CPPFLAGS += -Iprofiler/copies
# Executed in other processes: what the compiler adds is not there.
ANSWERS_CODE := $(B)/obj/profiler/copies/answers_code.o $(B)/san/profiler/copies/answers_code.o
$(ANSWERS_CODE): CFLAGS += -U_FORTIFY_SOURCE -fno-stack-clash-protection -fPIC -fno-builtin -fno-stack-protector -fno-jump-tables -fno-reorder-blocks-and-partition -fcf-protection=none -mgeneral-regs-only
$(ANSWERS_CODE): SANITIZE :=
$(B)/obj/modules.a $(B)/san/modules.a $(B)/obj/timing.a $(B)/san/timing.a $(B)/obj/copies.a $(B)/san/copies.a:
	@rm -f $@
	$(Q)$(AR) qcs $@ $^

$(B)/libexec/tlbcost-calibrate: $(B)/obj/calibrator/main.o
$(B)/libexec/tlbcost-run: $(B)/obj/profiler/launch/main.o
$(B)/libexec/tlbcost-count: $(B)/obj/profiler/counters/count_main.o
$(B)/libexec/tlbcost-thp: $(B)/obj/profiler/thp/thp_main.o
$(B)/libexec/tlbcost-region: $(B)/obj/profiler/region/region_main.o
$(B)/libexec/tlbcost-copies: $(B)/obj/profiler/copies/copies_main.o $(B)/obj/copies.a $(B)/obj/timing.a
$(B)/libexec/tlbcost-copies: LDLIBS += -lZydis -lZycore -ldw
$(B)/libexec/tlbcost-injector: $(B)/obj/profiler/copies/injector_main.o $(B)/obj/copies.a
# What a program is started with has nothing of ours but itself.
$(B)/libexec/tlbcost-sites.so: profiler/sites/sites.c profiler/sites/sites.h
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -fPIC -shared -o $@ $<

$(filter-out %.so,$(PROGRAMS)): $(B)/obj/modules.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter-out %/modules.a,$(filter %.a,$^)) $(filter %/modules.a,$^) $(PFM_LIB) $(LDLIBS)

c-workloads: $(filter $(C_WORKLOADS),$(WORKLOADS))
workloads: $(WORKLOADS)

# The compiler finds the linker by its name, in a folder given by -B.
$(B)/hugetlbfs/ld:
	@mkdir -p $(@D)
	$(Q)ln -sfn $(HUGETLBFS_LD) $@

# Without --no-as-needed a linker may drop the library, as nothing calls it: it works when it starts.
# A position-independent program crashes when its segments are moved, and more than three are refused.
$(B)/workloads/stream-static: stream.c workloads/workload.h $(B)/hugetlbfs/ld
	@mkdir -p $(@D)
	$(Q)$(CC) -Iworkloads $(CPPFLAGS) -DSTREAM_STATIC_BYTES=$(STREAM_STATIC_BYTES)u $(CFLAGS) $(LDFLAGS) -B $(B)/hugetlbfs \
		-fno-pie -no-pie -Wl,-z,noseparate-code -Wl,--no-as-needed -Wl,--hugetlbfs-align -o $@ $< $(LDLIBS)

# Scripts are copied to where the programs are, so that one folder has the whole suite.
$(SCRIPTS): $(B)/workloads/%: workloads/suite/%
	@mkdir -p $(@D)
	$(Q)cp $< $@

# What packaged programs of the suite read.
$(B)/workloads/requests.log: LOG_LINES := 90000
$(B)/workloads/visits.log: LOG_LINES := 1200000
$(B)/workloads/requests.log $(B)/workloads/visits.log: workloads/suite/log-report.py
	@mkdir -p $(@D)
	$(Q)$(PYTHON) $< --lines $(LOG_LINES) --print >$@.new
	@mv $@.new $@

$(B)/workloads/%: %.c workloads/workload.h
	@mkdir -p $(@D)
	$(Q)$(CC) -Iworkloads $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $< $(LDLIBS)

$(B)/workloads/%: %.cc workloads/workload.h
	@mkdir -p $(@D)
	$(Q)$(CXX) -Iworkloads $(CXXFLAGS) $(LDFLAGS) -o $@ $<

$(B)/tests/%: tests/c/%.c $(CHECKED)/modules.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(SANITIZE) $(LDFLAGS) -o $@ $< $(filter-out %/modules.a,$(filter %.a,$^)) $(CHECKED)/modules.a $(PFM_LIB) $(LDLIBS)

# The engines' options are fuzzed, too.
$(B)/tests/test_fuzzed: $(CHECKED)/timing.a
$(B)/tests/test_fuzzed: CPPFLAGS += -Iprofiler

$(B)/tests/test_timing_%: tests/c/test_timing_%.c $(CHECKED)/timing.a
	@mkdir -p $(@D)
	$(Q)$(CC) -Iprofiler $(CPPFLAGS) $(CFLAGS) $(SANITIZE) $(LDFLAGS) -o $@ $< $(CHECKED)/timing.a $(LDLIBS)

# Zydis makes both: what tests of copies link with.
$(B)/tests/copies/%: tests/c/copies/%.c $(CHECKED)/copies.a $(CHECKED)/timing.a $(CHECKED)/modules.a
	@mkdir -p $(@D)
	$(Q)$(CC) -Iprofiler -Iprofiler/copies $(CPPFLAGS) $(CFLAGS) $(SANITIZE) $(LDFLAGS) -o $@ $< $(filter %.a,$^) $(PFM_LIB) -lZydis -lZycore -ldw $(LDLIBS)

# Programs that report whether copies disturb them, and what copies them.
TORTURE := $(patsubst tests/torture/%,$(B)/tests/torture/%,$(basename $(filter-out \
	tests/torture/torture.c tests/torture/account.c,$(wildcard tests/torture/*.c tests/torture/*.cc))))
TORTURE_SHARED := $(B)/obj/tests/torture/torture.o $(B)/obj/tests/torture/account.o
$(B)/tests/torture/%: tests/torture/%.c $(TORTURE_SHARED)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $< $(TORTURE_SHARED) $(LDLIBS)

$(B)/tests/torture/%: tests/torture/%.cc
	@mkdir -p $(@D)
	$(Q)$(CXX) $(CXXFLAGS) -o $@ $< -lpthread

$(B)/tests/torture/copy: tests/torture/copy.c $(B)/obj/copies.a $(B)/obj/modules.a
	@mkdir -p $(@D)
	$(Q)$(CC) -Iprofiler/copies $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $< $(filter %.a,$^) $(LDLIBS)

torture: $(if $(COPIES),$(TORTURE))

programs: $(PROGRAMS)
# The tests of programs use the others; a sanitizer would touch pages too.
$(B)/tests/pages: private SANITIZE :=
c-tests: $(TESTS) $(B)/tests/pages $(B)/tests/without_perf $(if $(COPIES),$(B)/tests/copies/compare) torture

$(B)/tests/sve: tests/guest/arm64/sve.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $<

$(B)/tests/visit: $(B)/tests/%: tests/guest/%.c workloads/workload.h
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -Iworkloads $(CFLAGS) $(LDFLAGS) -o $@ $< $(LDLIBS)

# The same for other CPUs.  aarch64 is run by an emulator of user programs: what holds for one CPU
# only shows.  riscv64 is for QEMU's virtual machine, where a kernel counts TLB misses.
AARCH64_CC ?= aarch64-linux-gnu-gcc
AARCH64_PFM ?= none
AARCH64 := $(B)/aarch64
RISCV64_CC ?= riscv64-linux-gnu-gcc
RISCV64_PFM ?= $(B)/guest/pfm/usr
RISCV64 := $(B)/riscv64

# Runs a program with the C library that belongs to the compiler, and on base pages whatever the THP
# mode is: the emulator does not pass madvise(MADV_NOHUGEPAGE) on.
EMULATE := import ctypes, os, sys; ctypes.CDLL(None).prctl(41, 1, 0, 0, 0); os.execvp(sys.argv[1], sys.argv[1:])
$(AARCH64)/emulate: Makefile
	@mkdir -p $(@D)
	libc=$$($(AARCH64_CC) -print-file-name=libc.so.6) && root=$$(readlink -f "$${libc%/*}/..") && \
		printf '#!/bin/sh\nexec python3 -c "%s" qemu-aarch64 -L "%s" "$$@"\n' '$(EMULATE)' "$${root}" >$@
	@chmod +x $@

aarch64: $(AARCH64)/emulate
	$(MAKE) B=$(AARCH64) CC=$(AARCH64_CC) AR=$(AARCH64_CC:gcc=ar) PFM=$(AARCH64_PFM) SANITIZE= programs c-tests

riscv64:
	@[ -e $(RISCV64_PFM)/libpfm.a ] || { echo "tlbcost: cannot build for riscv64:" \
		"no $(RISCV64_PFM)/libpfm.a (tests/guest/fetch $(B)/guest gets it)" >&2; exit 1; }
	$(MAKE) B=$(RISCV64) CC=$(RISCV64_CC) AR=$(RISCV64_CC:gcc=ar) PFM=$(RISCV64_PFM) LDFLAGS=-static programs \
		$(RISCV64)/tests/visit $(RISCV64)/workloads/cold

# Everything that is C, for the emulated arm64 machine: with Valgrind's and libpfm4's arm64 packages.
ARM64 := $(B)/arm64
ARM64_ROOT ?= $(B)/guest/arm64
arm64:
	@[ -e $(ARM64_ROOT)/pfm/libpfm.a ] || { echo "tlbcost: cannot build for arm64:" \
		"no $(ARM64_ROOT)/pfm/libpfm.a (tests/guest/arm64/fetch $(ARM64_ROOT) gets it)" >&2; exit 1; }
	$(MAKE) B=$(ARM64) CC=$(AARCH64_CC) AR=$(AARCH64_CC:gcc=ar) PFM=$(ARM64_ROOT)/pfm \
		VG_ROOT=$(abspath $(ARM64_ROOT)/root) programs simulator c-workloads $(ARM64)/tests/sve

check-arm64: $(B)/venv/.check  ## all that is done in emulated arm64 machines with 4 and 16 KiB pages (ten minutes)
	scripts/install-deps --all
	tests/guest/arm64/fetch $(ARM64_ROOT)
	$(MAKE) arm64
	TLBCOST_CHECK_ARM64=all $(B)/venv/bin/python -m pytest -rA tests/guest/arm64

check-arm64-build:
	scripts/check-arm64-build

guest:
	tests/guest/fetch $(B)/guest
	$(MAKE) riscv64

guest-numa:
	tests/guest/numa/fetch $(B)/guest/numa

# All of them, or some, such as hot,shared (tests/guest/numa/steps.py).
NUMA_STEPS ?= all
check-numa: all guest-numa $(B)/venv/.check  ## what the watch does on an emulated machine with four nodes (root, five minutes)
	TLBCOST_CHECK_NUMA="$(NUMA_STEPS)" $(B)/venv/bin/python -m pytest -rA tests/guest/numa

include profiler/simulator/rules.mk

# The package is installed editable; what only the checks need comes when they run.  With
# VENV_OPTIONS=--system-site-packages the system's Python packages are used where they will do.
VENV_OPTIONS ?=
PIP := $(B)/venv/bin/pip install --quiet --disable-pip-version-check
$(B)/venv/.run: pyproject.toml
	$(PYTHON) -m venv $(VENV_OPTIONS) $(B)/venv
	$(PIP) -e '.[completions]'
	touch $@

$(B)/venv/.check: $(B)/venv/.run
	$(PIP) -e '.[check]'
	touch $@

$(B)/venv/.release: $(B)/venv/.run
	$(PIP) -e '.[release]'
	touch $@

$(B)/venv/.accuracy: $(B)/venv/.check
	$(PIP) -e '.[accuracy]'
	touch $@

$(B)/tlbcost: scripts/tlbcost.in $(B)/venv/.run
	$(Q)sed -e 's|@PYTHON@|$${here}/venv/bin/python|' -e 's|@ROOT@|$${here}/../estimate|' \
		-e 's|@REBUILD@|make -C $${here}/.. all|' $< >$@
	@chmod +x $@

# Of the parsers, so of all that could have options.
$(B)/completions/tlbcost: scripts/completions $(B)/venv/.run $(wildcard estimate/tlbcost/*.py estimate/tlbcost/*/*.py)
	$(Q)$(B)/venv/bin/python $< $(@D)

install-deps:  ## install what building and running needs (apt; needs root)
	scripts/install-deps

demo: install-deps  ## install what is missing, build, and estimate a real program
	$(MAKE) all
	$(B)/tlbcost estimate --runs 3 -- $(B)/workloads/hash-lookup --size 512M

demo-review: install-deps  ## a capacity review of six services, into build/review (two minutes)
	$(MAKE) all
	rm -rf $(B)/review && mkdir -p $(B)/review
	$(B)/tlbcost review --state $(B)/review/state --json $(B)/review/review.json \
		--markdown $(B)/review/review.md --csv $(B)/review/review.csv \
		--junit $(B)/review/review.xml --html $(B)/review/review.html doc/examples/review.toml

# The picture of README.md: the top of that review's report.
review-picture: demo-review
	chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
		--disable-background-networking --disable-component-update --disable-sync \
		--hide-scrollbars --window-size=1100,950 --screenshot=doc/review.png $(B)/review/review.html \
		2>$(B)/review/chromium.log

check check-long: export WERROR := -Werror
check:  ## run the tests and linters that no busy machine disturbs (eight minutes)
	scripts/install-deps --check
	$(MAKE) all c-tests $(B)/venv/.check
	tests/run

# KINDS="guest arm64": a part (tests/run --help).
check-long:  ## statistics, emulated machines, packaged programs, torture (an hour; KINDS="guest arm64": a part)
	scripts/install-deps --all
	$(MAKE) all c-tests $(B)/venv/.check
	if type $(AARCH64_CC) qemu-aarch64 >/dev/null 2>&1; then $(MAKE) aarch64; fi
	if type $(RISCV64_CC) >/dev/null 2>&1 && tests/guest/fetch $(B)/guest; then $(MAKE) riscv64; fi
	if type $(AARCH64_CC) qemu-system-aarch64 >/dev/null 2>&1 && tests/guest/arm64/fetch $(ARM64_ROOT); then \
		$(MAKE) arm64; fi
	if type qemu-system-x86_64 >/dev/null 2>&1; then tests/guest/numa/fetch $(B)/guest/numa || :; fi
	tests/run --long $(KINDS)

check-releases:  ## make demo and make check on Debian 12, 13 and sid (root; RELEASES=trixie: that alone)
	scripts/check-releases $(RELEASES)

# Only clang has libFuzzer; Debian has its libraries in libclang-rt-dev.
FUZZ_CC ?= clang
FUZZERS := $(patsubst %,$(B)/fuzz/%,encode files options)

$(B)/fuzz/options: $(TIMING)
$(B)/fuzz/%: tests/fuzz/main.c tests/fuzz/%.c tests/fuzz/fuzz.h $(MODULES)
	@mkdir -p $(@D)
	@type $(FUZZ_CC) >/dev/null || { echo "tlbcost: cannot fuzz: no $(FUZZ_CC)" >&2; \
		echo "tlbcost: hint: apt-get install clang libclang-rt-dev" >&2; exit 1; }
	$(FUZZ_CC) -Iprofiler $(filter-out -MMD -MP,$(CPPFLAGS)) -DTARGET=fuzz_$* -std=c11 -O1 -g -fsanitize=fuzzer \
		$(SANITIZE) -o $@ $(filter %.c,$^) $(PFM_LIB) $(LDLIBS)

FUZZ_SECONDS ?= 600
fuzz: $(FUZZERS) $(B)/venv/.check  ## give readers of files and records anything (ten minutes)
	tests/fuzz/run $(FUZZ_SECONDS)

analyze: $(B)/venv/.check  ## bandit and gcc -fanalyzer: what doc/security.md does not explain (three minutes)
	tests/analyze $(SIM_CPPFLAGS) $(SIM_CFLAGS)

under-fire: all $(B)/venv/.check  ## every command under every condition of tests/bats/under_fire.bats (ten minutes)
	UNDER_FIRE=all bats -f everything tests/bats/under_fire.bats

lint: c-lint $(B)/venv/.check  ## the compilers' warnings, shellcheck, ruff, mypy, import-linter, codespell, vulture
	tests/lint

# All C and C++ once more, keeping nothing: what was built before shows no warnings.  (-fsyntax-only
# does not look for functions that nobody calls.)
WARN := -O0 -Werror -S -o /dev/null
EACH := xargs -n 1 -P 2
c-lint:
	find calibrator common profiler tests/c tests/guest workloads -name '*.c' -not -path 'profiler/simulator/*' \
		-not -path '*/copies/*' | $(EACH) $(CC) -Iworkloads $(filter-out -MMD -MP,$(CPPFLAGS)) $(CFLAGS) $(WARN)
	find $(if $(COPIES),profiler/copies tests/c/copies tests/torture,/dev/null) -maxdepth 1 -name '*.c' | \
		$(EACH) $(CC) -Iprofiler/copies $(filter-out -MMD -MP,$(CPPFLAGS)) $(CFLAGS) $(WARN)
	find profiler/simulator -name '*.c' | $(EACH) $(CC) $(SIM_CPPFLAGS) $(SIM_CFLAGS) $(WARN)
	find workloads tests/torture -name '*.cc' | $(EACH) $(CXX) -Iworkloads $(CXXFLAGS) $(WARN)

# What each does, and how long it takes: doc/benchmarks.md, and the head of its file.
bench: all $(B)/venv/.check  ## a benchmark: make bench NAME=copies; without NAME: which there are
	$(if $(NAME),$(B)/venv/bin/python bench/$(NAME).py $(ARGS),@grep -l __main__ bench/*.py | sed 's|bench/\(.*\).py|\1|')

accuracy: all $(B)/venv/.accuracy  ## estimates of packaged programs against pairs of runs (writes doc/accuracy.md; root, an hour)
	scripts/install-deps --accuracy
	$(B)/venv/bin/python bench/packaged.py $(ARGS)

KILLS ?= 1000
ESTIMATES ?= 200
soak-copies: all torture  ## more than 10,000 copies of programs that notice disturbances (half an hour)
	TORTURE_COPIES=$(or $(COPIES_OF_EACH),1000) bats tests/bats/torture.bats

soak: all $(B)/venv/.check  ## KILLS SIGKILLs at random instants, ESTIMATES in a row and 8 at once: does anything stay? (root, hours)
	$(B)/venv/bin/python tests/soak/kills.py --kills $(KILLS)
	$(B)/venv/bin/python tests/soak/estimates.py --estimates $(ESTIMATES)

deb:  ## Debian packages for Debian 12 and 13, into build/deb (root; RELEASES=trixie: that alone)
	scripts/deb build $(RELEASES)

check-deb:  ## those, installed, used, upgraded and purged where nothing else is (root, ten minutes)
	scripts/deb check $(RELEASES)

# RELEASE=1.2.0 for another version than the file VERSION has.
release: $(B)/venv/.release  ## date the changelog, commit that, write archive, checksums, SBOM into build/release
	scripts/release $(RELEASE)

install: all  ## install below $(DESTDIR)$(PREFIX)
	scripts/install-files "$(DESTDIR)" "$(PREFIX)" $(B)

clean:  ## remove what was built
	rm -rf $(B)

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: all aarch64 accuracy analyze arm64 bench c-lint c-tests c-workloads check check-arm64 \
	check-arm64-build check-deb check-long check-numa check-releases clean deb demo demo-review fuzz guest \
	guest-numa help install install-deps lint programs release review-picture riscv64 simulator soak soak-copies \
	torture under-fire workloads
.SECONDARY:
# The releases' folders have checkouts with such files of their own.
-include $(shell find $(B) \( -path $(B)/releases -o -path $(B)/deb \) -prune -o -name '*.d' -type f -print 2>/dev/null)
