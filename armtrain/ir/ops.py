"""The catalogue of plan operations: the one list that everything else is made from.

An operation here is what a plan file stores and the engine runs, on buffers in arena layout
(activations channels-last). `kernels/include/art_ops.def` is generated from this table. Each
entry declares which operands it reads and writes; lifetimes come from these declarations and
never from an operation's name.

Operand access: R read, W fully written (old content irrelevant), RW read and updated,
S scratch (content meaningless before and after). A trailing '?' marks an optional operand.
`inplace` lists pairs (output slot, input slot) that may share one storage when the input has
no later reader.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntFlag

from armtrain.ir.arithmetic import Combine, Function, Rectifier
from armtrain.ir.catalogue import ROWS
from armtrain.ir.catalogue.blocks import UPDATE_OF
from armtrain.ir.op_codes import OpCode
from armtrain.limits import (
    MAX_DIM,
    MAX_FLOAT,
    MAX_LABEL,
    MAX_RECORDS,
    MAX_WINDOW,
    MIN_FLOAT,
    MIN_LABEL,
    NO_LABEL,
)

__all__ = ["OPS", "UPDATE_OF", "Access", "AttrSpec", "OpCode", "OpSpec", "OperandSpec", "spec_of"]


class Access(IntFlag):
    """How a step uses an operand; the value is stored in plan files."""

    READ = 1
    WRITE = 2
    READ_WRITE = 3
    SCRATCH = 4


@dataclass(frozen=True)
class OperandSpec:
    """One operand slot: `name`, `access`, whether it is `optional`."""

    name: str
    access: Access
    optional: bool = False


@dataclass(frozen=True)
class AttrSpec:
    """One attribute slot of 8 bytes.

    Attributes
    ----------
    name : str
    kind : str
        'i' (int64) or 'f' (float64).
    low, high : int or float
        The range of its values, both ends included. A float is used as a float32, so that one
        below `MIN_FLOAT` must be 0 or is refused.
    """

    name: str
    kind: str
    low: int | float
    high: int | float


@dataclass(frozen=True)
class OpSpec:
    """What one operation reads, writes and needs.

    Attributes
    ----------
    attrs : tuple of AttrSpec
        What every such step has.
    tail : AttrSpec or None
        Any number of further attributes of one kind follow, as one weight per class.
    """

    code: OpCode
    operands: tuple[OperandSpec, ...]
    attrs: tuple[AttrSpec, ...] = ()
    inplace: tuple[tuple[str, str], ...] = ()
    summary: str = ""
    tail: AttrSpec | None = None
    operand_index: dict[str, int] = field(init=False, repr=False, compare=False)
    attr_index: dict[str, int] = field(init=False, repr=False, compare=False)
    reads: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Index slots by name, and those whose content is read."""
        object.__setattr__(self, "operand_index", {o.name: i for i, o in enumerate(self.operands)})
        object.__setattr__(self, "attr_index", {a.name: i for i, a in enumerate(self.attrs)})
        reads = tuple(i for i, o in enumerate(self.operands) if o.access & Access.READ)
        object.__setattr__(self, "reads", reads)

    def slots(self, count: int) -> tuple[AttrSpec, ...]:
        """Return the slots of a step with `count` attributes; more or less when it cannot have."""
        tail, more = self.tail, count - len(self.attrs)
        if tail is None:
            return self.attrs
        return self.attrs + tuple(replace(tail, name=f"{tail.name}[{i}]") for i in range(more))


_ACCESS = {"R": Access.READ, "W": Access.WRITE, "RW": Access.READ_WRITE, "S": Access.SCRATCH}


def _operands(text: str) -> tuple[OperandSpec, ...]:
    """Parse 'x:R w:R b:R? y:W' into operand slots."""
    slots = []
    for word in text.split():
        name, access = word.split(":")
        slots.append(OperandSpec(name, _ACCESS[access.rstrip("?")], access.endswith("?")))
    return tuple(slots)


_BELOW_ONE = 1.0 - 2.0**-53
_ATTR_TYPES: dict[str, tuple[str, int | float, int | float]] = {
    "size": ("i", 1, MAX_WINDOW),
    "pad": ("i", 0, MAX_WINDOW),
    "flag": ("i", 0, 1),
    "count": ("i", 0, MAX_DIM),
    "slot": ("i", 0, MAX_RECORDS - 1),
    "axis": ("i", 1, 5),
    "place": ("i", 0, MAX_DIM),
    "combine": ("i", 0, len(Combine) - 1),
    "function": ("i", 0, len(Function) - 1),
    "halves": ("i", -64, 64),
    "rectifier": ("i", 0, len(Rectifier) - 1),
    "stream": ("i", -(2**63), 2**63 - 1),
    "share": ("f", 0.0, 1.0),
    "part": ("f", 0.0, _BELOW_ONE),
    "rate": ("f", 0.0, MAX_FLOAT),
    "real": ("f", -MAX_FLOAT, MAX_FLOAT),
    "norm": ("f", MIN_FLOAT, MAX_FLOAT),
    "label": ("i", MIN_LABEL, MAX_LABEL),
    "padding": ("i", NO_LABEL, MAX_DIM),
}
"""Word of an attribute in the catalogue -> kind and range; a '*' after it: any number of them."""


def _attrs(text: str, *, tail: bool = False) -> tuple[AttrSpec, ...]:
    """Parse 'stride_h:size eps:rate weight:rate*' into attribute slots, or those of the tail."""
    words = (word.split(":") for word in text.split() if word.endswith("*") == tail)
    return tuple(AttrSpec(name, *_ATTR_TYPES[kind.rstrip("*")]) for name, kind in words)


def _tail(text: str) -> AttrSpec | None:
    """Return the attribute of which there may be any number."""
    return next(iter(_attrs(text, tail=True)), None)


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    """Parse 'dx=dy dx=y' into (output, input) pairs in order of preference."""
    return tuple((w.split("=")[0], w.split("=")[1]) for w in text.split())


OPS: dict[OpCode, OpSpec] = {
    code: OpSpec(code, _operands(operands), _attrs(attrs), _pairs(inplace), summary, _tail(attrs))
    for code, operands, attrs, inplace, summary in sorted(ROWS)
}


def spec_of(code: OpCode) -> OpSpec:
    """Return the catalogue entry of `code`."""
    return OPS[code]
