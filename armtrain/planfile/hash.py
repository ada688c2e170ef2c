"""The two hashes of a plan file.

The model hash says which forward graph at which batch a plan was made for. The program hash
covers tensors, steps, operands, attributes, swap actions and strings with every address zeroed:
plans that differ only in where buffers lie share it.
"""

from __future__ import annotations

import hashlib

from armtrain.ir.program import Program
from armtrain.planfile.format import TENSOR

__all__ = ["model_hash", "program_hash"]


def model_hash(program: Program) -> bytes:
    """Return the SHA-256 of the model text (32 bytes)."""
    return hashlib.sha256(program.model_text.encode("utf-8")).digest()


def program_hash(body: bytes, tensors_count: int) -> bytes:
    """Return the SHA-256 of `body` with the addresses of all tensor records zeroed.

    Parameters
    ----------
    body : bytes
        File bytes from the first tensor record to the end of the strings, gaps included.
    tensors_count : int
        Records at the start of `body`; a record begins with its 8-byte address.
    """
    data = bytearray(body)
    for index in range(tensors_count):
        start = index * TENSOR.size
        data[start : start + 8] = bytes(8)
    return hashlib.sha256(data).digest()
