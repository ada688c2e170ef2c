"""The execution order of a training step.

Forward in topological order, then the loss, then layer by layer, last to first: gradient of the
parameters (CG), derivative of the input (CD), update (AG). So a parameter's gradient dies as soon
as it is applied, and the derivative still reads the weights of the forward pass. Clipping by the
global norm needs every gradient before the first update: then all updates come after the whole
backward pass. A large weight's gradient may be part of its update, after the derivative
(`blocks.py`). (Order of NNTrainer, arXiv 2206.04688, section 4.1.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from armtrain.ir.program import Step

__all__ = ["LayerSteps", "order_training"]


@dataclass(frozen=True)
class LayerSteps:
    """Steps of one forward node, by kind."""

    forward: tuple[Step, ...]
    gradient: tuple[Step, ...] = ()
    derivative: tuple[Step, ...] = ()
    apply: tuple[Step, ...] = ()


def order_training(layers: Sequence[LayerSteps], loss: Step, clip: Step | None) -> tuple[Step, ...]:
    """Return all steps of the TRAIN phase in execution order.

    Parameters
    ----------
    layers : sequence of LayerSteps
        In topological order.
    loss : Step
    clip : Step or None
        The step that turns all norms into one factor; None without clipping.
    """
    steps = [step for layer in layers for step in layer.forward]
    steps.append(loss)
    for layer in reversed(layers):
        steps += layer.gradient + layer.derivative
        if clip is None:
            steps += layer.apply
    if clip is not None:
        steps.append(clip)
        steps += [step for layer in reversed(layers) for step in layer.apply]
    return tuple(steps)
