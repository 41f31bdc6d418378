# SPDX-License-Identifier: GPL-2.0-or-later
# How the Valgrind tool is built; included by the Makefile.
#
# A tool is a static program linked with Valgrind's core at an address of its
# own, out of the client's way.  The distribution's valgrind package ships the
# headers and the libraries; the tool interface is checked at start, so the
# tool is built again whenever that package changes.

# VG_ROOT: a folder with another architecture's valgrind package, for a cross build.
VG_ROOT ?=
VG_ARCH := $(patsubst aarch64,arm64,$(patsubst x86_64,amd64,$(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))))
VG_PLATFORM := $(VG_ARCH)-linux
VG_DIR := $(firstword $(wildcard $(addprefix $(VG_ROOT),/usr/lib/*/valgrind /usr/lib/valgrind /usr/lib64/valgrind /usr/local/lib/valgrind)))
# Where the package keeps what every tool loads at run time; there it is installed, not in VG_ROOT.
VG_RUN := $(patsubst $(VG_ROOT)%,%,$(firstword $(wildcard $(addprefix $(VG_ROOT),/usr/libexec/valgrind /usr/lib/*/valgrind /usr/lib/valgrind /usr/local/libexec/valgrind))))
VG_LIBS := $(VG_DIR)/libcoregrind-$(VG_PLATFORM).a $(VG_DIR)/libvex-$(VG_PLATFORM).a
VG_GCC := $(wildcard $(VG_DIR)/libgcc-sup-$(VG_PLATFORM).a)
# The address is the core's own choice for each platform (coregrind, configure).
VG_TEXT := 0x58000000

SIM := $(B)/libexec/valgrind
SIM_SOURCES := $(wildcard profiler/simulator/*.c profiler/engine/*.c profiler/numa/*.c profiler/timing/*.c profiler/tlb/*.c)
SIM_OBJECTS := $(SIM_SOURCES:%.c=$(B)/sim/%.o)
SIM_CPPFLAGS := -Iprofiler/simulator -Iprofiler -isystem $(VG_ROOT)/usr/include/valgrind
# Valgrind's headers are GNU C, and rely on undefined macros being 0: neither -Wpedantic nor
# -Wundef.  The core is not to be called through builtins or a stack protector it does not have.
SIM_CFLAGS := -std=gnu11 -O3 -g -fno-stack-protector -fno-strict-aliasing -fno-builtin \
	-fomit-frame-pointer -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes \
	-Wmissing-prototypes -Wvla -Wformat=2 -Wno-format-nonliteral $(WERROR) \
	-DVGA_$(VG_ARCH)=1 -DVGO_linux=1 -DVGP_$(VG_ARCH)_linux=1 -DVGPV_$(VG_ARCH)_linux_vanilla=1

simulator: $(SIM)/tlbsim-$(VG_PLATFORM)

ifeq ($(wildcard $(VG_LIBS)),)
$(SIM)/tlbsim-$(VG_PLATFORM):
	@echo "make: Valgrind's headers and libraries for $(VG_PLATFORM) are missing" >&2
	@echo "make: hint: make install-deps" >&2
	@exit 1
else

$(B)/sim/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) -MMD -MP $(SIM_CPPFLAGS) $(SIM_CFLAGS) -c -o $@ $<

# -u _start pulls Valgrind's own entry point out of the core's library.
$(SIM)/tlbsim-$(VG_PLATFORM): $(SIM_OBJECTS) $(VG_LIBS)
	@mkdir -p $(@D)
	$(Q)$(CC) -static -nodefaultlibs -nostartfiles -no-pie -u _start -Wl,--build-id=none \
		-Wl,-Ttext-segment=$(VG_TEXT) -o $@ $(SIM_OBJECTS) $(VG_LIBS) -lgcc $(VG_GCC)
	@ln -sf $(VG_RUN)/vgpreload_core-$(VG_PLATFORM).so $(VG_RUN)/default.supp $(@D)/
endif
