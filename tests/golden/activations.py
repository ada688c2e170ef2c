"""Activations and the points where PyTorch's values and gradients are stored."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["ACTIVATIONS", "POINTS", "UPSTREAM", "make_activation"]

ACTIVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "sigmoid": ("Sigmoid", {}),
    "relu6": ("ReLU6", {}),
    "leaky_relu": ("LeakyReLU", {}),
    "leaky_relu_options": ("LeakyReLU", {"negative_slope": 0.3}),
    "elu": ("ELU", {}),
    "elu_options": ("ELU", {"alpha": 1.7}),
    "selu": ("SELU", {}),
    "silu": ("SiLU", {}),
    "hardswish": ("Hardswish", {}),
    "hardsigmoid": ("Hardsigmoid", {}),
    "gelu": ("GELU", {}),
    "gelu_tanh": ("GELU", {"approximate": "tanh"}),
    "mish": ("Mish", {}),
    "softplus": ("Softplus", {}),
    "softplus_options": ("Softplus", {"beta": 2.5, "threshold": 0.5}),
}
"""Name of a case -> class and arguments, the same in torch.nn and armtrain.nn."""

POINTS = np.array(
    [*np.arange(-8.0, 8.5, 0.5), -100.0, -20.5, -12.0, 12.0, 20.5, 100.0, -np.inf, np.inf, np.nan]
)
UPSTREAM = 1.25
"""Gradient of the result at every point."""


def make_activation(nn: Any, name: str) -> Any:
    """Return a module of torch.nn or armtrain.nn."""
    word, arguments = ACTIVATIONS[name]
    return getattr(nn, word)(**arguments)
