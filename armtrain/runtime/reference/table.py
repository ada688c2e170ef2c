"""One function per operation code."""

from __future__ import annotations

from collections.abc import Callable

from armtrain.ir.ops import OpCode
from armtrain.runtime.reference import (
    activation,
    arithmetic,
    blocks,
    dense,
    embedding,
    loss,
    movement,
    norm,
    pointwise,
    pool,
    resample,
    sample_norm,
    softmax,
    update,
)
from armtrain.runtime.reference.call import Call, Outputs

__all__ = ["FUNCTIONS"]

_MODULES = (
    *(dense, embedding, pool, resample, norm, sample_norm, pointwise, movement),
    *(arithmetic, activation, softmax, loss, update, blocks),
)

FUNCTIONS: dict[OpCode, Callable[[Call], Outputs]] = {
    code: getattr(module, code.name.lower())
    for module in _MODULES
    for code in OpCode
    if code.name.lower() in module.__all__
}
"""The function of every operation carries the operation's name in lower case."""
