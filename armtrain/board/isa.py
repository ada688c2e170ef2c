"""Vector units: from the capability word, else from the Features line, else none.

Bits: arch/arm64/include/uapi/asm/hwcap.h and arch/arm/include/uapi/asm/hwcap.h of Linux.
"""

from __future__ import annotations

from dataclasses import dataclass

from armtrain.board.levels import fastest_level

__all__ = ["VectorUnits", "vector_units"]

# Architecture -> words of the Features line and bits of the capability word for (NEON, fused).
_WORDS = {
    "aarch64": ({"asimd"}, {"asimd"}),
    "armv7l": ({"neon", "asimd"}, {"vfpv4", "asimd"}),
}
_BITS = {"aarch64": (1 << 1, 1 << 1), "armv7l": (1 << 12, 1 << 16)}
# Architecture of a userland -> that of the kernel levels.
_COMPILED = {"aarch64": "aarch64", "armv7l": "arm"}


@dataclass(frozen=True)
class VectorUnits:
    """What kernels may use.

    Attributes
    ----------
    neon : bool
    fused : bool
        Fused multiply-add in the vector unit.
    level : str
        Name of the fastest kernels for it, 'c' for the plain ones.
    reason : str
        What said so.
    """

    neon: bool
    fused: bool
    level: str
    reason: str


def vector_units(architecture: str, features: tuple[str, ...], hwcap: int = 0) -> VectorUnits:
    """Return the vector units of an ARM processor.

    Parameters
    ----------
    architecture : str
        As `userland_architecture` returns it.
    features : tuple of str
        Words of /proc/cpuinfo.
    hwcap : int
        Capability word; 0 when it cannot be read or says nothing, which older kernels and some
        emulators do.
    """
    bits, words = _BITS.get(architecture), _WORDS.get(architecture)
    if bits is None or words is None:
        return VectorUnits(False, False, "c", f"there are no NEON kernels for {architecture}")
    if hwcap:
        neon, fused = bool(hwcap & bits[0]), bool(hwcap & bits[1])
        source = f"capability word 0x{hwcap:x}"
    elif features:
        neon, fused = bool(words[0] & set(features)), bool(words[1] & set(features))
        source = "Features line of /proc/cpuinfo"
    else:
        reason = "neither the capability word nor /proc/cpuinfo can be read: plain C kernels"
        return VectorUnits(False, False, "c", reason)
    found = frozenset(name for name, has in (("NEON", neon), ("VFPV4", fused)) if has)
    level = fastest_level(_COMPILED[architecture], found)
    said = "NEON" + (" with fused multiply-add" if fused else "") if neon else "no NEON"
    return VectorUnits(neon, neon and fused, level, f"{said}, from the {source}")
