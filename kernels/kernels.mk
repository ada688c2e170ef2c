# The only list of C sources, and the flags of each group.
#
# A micro-kernel file's name ends with its level: x_c.c, x_vec_avx2.c, x_neon_a64.c, ...; levels of
# another architecture are left out. Everything else is built for the architecture's baseline.
#
# A cross build names its target and has a folder of its own, build/TARGET:
#   make run CROSS=aarch64|armv7|armv6

# What the environment says about compilers and flags is meant for this machine, not for a target.
CROSS_TARGETS = aarch64 armv7 armv6
ifdef CROSS
ifeq ($(filter $(CROSS),$(CROSS_TARGETS)),)
$(error CROSS=$(CROSS) is no target: choose one of $(CROSS_TARGETS))
endif
CROSS_ARCH_aarch64 = aarch64
CROSS_CC_aarch64 = aarch64-linux-gnu-gcc
CROSS_AR_aarch64 = aarch64-linux-gnu-ar
CROSS_STRIP_aarch64 = aarch64-linux-gnu-strip
CROSS_ARCH_armv7 = arm
CROSS_CC_armv7 = arm-linux-gnueabihf-gcc
CROSS_AR_armv7 = arm-linux-gnueabihf-ar
CROSS_STRIP_armv7 = arm-linux-gnueabihf-strip
# Debian's ARM compiler brings ARMv7 start files and C library; Zig builds its own for ARMv6.
CROSS_ARCH_armv6 = armv6
CROSS_CC_armv6 = $(ZIG) cc -target arm-linux-musleabihf -mcpu=arm1176jzf_s -Wno-unknown-pragmas
CROSS_AR_armv6 = $(ZIG) ar
CROSS_STRIP_armv6 = arm-linux-gnueabihf-strip
ZIG ?= $(VENV)/bin/python-zig
export ZIG_LOCAL_CACHE_DIR = $(abspath build/zig)
ARCH = $(CROSS_ARCH_$(CROSS))
CC = $(CROSS_CC_$(CROSS))
AR = $(CROSS_AR_$(CROSS))
STRIP = $(CROSS_STRIP_$(CROSS))
BUILD = build/$(CROSS)
OPT = -O3 -g
# Symbols stay: they tell which file an instruction is from, and what between them is constants.
STRIP_FLAGS = --strip-debug --keep-file-symbols
endif

ifndef ARCH
ARCH := $(shell $(CC) -dumpmachine 2>/dev/null | cut -d- -f1)
endif
BUILD ?= build
OPT ?= -O3 -g
STRIP ?= strip
STRIP_FLAGS ?= --strip-all

# The least processor: any ARMv8-A; ARMv7-A with 16 double registers (no NEON) and hard floats.
FLAGS_BASE_aarch64 = -march=armv8-a
FLAGS_BASE_arm = -march=armv7-a+fp -mfloat-abi=hard

FLAGS_BASE = $(FLAGS_BASE_$(ARCH))
# Pages of an ARM kernel have 4, 16 or 64 KiB.
MAX_PAGE = -Wl,-z,max-page-size=65536
LDFLAGS_BASE = $(if $(filter aarch64 arm%,$(ARCH)),$(MAX_PAGE))

# File sizes, inode numbers and times have 64 bits on every architecture (a file dated after 2038).
# C needs no tables for unwinding; debuggers have their own.
CFLAGS_COMMON = -std=gnu11 $(OPT) $(FLAGS_BASE) -D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64 -fPIC -fvisibility=hidden \
  -fno-asynchronous-unwind-tables -fno-unwind-tables -Wall -Wextra -Wshadow \
  -Wstrict-prototypes -Wvla -fno-math-errno -fno-trapping-math -pthread -Ikernels -Ikernels/include $(WERROR)
# Contraction is never left to chance: off everywhere, on only where every path fuses alike, and
# also where GCC's -O1 (the sanitizer builds) would leave the pass out that does it.
CONTRACT_OFF = -ffp-contract=off
CONTRACT_FUSE = -ffp-contract=fast -fexpensive-optimizations

# -O3 peels and unrolls the ends of every vector loop; without that three levels are 80 kB smaller.
OPT_VEC_x86_64 = $(if $(filter -O3,$(OPT)),-O2 -ftree-vectorize)

# LEVELS_(architecture), LEVELS_FUSING, FLAGS_(level) and FLAGS_GEMM_(level), from armtrain/board/levels.py.
include kernels/levels.mk
LEVELS = $(or $(LEVELS_$(ARCH)),c)

