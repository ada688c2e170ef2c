"""The forward graph: what a traced network computes, in the user's NCHW shapes.

A graph is a value: nodes in topological order, whose ids are their indices. Layouts come later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar, TypeAlias

from armtrain.ir.node_kinds import NodeKind
from armtrain.ir.program import Init
from armtrain.ir.tensor_attrs import (
    AffineAttrs,
    CatAttrs,
    CombineAttrs,
    EmbeddingAttrs,
    FunctionAttrs,
    MaskedSoftmaxAttrs,
    MatmulAttrs,
    PermuteAttrs,
    PowerAttrs,
    ReduceAttrs,
    ReshapeAttrs,
    SliceAttrs,
    TensorAttrs,
    ToNchwAttrs,
    ToNhwcAttrs,
)

__all__ = [
    "Activation",
    "ActivationAttrs",
    "AddAttrs",
    "AffineAttrs",
    "Attrs",
    "AvgPool2dAttrs",
    "BatchNorm2dAttrs",
    "CatAttrs",
    "CombineAttrs",
    "Conv2dAttrs",
    "ConvTranspose2dAttrs",
    "DropoutAttrs",
    "EmbeddingAttrs",
    "FlattenAttrs",
    "FunctionAttrs",
    "Graph",
    "InputAttrs",
    "LayerNormAttrs",
    "LinearAttrs",
    "MaskedSoftmaxAttrs",
    "MatmulAttrs",
    "MaxPool2dAttrs",
    "Node",
    "NodeKind",
    "Pair",
    "Param",
    "PermuteAttrs",
    "PowerAttrs",
    "ReduceAttrs",
    "ReluAttrs",
    "Resample2dAttrs",
    "Resampling",
    "ReshapeAttrs",
    "SliceAttrs",
    "SoftmaxAttrs",
    "TanhAttrs",
    "ToNchwAttrs",
    "ToNhwcAttrs",
]

Pair: TypeAlias = tuple[int, int]
"""(height, width); what works on sequences (`sides` 1) sees images of height 1."""


class Activation(StrEnum):
    """A function of one element; operations NAME_FWD and NAME_GRAD compute it."""

    SIGMOID = "sigmoid"
    RELU6 = "relu6"
    LEAKY_RELU = "leaky_relu"
    ELU = "elu"
    SILU = "silu"
    HARDSWISH = "hardswish"
    HARDSIGMOID = "hardsigmoid"
    GELU = "gelu"
    GELU_TANH = "gelu_tanh"
    MISH = "mish"
    SOFTPLUS = "softplus"


@dataclass(frozen=True)
class InputAttrs:
    """The batch of samples."""

    kind: ClassVar[NodeKind] = NodeKind.INPUT


@dataclass(frozen=True)
class LinearAttrs:
    """Parameters: weight (O, I), bias (O,) or none."""

    kind: ClassVar[NodeKind] = NodeKind.LINEAR


@dataclass(frozen=True)
class Conv2dAttrs:
    """Parameters: weight (O, C/G, KH, KW), bias (O,) or none.

    `over`: rows and columns of zeros at the end of the image beyond its padding.
    """

    kind: ClassVar[NodeKind] = NodeKind.CONV2D
    stride: Pair
    padding: Pair
    dilation: Pair
    groups: int
    sides: int = 2
    over: Pair = (0, 0)


@dataclass(frozen=True)
class ConvTranspose2dAttrs:
    """Parameters: weight (C, O/G, KH, KW), bias (O,) or none.

    `output_padding`: rows and columns at the end that fewer windows of the convolution reach.
    """

    kind: ClassVar[NodeKind] = NodeKind.CONV_TRANSPOSE2D
    stride: Pair
    padding: Pair
    dilation: Pair
    groups: int
    output_padding: Pair
    sides: int = 2


class Resampling(StrEnum):
    """How an image gets another size; operations NAME_FWD and NAME_GRAD compute it."""

    ADAPTIVE = "adaptive_avgpool2d"
    NEAREST = "upsample_nearest2d"
    BILINEAR = "upsample_bilinear2d"


@dataclass(frozen=True)
class Resample2dAttrs:
    """An image of size `size`, made with the numbers that the operations take."""

    kind: ClassVar[NodeKind] = NodeKind.RESAMPLE2D
    method: Resampling
    size: Pair
    numbers: tuple[tuple[str, int | float], ...] = ()
    sides: int = 2


@dataclass(frozen=True)
class MaxPool2dAttrs:
    """Window maximum; borders count as minus infinity.

    `ceil`: a last window that starts inside the image or its padding may reach beyond it.
    """

    kind: ClassVar[NodeKind] = NodeKind.MAXPOOL2D
    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair
    sides: int = 2
    ceil: bool = False


@dataclass(frozen=True)
class AvgPool2dAttrs:
    """Window mean; the divisor counts padding if `count_include_pad`, or is `divisor` if not 0.

    `ceil` as of a maximum; no divisor counts what lies beyond the padding.
    """

    kind: ClassVar[NodeKind] = NodeKind.AVGPOOL2D
    kernel: Pair
    stride: Pair
    padding: Pair
    count_include_pad: bool
    sides: int = 2
    ceil: bool = False
    divisor: int = 0


@dataclass(frozen=True)
class BatchNorm2dAttrs:
    """Parameters: weight, bias (C,) or none; buffers running_mean, running_var (C,) or none.

    `training`: a training step uses (and moves the running ones towards) the batch's statistics;
    otherwise it uses the running ones and leaves them alone.
    """

    kind: ClassVar[NodeKind] = NodeKind.BATCHNORM2D
    eps: float
    momentum: float
    training: bool
    sides: int = 2


@dataclass(frozen=True)
class LayerNormAttrs:
    """Parameters: weight, bias of shape `over` or none; statistics of the last dimensions.

    Not `centred`: the mean stays, and x is divided by the root of the mean of its squares.
    """

    kind: ClassVar[NodeKind] = NodeKind.LAYERNORM
    over: tuple[int, ...]
    eps: float
    centred: bool


@dataclass(frozen=True)
class ReluAttrs:
    """max(x, 0)."""

    kind: ClassVar[NodeKind] = NodeKind.RELU


@dataclass(frozen=True)
class TanhAttrs:
    """tanh(x)."""

    kind: ClassVar[NodeKind] = NodeKind.TANH


@dataclass(frozen=True)
class ActivationAttrs:
    """An element-wise function with its numbers, named as in the catalogue of operations."""

    kind: ClassVar[NodeKind] = NodeKind.ACTIVATION
    function: Activation
    numbers: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class SoftmaxAttrs:
    """Shares of e^x along dimension `dim` of the user's shape, from 1; `log`: their logarithms."""

    kind: ClassVar[NodeKind] = NodeKind.SOFTMAX
    dim: int
    log: bool


