"""Which numbers a loss takes as float targets, as the engine tells (kernels/ops/targets.c)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtrain.data.columns import Column, Rows, blocks
from armtrain.errors import DataError

__all__ = ["TargetRange"]


@dataclass(frozen=True)
class TargetRange:
    """Targets that a training step takes; it refuses others, in the middle of a training.

    Attributes
    ----------
    low, high : float
        The least and the largest, which may be infinite.
    step : float
        0 for all numbers between; else `low` and whole steps from it.
    ignored : float
        One more that is taken and does not count; NaN for none.
    shares : bool
        Those of a sample are shares of 1.
    way : str
        Who needs that, and what to do with others.
    """

    low: float
    high: float
    step: float
    ignored: float
    shares: bool
    way: str

    def scan(self, column: Column) -> None:
        """Read all targets once and refuse those that are out of range.

        What is not finite is passed over: it is refused as such, elsewhere.

        Raises
        ------
        DataError
            With the first bad row, its element and value, the range, what to do, and how many rows
            are bad.
        """
        bad, first = 0, ""
        for row, block in blocks(column):
            with np.errstate(over="ignore"):
                values = block.reshape(len(block), -1).astype(np.float32)
            strays = self._strays(values)
            hit = strays.any(axis=1)
            if hit.any() and not bad:
                sample = int(hit.argmax())
                first = self._place(column.name, row + sample, strays[sample], values[sample])
            bad += int(hit.sum())
        if bad:
            raise DataError(f"{first} ({bad} in all)")

    def refuse(self, name: str, rows: Rows, targets: NDArray[np.float32]) -> None:
        """Refuse targets of the rows `rows`, shape (n, ...), that are out of range.

        Raises
        ------
        DataError
            As `scan`, without how many.
        """
        values = targets.reshape(len(rows), -1)
        strays = self._strays(values)
        hit = strays.any(axis=1)
        if hit.any():
            sample = int(hit.argmax())
            raise DataError(self._place(name, int(rows[sample]), strays[sample], values[sample]))

    def _strays(self, values: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Return which finite values are none of the range's, in their shape."""
        inside = (values >= self.low) & (values <= self.high)
        if self.step:
            steps = (values.astype(np.float64) - self.low) / self.step
            inside &= steps == np.floor(steps)
        inside |= values == self.ignored
        return ~inside & np.isfinite(values)

    def _place(self, name: str, row: int, strays: NDArray[np.bool_], values: NDArray[Any]) -> str:
        """Name the first stray of a row, and what to do."""
        steps = f" in steps of {self.step:g}" if self.step else ""
        element = int(strays.argmax())
        return (
            f"{name}: targets must lie in {self.low:g}..{self.high:g}{steps}, row {row} (counted "
            f"from 0) has {values[element]:.9g} at element {element}; {self.way}"
        )
