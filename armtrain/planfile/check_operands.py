"""Operands of a step as the checker sees them, and what a rule says of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

__all__ = ["IMPOSSIBLE", "Dims", "Needs", "Operands", "Rule"]

Dims = tuple[int, ...]


@dataclass(frozen=True)
class Operands:
    """Arena dimensions of the present operands and all attributes of one step, by name."""

    dims: Mapping[str, Dims]
    attrs: Mapping[str, int | float]

    def count(self, name: str) -> int:
        """Return the elements of an operand."""
        return prod(self.dims[name])

    def many(self, name: str) -> int:
        """Return how many attributes NAME[0], NAME[1], ... there are."""
        return sum(key.startswith(f"{name}[") for key in self.attrs)

    def integer(self, name: str) -> int:
        """Return an integer attribute."""
        return int(self.attrs[name])


Needs = dict[str, int | Dims]
"""Operand -> its exact dimensions, or how many elements it has in any dimensions."""
Rule = Callable[[Operands], Needs]

IMPOSSIBLE: Dims = (0,)
"""Dimensions that no operand has."""