SOURCES_BASE = $(sort $(wildcard kernels/core/*.c kernels/dispatch/*.c kernels/pack/*.c kernels/ops/*.c kernels/engine/*.c))
SOURCES_REF = $(sort $(wildcard kernels/ref/*.c))
SOURCES_GEMM = $(foreach l,$(LEVELS),$(sort $(wildcard kernels/ukernel/gemm/*_$(l).c)))
SOURCES_VEC = $(foreach l,$(LEVELS),$(sort $(wildcard kernels/ukernel/vec/*_$(l).c)))
SOURCES_ROOF = $(foreach l,$(LEVELS),$(wildcard kernels/ukernel/roof/*_$(l).c))
SOURCES_RUN = $(sort $(wildcard kernels/run/*.c))
HEADERS = $(shell find kernels -name '*.h' -o -name '*.def' -o -name '*.inc')

object = $(patsubst kernels/%.c,$(BUILD)/obj/%.o,$(1))
level_of = $(lastword $(foreach l,$(LEVELS),$(if $(filter %_$(l).c,$(1)),$(l))))

OBJECTS_LIB = $(call object,$(SOURCES_BASE) $(SOURCES_GEMM) $(SOURCES_VEC) $(SOURCES_ROOF))

define level_rule
$(call object,$(1)): $(1) $$(HEADERS) kernels/kernels.mk kernels/levels.mk
	@mkdir -p $$(dir $$@)
	$$(CC) $$(CFLAGS_COMMON) $(2) $$(FLAGS_$(call level_of,$(1))) -c $$< -o $$@
endef
contract_of = $(if $(filter $(LEVELS_FUSING),$(call level_of,$(1))),$(CONTRACT_FUSE),$(CONTRACT_OFF))
$(foreach s,$(SOURCES_GEMM) $(SOURCES_ROOF),$(eval $(call level_rule,$(s),$(call contract_of,$(s)) $(FLAGS_GEMM_$(call level_of,$(s))))))
$(foreach s,$(SOURCES_VEC),$(eval $(call level_rule,$(s),$(CONTRACT_OFF) $(OPT_VEC_$(ARCH)))))

# Parsers, files, messages, checks, what reads memory in jumps, sums of rows in double and losses whose
# loops are micro-kernels do not repay the copies of loops that -O3 makes of them.
SPARE = kernels/engine/% kernels/run/% \
        $(addprefix kernels/ops/,arithmetic.c check.c element_loss.c embedding_rows.c layernorm.c reduce.c resample2d.c targets.c)
SOURCES_SPARE = $(filter $(SPARE),$(SOURCES_BASE) $(SOURCES_RUN))
$(call object,$(SOURCES_SPARE)): CONTRACT_OFF += $(if $(filter -O3,$(OPT)),-O2)

# The twins are not vectorised: fewer compiler passes between their source and their values (GCC 12
# for aarch64 fails on ref_loss.c otherwise).
$(call object,$(SOURCES_REF)): CONTRACT_OFF += -fno-tree-vectorize
$(call object,$(SOURCES_BASE) $(SOURCES_REF) $(SOURCES_RUN)): $(BUILD)/obj/%.o: kernels/%.c $(HEADERS) kernels/kernels.mk kernels/levels.mk
	@mkdir -p $(dir $@)
	$(CC) $(CFLAGS_COMMON) $(CONTRACT_OFF) -c $< -o $@

$(BUILD)/libarmtrain.a: $(OBJECTS_LIB)
	@rm -f $@
	$(AR) rcs $@ $^

# The reference twins: linked by tests only, never by the product.
$(BUILD)/libarmtrain_ref.a: $(call object,$(SOURCES_REF))
	@rm -f $@
	$(AR) rcs $@ $^

# All of armtrain-run but its main function, which tests link too.
$(BUILD)/librun.a: $(call object,$(filter-out kernels/run/main.c,$(SOURCES_RUN)))
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/armtrain-run: $(call object,kernels/run/main.c) $(BUILD)/librun.a $(BUILD)/libarmtrain.a
	$(CC) -static -pthread $(LDFLAGS_BASE) -o $@ $^ -lm
	$(STRIP) $(STRIP_FLAGS) $@

# C tests: tests/c/test_NAME.c becomes BUILD/tests/test_NAME, with STATIC_TESTS=1 one
# that runs without the target's libraries.
LDFLAGS_TEST = $(if $(STATIC_TESTS),-static)
C_TESTS = $(patsubst tests/c/%.c,$(BUILD)/tests/%,$(sort $(wildcard tests/c/test_*.c)))
# It puts its own allocator in the C library's place, which a static library does not allow.
$(BUILD)/tests/test_no_alloc: LDFLAGS_TEST =
$(BUILD)/tests/%: tests/c/%.c $(wildcard tests/c/*.h) $(BUILD)/libarmtrain.a $(BUILD)/libarmtrain_ref.a $(BUILD)/librun.a
	@mkdir -p $(dir $@)
	$(CC) $(CFLAGS_COMMON) $(CONTRACT_OFF) $(LDFLAGS_TEST) -Itests/c $< -o $@ $(BUILD)/librun.a $(BUILD)/libarmtrain_ref.a $(BUILD)/libarmtrain.a $(BUILD)/libarmtrain_ref.a -lm

# Fuzzers: tests/c/fuzz_NAME.c becomes BUILD/tests/fuzz_NAME, run with the number of inputs.
C_FUZZERS = $(patsubst tests/c/%.c,$(BUILD)/tests/%,$(sort $(wildcard tests/c/fuzz_*.c)))
