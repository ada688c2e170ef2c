"""What the nodes of a graph compute."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["NodeKind"]


class NodeKind(StrEnum):
    """What a node computes; the value is its word in dumps."""

    INPUT = "input"
    LINEAR = "linear"
    CONV2D = "conv2d"
    MAXPOOL2D = "maxpool2d"
    AVGPOOL2D = "avgpool2d"
    BATCHNORM2D = "batchnorm2d"
    RELU = "relu"
    TANH = "tanh"
    DROPOUT = "dropout"
    FLATTEN = "flatten"
    ADD = "add"
    TO_NCHW = "to_nchw"
    TO_NHWC = "to_nhwc"
    RESHAPE = "reshape"
    PERMUTE = "permute"
    SLICE = "slice"
    CAT = "cat"
    COMBINE = "combine"
    AFFINE = "affine"
    POWER = "power"
    FUNCTION = "function"
    REDUCE = "reduce"
    MATMUL = "matmul"
    SOFTMAX = "softmax"
    MASKED_SOFTMAX = "masked_softmax"
    CONV_TRANSPOSE2D = "conv_transpose2d"
    RESAMPLE2D = "resample2d"
    ACTIVATION = "activation"
    LAYERNORM = "layernorm"
    EMBEDDING = "embedding"
