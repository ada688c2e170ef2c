"""The OpenBLAS that NumPy brought into this process: its product, its kernels' name, one thread."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["TUNING", "OpenBlas", "find_openblas"]

_NAMES = (("scipy_", "64_"), ("", "64_"), ("scipy_", ""), ("", ""))
TUNING = ("OPENBLAS", "GOTO_", "OMP_", "MKL_", "KMP_", "ARMTRAIN_CPU")
"""Beginnings of the names of variables that make a library choose other kernels or threads."""


@dataclass(frozen=True)
class OpenBlas:
    """What was found.

    Attributes
    ----------
    sgemm : int
        Address of cblas_sgemm.
    integer_bits : int
        Of its sizes.
    name : str
        Version and kernels.
    """

    sgemm: int
    integer_bits: int
    name: str


def find_openblas() -> OpenBlas | None:
    """Return NumPy's OpenBLAS, set to one thread, or None where NumPy works with another BLAS."""
    np.ones((64, 64), np.float32) @ np.ones((64, 64), np.float32)
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    paths = {line.split()[-1] for line in lines if "openblas" in line.split()[-1]}
    for path in sorted(paths):
        library = ctypes.CDLL(path)
        for before, after in _NAMES:
            if hasattr(library, f"{before}cblas_sgemm{after}"):
                return _opened(library, before, after)
    return None


def _opened(library: ctypes.CDLL, before: str, after: str) -> OpenBlas:
    """Return a library whose functions have these names around them."""
    library[f"{before}openblas_set_num_threads{after}"](1)
    texts = []
    for function in ("get_config", "get_corename"):
        told = library[f"{before}openblas_{function}{after}"]
        told.restype = ctypes.c_char_p
        texts.append(told().decode())
    config, core = texts
    address = ctypes.cast(library[f"{before}cblas_sgemm{after}"], ctypes.c_void_p).value or 0
    version = " ".join(config.split()[:2])
    return OpenBlas(address, 64 if after else 32, f"{version}, kernels {core}")
