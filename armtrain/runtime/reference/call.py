"""What one operation of the reference executor gets and gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from armtrain.runtime.reference.arena import Array

__all__ = ["Call", "Outputs"]

Outputs: TypeAlias = dict[str, Array]
"""Values of written operands by catalogue name; the executor drops those that a step lacks."""


@dataclass(frozen=True)
class Call:
    """One step.

    Attributes
    ----------
    values : dict
        Arrays of the operands that are read, by catalogue name, in arena layout; absent
        optional ones are missing.
    shapes : dict
        Arena dimensions of every present operand at the actual batch.
    attrs : dict
        Attributes by catalogue name.
    seed, step : int
        Key of random numbers; optimiser steps done before this one.
    learning_rate_scale : float
        Factor of the learning rate.
    """

    values: dict[str, Array]
    shapes: dict[str, tuple[int, ...]]
    attrs: dict[str, int | float] = field(default_factory=dict)
    seed: int = 0
    step: int = 0
    learning_rate_scale: float = 1.0

    def __getitem__(self, name: str) -> Array:
        """Return the array of a read operand."""
        return self.values[name]

    def get(self, name: str, default: float) -> Array | float:
        """Return the array of an optional operand or `default`."""
        return self.values.get(name, default)

    def number(self, name: str) -> float:
        """Return a float attribute."""
        return float(self.attrs[name])

    def integer(self, name: str) -> int:
        """Return an integer attribute."""
        return int(self.attrs[name])

    def many(self, name: str) -> Array:
        """Return the attributes NAME[0], NAME[1], ..., as many as there are."""
        values = [v for key, v in self.attrs.items() if key.startswith(f"{name}[")]
        return np.array(values, np.float64)

    def pair(self, name: str) -> tuple[int, int]:
        """Return the attributes NAME_h and NAME_w."""
        return self.integer(f"{name}_h"), self.integer(f"{name}_w")
