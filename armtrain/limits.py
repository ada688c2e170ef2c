"""The largest numbers that a plan may hold: the one list that planner, checker and engine read.

`kernels/include/art_limits.h` is generated from `LIMITS` by `scripts/gen_c_headers.py`. Ranges of
attributes are in the catalogue (`armtrain/ir/ops.py`), which uses these numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "LIMITS",
    "MAX_ARENA_BYTES",
    "MAX_DIM",
    "MAX_EPOCHS",
    "MAX_FLOAT",
    "MAX_INDICES",
    "MAX_LABEL",
    "MAX_MERGED_TERMS",
    "MAX_POOL_PLACES",
    "MAX_RECORDS",
    "MAX_ROWS",
    "MAX_SAMPLES",
    "MAX_SIDE",
    "MAX_THREADS",
    "MAX_UINT64",
    "MAX_WEIGHTS",
    "MAX_WINDOW",
    "MIN_FLOAT",
    "MIN_LABEL",
    "NO_LABEL",
    "Limit",
]

MAX_THREADS = 64
MAX_DIM = 2**31 - 1
MAX_SIDE = (2**31 - 1) // 4
MAX_ROWS = 2**31 - 1
MAX_WINDOW = 2**20
MAX_POOL_PLACES = 255
MAX_INDICES = 2**24
MAX_MERGED_TERMS = 64
"""A convolution whose kernel rows have no more terms takes each as one long tap."""
MAX_ARENA_BYTES = 2**37
MAX_RECORDS = 2**20
MAX_UINT64 = 2**64 - 1
"""Largest seed and largest byte count of a file or budget."""
MAX_WEIGHTS = 2**16 - 64
"""Most weights of a loss: a step counts its attributes in 16 bits."""
MIN_LABEL, MAX_LABEL = -(2**31), 2**31 - 1
"""Labels are int32; those of classes are from 0, an ignored one may be any."""
NO_LABEL = -100
"""The label that does not count where nobody says another one: torch's `ignore_index`."""
MAX_EPOCHS = 2**31 - 1
"""Largest number of epochs of a run, and of steps between two checkpoints."""
MAX_SAMPLES = 2**40
"""Largest number of `random:` samples."""
MAX_FLOAT = 1e30
"""Largest hyper-parameter; its product with any usual value is still a finite float32."""
MIN_FLOAT = 2.0**-126
"""Smallest hyper-parameter but 0: smaller ones are no normal float32, and become 0 on some
processors."""


@dataclass(frozen=True)
class Limit:
    """An integer that the C side has as a macro `ART_<name>`."""

    name: str
    value: int
    comment: str


LIMITS = (
    Limit("MAX_THREADS", MAX_THREADS, "planned threads"),
    Limit("MAX_DIM", MAX_DIM, "any dimension of a tensor, the batch among them"),
    Limit("MAX_SIDE", MAX_SIDE, "height and width of an image: sums of a few fit 32 bits"),
    Limit("MAX_ROWS", MAX_ROWS, "batch times height times width of an image"),
    Limit("MAX_WINDOW", MAX_WINDOW, "kernel, stride, padding, dilation and groups"),
    Limit("MAX_POOL_PLACES", MAX_POOL_PLACES, "places of a max-pool window, numbered by one byte"),
    Limit("MAX_MERGED_TERMS", MAX_MERGED_TERMS, "terms of a kernel row that is one long tap"),
    Limit("MAX_INDICES", MAX_INDICES, "rows of a table, whose numbers are exact in float32"),
    Limit("MAX_ARENA_BYTES", MAX_ARENA_BYTES, "offsets in units of the alignment fit 32 bits"),
    Limit("MAX_RECORDS", MAX_RECORDS, "tensors or steps: index products stay below 2^32 bytes"),
    Limit("MAX_EPOCHS", MAX_EPOCHS, "epochs of a run, and steps between two checkpoints"),
    Limit("MAX_SAMPLES", MAX_SAMPLES, "`random:` samples"),
)
