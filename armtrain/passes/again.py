"""Values that are made again: which operations are free to repeat, and the steps that do it.

A forward value that only the backward pass still needs can die in the forward pass if steps make
it again from what is kept anyway. Only operations that pass over memory once are repeated, never a
product. Each repeats the arithmetic of the forward step: batch norm from the statistics that it
saved, dropout from the same counter; so a copy has the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from armtrain.dtypes import DType
from armtrain.ir.arithmetic import Rectifier
from armtrain.ir.ops import Access, OpCode, spec_of
from armtrain.ir.program import Phase, Role, Step, TensorId
from armtrain.passes.emit import Emitter, Place

__all__ = ["AGAIN", "Choice", "Forwards", "rewrite"]

_SAME = (
    *(OpCode.BATCHNORM2D_EVAL, OpCode.LAYERNORM_FWD, OpCode.RELU_FWD, OpCode.TANH_FWD),
    *(OpCode.DROPOUT_FWD, OpCode.ADD, OpCode.NHWC_TO_NCHW, OpCode.NCHW_TO_NHWC),
    *(OpCode.SIGMOID_FWD, OpCode.RELU6_FWD, OpCode.LEAKY_RELU_FWD, OpCode.ELU_FWD),
    *(OpCode.SILU_FWD, OpCode.HARDSWISH_FWD, OpCode.HARDSIGMOID_FWD, OpCode.GELU_FWD),
    *(OpCode.GELU_TANH_FWD, OpCode.MISH_FWD, OpCode.SOFTPLUS_FWD, OpCode.PERMUTE, OpCode.SLICE),
    *(OpCode.COMBINE, OpCode.AFFINE, OpCode.POWER, OpCode.FUNCTION, OpCode.AVGPOOL2D_FWD),
    *(OpCode.MAXPOOL2D_FWD, OpCode.SOFTMAX_FWD, OpCode.LOG_SOFTMAX_FWD),
    OpCode.MASKED_SOFTMAX_FWD,
)
AGAIN = {**{op: op for op in _SAME}, OpCode.BATCHNORM2D_FWD: OpCode.BATCHNORM2D_APPLY}
"""Forward operation -> the one that makes its y once more."""

_MASKABLE = (OpCode.RELU_GRAD, OpCode.RELU6_GRAD)
"""Gradients that are dy or 0."""
_BITS_OF_BYTE = 8
_RECTIFIERS = {OpCode.RELU_FWD: Rectifier.RELU, OpCode.RELU6_FWD: Rectifier.RELU6}


def _reads(step: Step) -> Iterator[TensorId]:
    """Yield the operands whose content a step reads."""
    for place in spec_of(step.op).reads:
        tensor = step.operands[place]
        if tensor is not None:
            yield tensor


@dataclass(frozen=True)
class Forwards:
    """The forward values of a training step, by the root tensor of each.

    Attributes
    ----------
    steps : tuple of Step
        The TRAIN phase in execution order.
    loss : int
        Index of the loss: what comes after is the backward pass.
    made : dict of TensorId to int
        Value that can be made again -> index of the step that makes it.
    late : tuple of TensorId
        Those of them that the backward pass reads, in forward order.
    uses : dict of TensorId to int
        Reads of every value in the forward pass.
    sources : dict of TensorId to tuple of TensorId
        Values of `made` that the step of each reads.
    maskable : tuple of TensorId
        Those of `late` of which the backward pass reads the rectifier's bits alone.
    """

    steps: tuple[Step, ...]
    loss: int
    made: dict[TensorId, int]
    late: tuple[TensorId, ...]
    uses: dict[TensorId, int]
    sources: dict[TensorId, tuple[TensorId, ...]]
    maskable: tuple[TensorId, ...]

    @staticmethod
    def of(steps: Sequence[Step], emitter: Emitter) -> Forwards:
        """Find what can be made again."""
        loss = next(i for i, step in enumerate(steps) if step.kind == "L")
        made: dict[TensorId, int] = {}
        uses: dict[TensorId, int] = {}
        for index, step in enumerate(steps[:loss]):
            for tensor in _reads(step):
                uses[emitter.roots[tensor]] = uses.get(emitter.roots[tensor], 0) + 1
            if step.op in AGAIN:
                y = step.operands[spec_of(step.op).operand_index["y"]]
                assert y is not None
                if emitter.tensors[y].role == Role.ACTIVATION and emitter.roots[y] == y:
                    made[y] = index
        read = {emitter.roots[t] for step in steps[loss:] for t in _reads(step)}
        late = tuple(tensor for tensor in made if tensor in read)
        sources = {
            value: tuple({emitter.roots[t] for t in _reads(steps[index])} & made.keys())
            for value, index in made.items()
        }
        whole = {emitter.roots[t] for s in steps[loss:] if s.op not in _MASKABLE for t in _reads(s)}
        maskable = tuple(v for v in late if v not in whole and steps[made[v]].op in _RECTIFIERS)
        return Forwards(tuple(steps), loss, made, late, uses, sources, maskable)

    def shallow(self, depth: int) -> list[TensorId]:
        """Return late values that at most `depth` steps in a row make, if the others are kept."""
        late, steps = set(self.late), dict[TensorId, int]()
        for value in self.made:
            steps[value] = 1 + max((steps[source] for source in self.sources[value]), default=0)
            if value in late and steps[value] > depth:
                steps[value] = 0
        return [value for value in self.late if steps[value]]


@dataclass(frozen=True)
class Choice:
    """What is not kept.

    Attributes
    ----------
    dropped : frozenset of TensorId
        Of `Forwards.late`: made again.
    fleeting : frozenset of TensorId
        Of them, those of which a copy on the way to another value is not held for later readers.
    masked : frozenset of TensorId
        Of `Forwards.maskable`, and not dropped: a bit of each element is kept.
    """

    dropped: frozenset[TensorId] = frozenset()
    fleeting: frozenset[TensorId] = frozenset()
    masked: frozenset[TensorId] = frozenset()


class _Rewriter:
    """Writes the backward pass with values made again just before their first reader."""

    def __init__(self, emitter: Emitter, values: Forwards, choice: Choice) -> None:
        self.emitter, self.values = emitter, values
        self.dropped, self.fleeting = choice.dropped, choice.fleeting
        kept = set(values.late) - choice.dropped - choice.masked
        self.gone = values.made.keys() - kept
        self.bits = {value: self._keep_bits(value) for value in sorted(choice.masked)}
        self.copies: dict[TensorId, TensorId] = {}
        self.again: list[Step] = []

    def _keep_bits(self, value: TensorId) -> Step:
        """Return the step that keeps the bits of a rectifier's value."""
        step, like = self.values.steps[self.values.made[value]], self.emitter.tensors[value]
        dims = like.dims[0], -(-prod(like.dims[1:]) // _BITS_OF_BYTE)
        bits = self.emitter.tensor(
            f"{like.name}.bits", Role.SAVED, dims, dtype=DType.U8, batched=True
        )
        attrs, place = {"rectifier": _RECTIFIERS[step.op]}, Place(Phase.TRAIN, step.layer, "F")
        return self.emitter.step(OpCode.RECTIFIER_BITS, place, attrs, y=value, bits=bits)

    def forward(self) -> Iterator[Step]:
        """Yield the forward pass and the loss; bits are kept as soon as they are known."""
        kept = {self.values.made[value]: step for value, step in self.bits.items()}
        for index, step in enumerate(self.values.steps[: self.values.loss + 1]):
            yield step
            if index in kept:
                yield kept[index]

    def _by_bits(self, step: Step) -> Step:
        """Return a rectifier's gradient by kept bits instead of the value."""
        spec = spec_of(step.op)
        value = step.operands[spec.operand_index["y"]]
        kept = None if value is None else self.bits.get(self.emitter.roots[value])
        if kept is None:
            return step
        slots = {name: step.operands[spec.operand_index[name]] for name in ("dy", "dx")}
        slots["bits"] = kept.operands[spec_of(kept.op).operand_index["bits"]]
        place = Place(step.phase, step.layer, step.kind)
        return self.emitter.step(OpCode.RECTIFIER_BITS_GRAD, place, None, **slots)

    def _sources(self, value: TensorId) -> Iterator[TensorId]:
        """Yield the values that a step reads to make `value` again."""
        for tensor in _reads(self._source_step(value)[0]):
            yield self.emitter.roots[tensor]

    def _source_step(self, value: TensorId) -> tuple[Step, Rectifier]:
        """Return the step that makes a value, and the rectifier that it can take along.

        A rectifier whose input nobody else needs is part of the normalisation before it.
        """
        step = self.values.steps[self.values.made[value]]
        rectifier = _RECTIFIERS.get(step.op)
        if rectifier is None:
            return step, Rectifier.NONE
        source = self.emitter.roots[next(_reads(step))]
        before = self.values.made.get(source)
        alone = source in self.gone and source not in self.dropped
        alone = alone and self.values.uses[source] == 1
        if before is None or not alone or source in self.copies:
            return step, Rectifier.NONE
        norm = self.values.steps[before]
        return (norm, rectifier) if norm.op == OpCode.BATCHNORM2D_FWD else (step, Rectifier.NONE)

    def _needed(self, value: TensorId) -> list[TensorId]:
        """Return what must be made again for a value, in forward order, the value last."""
        found, open_ = {value}, [value]
        while open_:
            for source in self._sources(open_.pop()):
                if source in self.gone and source not in self.copies and source not in found:
                    found.add(source)
                    open_.append(source)
        return sorted(found, key=self.values.made.__getitem__)

    def _shown(self, tensor: TensorId) -> TensorId:
        """Return a tensor, or the same view of the copy of its bytes."""
        roots = self.emitter.roots
        if roots[tensor] not in self.copies:
            return tensor
        like = self.emitter.tensors[tensor]
        return self.emitter.view(
            self.copies[roots[tensor]], f"{like.name}.again", like.dims, like.layout
        )

    def _make(self, value: TensorId) -> Step:
        """Return the step that makes a value again; all that it reads is there."""
        step, rectifier = self._source_step(value)
        like, spec = self.emitter.tensors[value], spec_of(step.op)
        again = spec_of(AGAIN[step.op])
        copy = self.emitter.tensor(
            f"{like.name}.again", Role.ACTIVATION, like.dims, layout=like.layout, batched=True
        )
        slots: dict[str, TensorId | None] = {}
        for slot in again.operands:
            if slot.access & Access.READ:
                tensor = step.operands[spec.operand_index[slot.name]]
                slots[slot.name] = None if tensor is None else self._shown(tensor)
        attrs: dict[str, Any] = dict(zip(spec.attr_index, step.attrs, strict=False))
        attrs |= {"rectifier": rectifier}
        if spec.tail is not None:
            attrs[spec.tail.name] = step.attrs[len(spec.attrs) :]
        self.copies[value] = copy
        place = Place(Phase.TRAIN, self.values.steps[self.values.made[value]].layer, "F")
        return self.emitter.step(again.code, place, attrs, **(slots | {"y": copy}))

    def backward(self, step: Step) -> Iterator[Step]:
        """Yield what makes a step's dropped operands again, then the step on the copies."""
        if self.bits and step.op in _MASKABLE:
            step = self._by_bits(step)
        read = {self.emitter.roots[tensor] for tensor in _reads(step)} & self.dropped
        if not read:
            yield step
            return
        needed = [v for root in sorted(read) if root not in self.copies for v in self._needed(root)]
        for value in needed:
            if value not in self.copies:
                self.again.append(self._make(value))
                yield self.again[-1]
        operands = list(step.operands)
        for place in spec_of(step.op).reads:
            tensor = operands[place]
            if tensor is not None:
                operands[place] = self._shown(tensor)
        yield replace(step, operands=tuple(operands))
        for value in (self.fleeting - read) & set(needed):
            del self.copies[value]


def rewrite(emitter: Emitter, values: Forwards, choice: Choice) -> tuple[list[Step], list[Step]]:
    """Return the training steps that keep less, and those of them that are extra.

    Parameters
    ----------
    emitter : Emitter
        Gets the copies and the bits.
    values : Forwards
    choice : Choice
    """
    rewriter = _Rewriter(emitter, values, choice)
    steps = list(rewriter.forward())
    for step in values.steps[values.loss + 1 :]:
        steps += rewriter.backward(step)
    return steps, [*rewriter.bits.values(), *rewriter.again]
