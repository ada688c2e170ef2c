"""What arithmetic operations compute; the values are stored in plan files (append only)."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Combine", "Function", "Rectifier"]


class Combine(IntEnum):
    """How an element of `a` meets one of `other`; the R kinds have them the other way round."""

    ADD = 0
    SUB = 1
    MUL = 2
    DIV = 3
    RSUB = 4
    RDIV = 5


class Function(IntEnum):
    """A function of one element that is no activation."""

    EXP = 0
    LOG = 1
    ABS = 2
    SIGN = 3


class Rectifier(IntEnum):
    """What follows a normalisation that is applied again, in the same step."""

    NONE = 0
    RELU = 1
    RELU6 = 2
