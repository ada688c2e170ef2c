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

_LIMIT = 1 << 48  # sums of a table's values fit into 63 bits


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
        """Refuse empty lifetimes and sizes, and ids that are not unique."""
        if len(set(self.ids)) != len(self.ids):
            twice = next(i for k, i in enumerate(self.ids) if i in self.ids[:k])
            raise PlanError(f"two buffers have the id {twice!r}")
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
            Naming the line, when a column is missing or a value is no integer, or naming an id
            that two rows have.
        """
        rows = _rows(text, ("id", "lower", "upper", "size"))
        buffers, ids = [], []
        for line, row in rows:
            lower, upper, size = (_whole(line, key, row[key]) for key in ("lower", "upper", "size"))
            buffers.append(Buffer(lower, upper, size))
            ids.append(row["id"])
        return Problem(tuple(buffers), tuple(ids))

    @staticmethod
    def offsets_from_csv(text: str) -> tuple[int, ...] | None:
        """Read the column `offset` of a solved table; None when there is none.

        Raises
        ------
        PlanError
            Naming the line, when a value is no integer.
        """
        rows = _rows(text, ())
        if not rows or "offset" not in rows[0][1]:
            return None
        return tuple(_whole(line, "offset", row["offset"]) for line, row in rows)

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


def _rows(text: str, columns: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
    """Return the rows of a table with their line numbers; `columns` must be there."""
    reader = csv.DictReader(io.StringIO(text), skipinitialspace=True, restval="")
    missing = set(columns) - set(reader.fieldnames or ())
    if missing:
        raise PlanError(f"the buffer table lacks the column(s) {', '.join(sorted(missing))}")
    return [(reader.line_num, row) for row in reader]


def _whole(line: int, column: str, text: str) -> int:
    """Return a value of a table."""
    try:
        value = int(text)
    except ValueError:
        value = _LIMIT
    if abs(value) >= _LIMIT:
        raise PlanError(
            f"line {line} of the buffer table: {column} must be a whole number below 2^48, "
            f"it is {text!r}"
        )
    return value
