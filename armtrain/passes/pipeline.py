"""The compiler: a network, a loss and an optimiser become a training program."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from armtrain.dtypes import STACK_BYTES, DType
from armtrain.ir.check_graph import verify_graph
from armtrain.ir.cost import Rates
from armtrain.ir.graph import Graph
from armtrain.ir.program import Phase, Program, Role, Step, TensorId
from armtrain.ir.text import graph_text, program_text
from armtrain.ir.verify import verify_program
from armtrain.limits import MAX_THREADS
from armtrain.nn.losses import Loss
from armtrain.nn.module import Module
from armtrain.nn.trace import trace
from armtrain.optim import Optimizer
from armtrain.passes.autodiff import backward_of
from armtrain.passes.blocks import choose_blocks, layer_peaks
from armtrain.passes.emit import Emitter
from armtrain.passes.families import BACKWARD_RULES, FORWARD_RULES
from armtrain.passes.forward import Forward, emit_forward
from armtrain.passes.freeze import freeze, needs_gradient
from armtrain.passes.inplace import share_storages
from armtrain.passes.layout import feature_order, param_layout, settle_layouts
from armtrain.passes.live import live_bytes
from armtrain.passes.loss import check_loss, emit_eval_loss, emit_train_loss, order_read
from armtrain.passes.optimizer import (
    Clipping,
    NormClipping,
    Updates,
    ValueClipping,
    check_clipping,
    check_optimizer,
    optimizer_of_params,
    updated_by_rows,
)
from armtrain.passes.order import LayerSteps, order_training
from armtrain.passes.prune import prune, unused_text
from armtrain.passes.recompute import free_recompute
from armtrain.passes.select import as_patterns
from armtrain.values import integer

__all__ = ["Compilation", "compile_program", "compile_stages"]


@dataclass(frozen=True)
class Compilation:
    """Every stage of a compilation.

    Attributes
    ----------
    traced : Graph
        What `forward` computes.
    trained : Graph
        After freezing and pruning: the model that the plan belongs to.
    laid_out : Graph
        With `to_nchw` nodes where orders differ.
    program : Program
    warnings : tuple of str
    """

    traced: Graph
    trained: Graph
    laid_out: Graph
    program: Program
    warnings: tuple[str, ...]

    def dump(self) -> str:
        """Return a readable text of all stages."""
        stages = {
            "traced": graph_text(self.traced),
            "trained": graph_text(self.trained),
            "laid out": graph_text(self.laid_out),
            "program": program_text(self.program),
        }
        return "\n".join(f"== {name} ==\n{text}" for name, text in stages.items())


@dataclass(frozen=True)
class _Settings:
    """Checked arguments of a compilation."""

    loss: Loss
    optimizers: dict[str, Optimizer]
    clip_norm: float | None
    clip_value: float | None
    threads: int
    by_blocks: bool
    rates: Rates | None


def _persistent(emitter: Emitter, graph: Graph) -> dict[str, TensorId]:
    """Make the tensors of parameters and buffers."""
    layouts = param_layout(graph, feature_order(graph))
    tensors = {}
    for param in graph.params:
        role = Role.BUFFER if param.buffer else Role.WEIGHT if param.trained else Role.FROZEN
        dims, layout = layouts[param.name]
        tensors[param.name] = emitter.tensor(param.name, role, dims, layout=layout, init=param.init)
    return tensors


def _clipping(emitter: Emitter, settings: _Settings) -> Clipping | None:
    """Return the asked clipping of gradients."""
    if settings.clip_norm is not None:
        return NormClipping(emitter, settings.clip_norm, tuple(settings.optimizers))
    return None if settings.clip_value is None else ValueClipping(emitter, settings.clip_value)


def _train_phase(fwd: Forward, settings: _Settings, by_blocks: frozenset[str]) -> tuple[Step, ...]:
    """Return the steps of a training step; some weights are updated by blocks."""
    emitter = fwd.emitter
    updates = Updates(emitter, fwd.params, settings.optimizers)
    forward = emit_forward(fwd, FORWARD_RULES)
    loss, output_gradient = emit_train_loss(fwd, settings.loss)
    by_rows = updated_by_rows(settings.optimizers)
    gradients = backward_of(fwd, BACKWARD_RULES, output_gradient, by_rows, by_blocks)
    clipping = _clipping(emitter, settings)
    scale = clipping.scale if clipping else None
    layers = []
    for node, steps, group in zip(fwd.graph.nodes, forward, gradients, strict=True):
        clipped = [clipping.each(node.name, *c) for c in group.complete] if clipping else []
        apply = tuple(
            updates.step(node.name, *c, scale, group.indices.get(c[0])) for c in group.complete
        )
        apply += tuple(
            updates.by_blocks(node.name, product, settings.clip_value or 0.0)
            for product in group.blocks
        )
        gradient = (*group.gradient, *clipped)
        layers.append(LayerSteps(steps, gradient, tuple(group.derivative), apply))
    return order_training(layers, loss, clipping.finish() if clipping else None)


def _by_blocks(graph: Graph, needs: tuple[bool, ...], settings: _Settings) -> frozenset[str]:
    """Return the weights whose update makes their gradient block by block."""
    if not settings.by_blocks or settings.clip_norm is not None:
        return frozenset()
    orders = feature_order(graph)
    dims = {name: layout[0] for name, layout in param_layout(graph, orders).items()}

    def peaks_with(some: frozenset[str]) -> dict[str, int]:
        emitter = Emitter(settings.threads)
        params = _persistent(emitter, graph)
        fwd = Forward(emitter, graph, orders, params, Phase.TRAIN, needs)
        return layer_peaks(emitter, _train_phase(fwd, settings, some))

    return choose_blocks(graph, dims, peaks_with)


def _inference_phase(fwd: Forward, loss: Loss | None) -> tuple[Step, ...]:
    """Return the steps of an evaluation (with a loss) or a prediction (without)."""
    steps = tuple(step for layer in emit_forward(fwd, FORWARD_RULES) for step in layer)
    return steps if loss is None else (*steps, emit_eval_loss(fwd, loss))


def _lower(graph: Graph, needs: tuple[bool, ...], settings: _Settings) -> Program:
    """Return the program of a laid-out graph, with `model_text` and texts left empty."""
    emitter = Emitter(settings.threads)
    params, orders = _persistent(emitter, graph), feature_order(graph)
    nothing = (False,) * len(graph.nodes)

    def forward(phase: Phase) -> Forward:
        needed = needs if phase == Phase.TRAIN else nothing
        return Forward(emitter, graph, orders, params, phase, needed)

    blocks = _by_blocks(graph, needs, settings)
    train = _train_phase(forward(Phase.TRAIN), settings, blocks)
    others = (
        _inference_phase(forward(Phase.EVALUATE), settings.loss),
        _inference_phase(forward(Phase.PREDICT), None),
    )
    if settings.rates is not None:
        floor = max(max(live_bytes(emitter, phase)) for phase in others)
        train = free_recompute(emitter, train, settings.rates, floor)
    steps = (*train, *others[0], *others[1])
    if settings.threads > 1:
        size = (settings.threads - 1) * STACK_BYTES
        emitter.tensor("thread_stacks", Role.STACK, (size,), dtype=DType.U8)
    storages = share_storages(emitter.tensors, emitter.roots, steps)
    tensors = tuple(
        replace(tensor, storage=storage)
        for tensor, storage in zip(emitter.tensors, storages, strict=True)
    )
    return Program(
        tensors, steps, "", graph.batch_size, settings.threads, "", "", settings.clip_norm, (),
        clip_value=settings.clip_value,
    )  # fmt: skip


def compile_stages(
    net: Module,
    *,
    input_shape: Sequence[int],
    batch_size: int,
    loss: Any,
    optimizer: Any,
    clip_norm: float | None = None,
    clip_value: float | None = None,
    threads: int = 4,
    board: str = "generic",
    param_groups: Sequence[Mapping[str, Any]] | None = None,
    train_only: str | Sequence[str] | None = None,
    by_blocks: bool = True,
    recompute_at: Rates | None = None,
) -> Compilation:
    """Compile like `compile_program` and return every stage."""
    threads = integer("threads", threads, 1, MAX_THREADS)
    traced = trace(net, input_shape, batch_size)
    verify_graph(traced)
    frozen = freeze(traced, None if train_only is None else as_patterns(train_only))
    trained, unused = prune(frozen)
    verify_graph(trained)
    returned = trained.nodes[trained.output].shape
    checked_loss = check_loss(loss, returned)
    laid_out, _ = prune(settle_layouts(trained, order_read(checked_loss, returned)))
    verify_graph(laid_out)
    base = check_optimizer(optimizer)
    settings = _Settings(
        checked_loss,
        optimizer_of_params(laid_out, base, param_groups),
        *check_clipping(clip_norm, clip_value),
        threads,
        by_blocks,
        recompute_at,
    )
    program = replace(
        _lower(laid_out, needs_gradient(laid_out), settings),
        model_text=graph_text(trained),
        loss=checked_loss.text,
        optimizer=base.text,
        input_shape=traced.nodes[0].shape[1:],
        board=board,
    )
    verify_program(program)
    notes = (unused_text(unused),) if unused else ()
    return Compilation(traced, trained, laid_out, program, notes)


def compile_program(
    net: Module,
    *,
    input_shape: Sequence[int],
    batch_size: int,
    loss: Any,
    optimizer: Any,
    clip_norm: float | None = None,
    clip_value: float | None = None,
    threads: int = 4,
    board: str = "generic",
    param_groups: Sequence[Mapping[str, Any]] | None = None,
    train_only: str | Sequence[str] | None = None,
    by_blocks: bool = True,
    recompute_at: Rates | None = None,
) -> Program:
    """Return the training program of a network.

    Parameters
    ----------
    net : Module
    input_shape : sequence of int
        Shape of one sample, without the batch.
    batch_size : int
        Planned samples per batch; smaller batches run too.
    loss : Loss
    optimizer : Optimizer
    clip_norm, clip_value : float, optional
        Largest norm of all gradients together; or largest absolute value in a gradient.
    threads : int
        Planned threads; their stacks and scratch are in the program.
    board : str
        Id of the board profile, for the record.
    param_groups : sequence of mapping, optional
        'params': a pattern or list of names; other keys are options of the optimiser.
    train_only : str or sequence of str, optional
        Patterns of parameters to train; everything else is frozen.
    by_blocks : bool
        Whether large weights may be updated block by block; the bits are the same.
    recompute_at : Rates, optional
        How fast the board computes, to make values again where that is cheap; None: keep them all.

    Returns
    -------
    Program

    Raises
    ------
    ShapeError
        With the layer's name, the shapes, and what would work.

    Warns
    -----
    UserWarning
        Trained parameters that do not reach the output.
    """
    compilation = compile_stages(
        net,
        input_shape=input_shape,
        batch_size=batch_size,
        loss=loss,
        optimizer=optimizer,
        clip_norm=clip_norm,
        clip_value=clip_value,
        threads=threads,
        board=board,
        param_groups=param_groups,
        train_only=train_only,
        by_blocks=by_blocks,
        recompute_at=recompute_at,
    )
    for text in compilation.warnings:
        warnings.warn(text, UserWarning, stacklevel=2)
    return compilation.program
