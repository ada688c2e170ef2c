"""A slow executor of plans in NumPy, written to be read: the oracle of engine and planner.

It runs a plan's own steps on the plan's own addresses, with every element widened to double.
Since it obeys the plan's layout, a planner that lets two live buffers overlap shows up as wrong
numbers here; since it shares no code with the engine or the passes, both can be checked with it.
"""

from __future__ import annotations

from armtrain.runtime.reference.executor import ReferenceExecutor

__all__ = ["ReferenceExecutor"]
