"""Kernel levels: the one list that C, make and Python work from.

A level is a set of kernel files built with their own flags and chosen at run time by what the
processor can do. `scripts/gen_c_headers.py` writes `kernels/include/art_levels.h` (declarations,
dispatch, tests) and `kernels/levels.mk` (which files, which flags) from this table.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LEVELS", "Level", "fastest_level", "level_names"]


@dataclass(frozen=True)
class Level:
    """One kernel level.

    Attributes
    ----------
    name : str
        End of the names of its files, and its name in logs and checkpoints.
    architecture : str
        First word of the compiler's target; '' for every architecture.
    features : tuple of str
        Bits ART_CPU_* of kernels/core/cpu.h that the processor must have.
    fused : bool
        Whether its matrix products fuse every multiply with its add.
    flags : str
        Compiler flags of its files, beyond those of the architecture's baseline.
    product_flags : str
        Further flags of its matrix products alone.
    """

    name: str
    architecture: str
    features: tuple[str, ...]
    fused: bool
    flags: str = ""
    product_flags: str = ""


# Scheduling before register allocation, and coalescing, would copy sums between registers in the
# inner loops.
KEEP_SUMS = "-fno-schedule-insns -fno-tree-coalesce-vars"
# The order of instructions is the source's (kernels/ukernel/gemm/gemm_terms_a64.h).
KEEP_ORDER = f"{KEEP_SUMS} -fno-schedule-insns2"


# Slowest first: the levels above one that can run are its fall-backs.
LEVELS: tuple[Level, ...] = (
    Level("c", "", (), False),
    Level("vec_sse2", "x86_64", ("SSE2",), False, "-msse2"),
    Level("vec_avx2", "x86_64", ("AVX2_FMA",), True, "-mavx2 -mfma"),
    Level(
        "vec_avx512",
        "x86_64",
        ("AVX512",),
        True,
        "-mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mprefer-vector-width=512",
    ),
    Level("neon_a64", "aarch64", ("NEON", "VFPV4"), True, "", KEEP_ORDER),
    Level("neon_a32", "arm", ("NEON",), False, "-mfpu=neon", KEEP_SUMS),
    Level("neonv4_a32", "arm", ("NEON", "VFPV4"), True, "-mfpu=neon-vfpv4", KEEP_SUMS),
)


def level_names() -> tuple[str, ...]:
    """Return the names of all levels of all architectures."""
    return tuple(level.name for level in LEVELS)


def fastest_level(architecture: str, features: frozenset[str]) -> str:
    """Return the level that a processor of an architecture with these features gets.

    Examples
    --------
    >>> fastest_level("arm", frozenset({"NEON"}))
    'neon_a32'
    """
    fitting = (
        level.name
        for level in LEVELS
        if level.architecture in ("", architecture) and features.issuperset(level.features)
    )
    return tuple(fitting)[-1]
