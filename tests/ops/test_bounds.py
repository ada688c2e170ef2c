"""Bounds of rounding hold where the values of an operation cancel."""

from __future__ import annotations

import numpy as np
import pytest

from armtrain.ir.ops import OpCode
from armtrain.runtime.reference.call import Call
from armtrain.runtime.reference.table import FUNCTIONS
from tests.tolerances import bounds


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_total_that_cancels_has_the_bound_of_its_magnitudes(sign: float) -> None:
    """The rest of three terms is as large as what their sum may be off in double."""
    x = sign * np.array([[1.0, -1.0, 10 * 2.0**-30]])
    call = Call({"x": x}, {"x": (1, 3), "total": (1, 1)}, {"scale": 1 / 3})
    exact = FUNCTIONS[OpCode.REDUCE](call)
    off = np.abs(np.float32(exact["total"]) - exact["total"])
    assert off.item() > 0.0
    assert (off <= bounds(OpCode.REDUCE, call, exact)["total"]).all()