@dataclass(frozen=True)
class DropoutAttrs:
    """Drops with probability `p` in training steps if `training`, else passes x through."""

    kind: ClassVar[NodeKind] = NodeKind.DROPOUT
    p: float
    training: bool


@dataclass(frozen=True)
class FlattenAttrs:
    """(N, ...) to (N, product), in torch's order."""

    kind: ClassVar[NodeKind] = NodeKind.FLATTEN


@dataclass(frozen=True)
class AddAttrs:
    """Sum of two values of equal shape."""

    kind: ClassVar[NodeKind] = NodeKind.ADD


Attrs: TypeAlias = (
    InputAttrs
    | LinearAttrs
    | Conv2dAttrs
    | ConvTranspose2dAttrs
    | Resample2dAttrs
    | MaxPool2dAttrs
    | AvgPool2dAttrs
    | BatchNorm2dAttrs
    | LayerNormAttrs
    | ReluAttrs
    | TanhAttrs
    | ActivationAttrs
    | SoftmaxAttrs
    | DropoutAttrs
    | FlattenAttrs
    | AddAttrs
    | TensorAttrs
)


@dataclass(frozen=True)
class Param:
    """One parameter or buffer of the network.

    Attributes
    ----------
    name : str
        torch's name ('layer1.0.conv1.weight').
    shape : tuple of int
        torch's shape.
    trained : bool
        An optimiser step updates it.
    buffer : bool
        Running statistic: saved, never trained.
    init : Init
    """

    name: str
    shape: tuple[int, ...]
    trained: bool
    buffer: bool
    init: Init


@dataclass(frozen=True)
class Node:
    """One operation of the forward graph.

    Attributes
    ----------
    id : int
        Index into `Graph.nodes`.
    name : str
        Unique path of the layer ('layer1.0.conv1'); a layer called again gets '#2'.
    attrs : Attrs
        What it computes.
    inputs : tuple of int
        Ids of earlier nodes.
    shape : tuple of int
        Shape of its value in torch's order; its first dimension is a multiple of the batch.
    params : tuple of (str, str)
        (slot, parameter name), slots as torch names them ('weight', 'running_mean').
    """

    id: int
    name: str
    attrs: Attrs
    inputs: tuple[int, ...]
    shape: tuple[int, ...]
    params: tuple[tuple[str, str], ...] = ()

    @property
    def kind(self) -> NodeKind:
        """What the node computes."""
        return self.attrs.kind

    def param(self, slot: str) -> str | None:
        """Return the name of the parameter in `slot`, or None."""
        return next((name for s, name in self.params if s == slot), None)


@dataclass(frozen=True)
class Graph:
    """A traced network at a planned batch size.

    Attributes
    ----------
    nodes : tuple of Node
        Topological order; node 0 is the input.
    params : tuple of Param
        Every parameter and buffer of the network, used or not, in torch's order.
    output : int
        Id of the node whose value the network returns.
    batch_size : int
    """

    nodes: tuple[Node, ...]
    params: tuple[Param, ...]
    output: int
    batch_size: int

    def params_by_name(self) -> Mapping[str, Param]:
        """Return parameters and buffers by name."""
        return MappingProxyType({p.name: p for p in self.params})

    def consumers(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Return per node the (consumer id, input position) pairs in graph order."""
        found: list[list[tuple[int, int]]] = [[] for _ in self.nodes]
        for node in self.nodes:
            for position, source in enumerate(node.inputs):
                found[source].append((node.id, position))
        return tuple(tuple(pairs) for pairs in found)
