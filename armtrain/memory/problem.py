"""The packing problem as pure numbers: buffers with a size and a half-open lifetime.

Nothing here knows tensors, steps or alignment. A size is any positive integer; when every size
is a multiple of the alignment, so is every offset that the packer returns.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

from armtrain.errors import PlanError

__all__ = ["Buffer", "Problem", "Solution"]


@dataclass(frozen=True)
class Buffer:
    """One buffer: `size` units, live at times lower <= t < upper."""

    lower: int
    upper: int
    size: int

    def overlaps(self, other: Buffer) -> bool:
        """Return whether both are live at some time."""
        return self.lower < other.upper and other.lower < self.upper


@dataclass(frozen=True)
class Problem:
    """Buffers to be placed; a buffer's id is its position unless `ids` names them."""

    buffers: tuple[Buffer, ...]
    ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse empty lifetimes and sizes."""
        for index, buffer in enumerate(self.buffers):
            if buffer.lower >= buffer.upper or buffer.size <= 0 or buffer.lower < 0:
                raise PlanError(
                    f"buffer {self.name(index)}: needs 0 <= lower < upper and size > 0, got "
                    f"lower {buffer.lower}, upper {buffer.upper}, size {buffer.size}"
                )

    def name(self, index: int) -> str:
        """Return the id of the buffer at `index`."""
        return self.ids[index] if self.ids else str(index)

    def to_csv(self, solution: Solution | None = None) -> str:
        """Return rows `id,lower,upper,size` (half-open), with `offset` when solved."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["id", "lower", "upper", "size"] + (["offset"] if solution else []))
        for index, b in enumerate(self.buffers):
            row: list[str | int] = [self.name(index), b.lower, b.upper, b.size]
            if solution:
                row.append(solution.offsets[index])
            writer.writerow(row)
        return out.getvalue()

    @staticmethod
    def from_csv(text: str) -> Problem:
        """Read rows `id,lower,upper,size` in any column order.

        Raises
        ------
        PlanError
            Naming the line, when a column is missing or a value is no integer.
        """
        reader = csv.DictReader(io.StringIO(text))
        missing = {"id", "lower", "upper", "size"} - set(reader.fieldnames or ())
        if missing:
            raise PlanError(f"the buffer table lacks the column(s) {', '.join(sorted(missing))}")
        buffers, ids = [], []
        for row in reader:
            try:
                lower, upper, size = (int(row[key]) for key in ("lower", "upper", "size"))
            except (TypeError, ValueError):
                raise PlanError(
                    f"line {reader.line_num} of the buffer table: lower, upper and size must be "
                    "whole numbers"
                ) from None
            buffers.append(Buffer(lower, upper, size))
            ids.append(row["id"])
        return Problem(tuple(buffers), tuple(ids))

    def dump(self) -> str:
        """Return one readable line per buffer."""
        lines = [f"problem: {len(self.buffers)} buffers"]
        lines += [
            f"  {self.name(i):>6s} [{b.lower},{b.upper}) size {b.size}"
            for i, b in enumerate(self.buffers)
        ]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Solution:
    """Where every buffer lies, and how good that is.

    Attributes
    ----------
    offsets : tuple of int
        In order of `Problem.buffers`.
    height_bytes : int
        Largest offset + size.
    lower_bound_bytes : int
        Most bytes live at one time.
    proved_minimum_bytes : int
        Best proved lower bound; equal to the height when the height is proved optimal.
    method : str
        What found it ('first-fit:size', 'repair:start', 'exact').
    nodes : int
        Buffer placements tried by all searches: the counted effort, the same on every host.
    """

    offsets: tuple[int, ...]
    height_bytes: int
    lower_bound_bytes: int
    proved_minimum_bytes: int
    method: str
    nodes: int

    def dump(self, problem: Problem) -> str:
        """Return a summary line and one readable line per buffer, by offset."""
        lines = [
            f"solution: height {self.height_bytes}, lower bound {self.lower_bound_bytes}, "
            f"proved minimum {self.proved_minimum_bytes}, {self.method}, {self.nodes} nodes"
        ]
        order = sorted(range(len(self.offsets)), key=lambda i: (self.offsets[i], i))
        for i in order:
            b = problem.buffers[i]
            lines.append(
                f"  {self.offsets[i]:12d} {b.size:12d} [{b.lower},{b.upper}) {problem.name(i)}"
            )
        return "\n".join(lines) + "\n"
