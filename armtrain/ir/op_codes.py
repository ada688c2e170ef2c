"""The numbers of plan operations."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeAlias

__all__ = ["OpCode", "Row"]


class OpCode(IntEnum):
    """Operation codes stored in plan files (append only, numbers are never reused)."""

    LINEAR_FWD = 1
    LINEAR_GRAD_W = 2
    LINEAR_GRAD_X = 3
    CONV2D_FWD = 4
    CONV2D_GRAD_W = 5
    CONV2D_GRAD_X = 6
    MAXPOOL2D_FWD = 7
    MAXPOOL2D_GRAD = 8
    AVGPOOL2D_FWD = 9
    AVGPOOL2D_GRAD = 10
    BATCHNORM2D_FWD = 11
    BATCHNORM2D_EVAL = 12
    BATCHNORM2D_GRAD = 13
    BATCHNORM2D_EVAL_GRAD = 14
    RELU_FWD = 15
    RELU_GRAD = 16
    TANH_FWD = 17
    TANH_GRAD = 18
    DROPOUT_FWD = 19
    DROPOUT_GRAD = 20
    ADD = 21
    COPY = 22
    NHWC_TO_NCHW = 23
    NCHW_TO_NHWC = 24
    CROSS_ENTROPY_GRAD = 25
    CROSS_ENTROPY_EVAL = 26
    MSE_GRAD = 27
    MSE_EVAL = 28
    GRAD_SUMSQ = 29
    CLIP_SCALE = 30
    SGD_STEP = 31
    ADAM_STEP = 32
    ADAMW_STEP = 33
    RMSPROP_STEP = 34
    ADAGRAD_STEP = 35
    CLIP_VALUE = 36
    HUBER_GRAD = 37
    HUBER_EVAL = 38
    KL_DIV_GRAD = 39
    KL_DIV_EVAL = 40
    BCE_WITH_LOGITS_GRAD = 41
    BCE_WITH_LOGITS_EVAL = 42
    WEIGHTED_CROSS_ENTROPY_GRAD = 43
    WEIGHTED_CROSS_ENTROPY_EVAL = 44
    NLL_GRAD = 45
    NLL_EVAL = 46
    SIGMOID_FWD = 47
    SIGMOID_GRAD = 48
    RELU6_FWD = 49
    RELU6_GRAD = 50
    LEAKY_RELU_FWD = 51
    LEAKY_RELU_GRAD = 52
    ELU_FWD = 53
    ELU_GRAD = 54
    SILU_FWD = 55
    SILU_GRAD = 56
    HARDSWISH_FWD = 57
    HARDSWISH_GRAD = 58
    HARDSIGMOID_FWD = 59
    HARDSIGMOID_GRAD = 60
    GELU_FWD = 61
    GELU_GRAD = 62
    GELU_TANH_FWD = 63
    GELU_TANH_GRAD = 64
    MISH_FWD = 65
    MISH_GRAD = 66
    SOFTPLUS_FWD = 67
    SOFTPLUS_GRAD = 68
    PERMUTE = 69
    SLICE = 70
    PLACE = 71
    COMBINE = 72
    AFFINE = 73
    POWER = 74
    FUNCTION = 75
    EXPAND = 76
    REDUCE = 77
    MATMUL = 78
    SOFTMAX_FWD = 79
    SOFTMAX_GRAD = 80
    LOG_SOFTMAX_FWD = 81
    LOG_SOFTMAX_GRAD = 82
    LAYERNORM_FWD = 83
    LAYERNORM_GRAD = 84
    CONV_TRANSPOSE2D_FWD = 85
    CONV_TRANSPOSE2D_GRAD_W = 86
    CONV_TRANSPOSE2D_GRAD_X = 87
    ADAPTIVE_AVGPOOL2D_FWD = 88
    ADAPTIVE_AVGPOOL2D_GRAD = 89
    UPSAMPLE_NEAREST2D_FWD = 90
    UPSAMPLE_NEAREST2D_GRAD = 91
    UPSAMPLE_BILINEAR2D_FWD = 92
    UPSAMPLE_BILINEAR2D_GRAD = 93


Row: TypeAlias = tuple[OpCode, str, str, str, str]
"""(code, operands, attributes, in-place pairs, summary) of the catalogue."""
