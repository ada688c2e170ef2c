"""What a plan predicts: the rates of its board, and seconds and extra work of a training step."""

from __future__ import annotations

from armtrain.board.cores import load_cores
from armtrain.board.profile import Board
from armtrain.ir.cost import Rates

__all__ = ["ASSUMED", "rates_of"]

ASSUMED = Rates(6.0, 4000.0, "assumed")
"""Rates of a board that says nothing of its processor: a core such as Cortex-A72 at 1.5 GHz."""
_REACHED = 0.5
"""Part of its best rate that a core reaches in products of a training step."""
_PASSES = 2
"""Bytes read and written for each byte that a board's copy rate counts."""


def rates_of(board: Board) -> Rates:
    """Return the rates of a board: measured ones, else derived from its cores, else assumed."""
    if not board.clusters:
        return ASSUMED
    cluster = board.clusters[0]
    best = cluster.clock_mhz.value * load_cores()[cluster.core].fp32_flop_per_cycle.value / 1000
    copies = ASSUMED.pass_mb_s if cluster.copy_mb_s is None else _PASSES * cluster.copy_mb_s.value
    return Rates(_REACHED * best, copies, "derived")
