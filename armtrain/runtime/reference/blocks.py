"""Updates that make the gradient of their weight: that of the whole weight, then the update."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from armtrain.runtime.reference.arena import Array
from armtrain.runtime.reference.call import Call, Outputs
from armtrain.runtime.reference.dense import conv2d_grad_w, linear_grad_w
from armtrain.runtime.reference.update import (
    adagrad_step,
    adam_step,
    adamw_step,
    rmsprop_step,
    sgd_step,
)

__all__ = [
    "blocks_adagrad_step",
    "blocks_adam_step",
    "blocks_adamw_step",
    "blocks_rmsprop_step",
    "blocks_sgd_step",
    "whole_gradient",
]


def whole_gradient(call: Call) -> Array:
    """Return the gradient of all blocks, not clipped."""
    of = linear_grad_w if call["w"].ndim == 2 else conv2d_grad_w
    return of(replace(call, shapes={**call.shapes, "dw": call["w"].shape}))["dw"]


def blocks_sgd_step(call: Call) -> Outputs:
    """torch.optim.SGD."""
    return _update(call, sgd_step)


def blocks_adam_step(call: Call) -> Outputs:
    """torch.optim.Adam."""
    return _update(call, adam_step)


def blocks_adamw_step(call: Call) -> Outputs:
    """torch.optim.AdamW."""
    return _update(call, adamw_step)


def blocks_rmsprop_step(call: Call) -> Outputs:
    """torch.optim.RMSprop."""
    return _update(call, rmsprop_step)


def blocks_adagrad_step(call: Call) -> Outputs:
    """torch.optim.Adagrad."""
    return _update(call, adagrad_step)


def _update(call: Call, whole: Callable[[Call], Outputs]) -> Outputs:
    """Return what the update of the whole weight does, and g as the last blocks leave it."""
    gradient = whole_gradient(call)
    if limit := call.number("limit"):
        gradient = np.clip(gradient, -limit, limit)
    rows, (block, columns) = gradient.reshape(-1, gradient.shape[-1]), call.shapes["g"]
    g = np.empty((block, columns))
    for first in range(0, len(rows), block):
        g[: len(rows) - first] = rows[first : first + block]
    return {**whole(replace(call, values={**call.values, "g": gradient})), "g": g}
