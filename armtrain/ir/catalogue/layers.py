"""Products, windows, normalisation over batches, rectifiers, softmax, and what images need."""

from __future__ import annotations

from armtrain.ir.op_codes import OpCode, Row

__all__ = ["CONV", "ROWS"]

_STRIDES = "stride_h:size stride_w:size pad_h:pad pad_w:pad"
_OVER = "over_h:pad over_w:pad"
"""What the last windows reach beyond the padding, as `Conv2dAttrs.over`."""
CONV = f"{_STRIDES} dil_h:size dil_w:size groups:size {_OVER}"
_MAXPOOL = f"kernel_h:size kernel_w:size {_STRIDES} dil_h:size dil_w:size {_OVER}"
_AVGPOOL = f"kernel_h:size kernel_w:size {_STRIDES} count_include_pad:flag divisor:count {_OVER}"
_AXIS = "axis:axis"  # of the dimensions in the arena; a batch has no sum over its samples

ROWS: tuple[Row, ...] = (
    (OpCode.LINEAR_FWD, "x:R w:R b:R? y:W ws:S?", "", "", "y[..,O] = x[..,I] w[I,O] + b[O]"),
    (OpCode.LINEAR_GRAD_W, "x:R dy:R dw:W? db:W? ws:S?", "", "", "dw[I,O] = xT dy, db = sum_N dy"),
    (OpCode.LINEAR_GRAD_X, "dy:R w:R dx:W ws:S?", "", "", "dx[..,I] = dy wT"),
    (OpCode.CONV2D_FWD, "x:R w:R b:R? y:W ws:S?", CONV, "", "x[N,H,W,C] w[G,KH,KW,C/G,O/G] b[O]"),
    (OpCode.CONV2D_GRAD_W, "x:R dy:R dw:W? db:W? ws:S?", CONV, "", "weight and bias gradient"),
    (OpCode.CONV2D_GRAD_X, "dy:R w:R dx:W ws:S?", CONV, "", "input gradient"),
    (OpCode.MAXPOOL2D_FWD, "x:R y:W idx:W?", _MAXPOOL, "", "idx: u8 place in window, kh*kw <= 255"),
    (OpCode.MAXPOOL2D_GRAD, "dy:R idx:R dx:W", _MAXPOOL, "", "scatter dy to the maxima"),
    (OpCode.AVGPOOL2D_FWD, "x:R y:W", _AVGPOOL, "", "window mean"),
    (OpCode.AVGPOOL2D_GRAD, "dy:R dx:W", _AVGPOOL, "", "spread dy over the window"),
    (
        OpCode.BATCHNORM2D_FWD,
        "x:R gamma:R? beta:R? mean:RW? var:RW? y:W save_mean:W save_invstd:W ws:S?",
        "eps:rate momentum:share",
        "",
        "batch statistics; mean/var running, var unbiased; momentum weighs the new value",
    ),
    (
        OpCode.BATCHNORM2D_EVAL,
        "x:R gamma:R? beta:R? mean:R var:R y:W",
        "eps:rate",
        "y=x",
        "y = (x - mean) / sqrt(var + eps) * gamma + beta",
    ),
    (
        OpCode.BATCHNORM2D_GRAD,
        "x:R gamma:R? save_mean:R save_invstd:R dy:R dx:W? dgamma:W? dbeta:W? ws:S?",
        "",
        "dx=dy",
        "gradient through batch statistics",
    ),
    (
        OpCode.BATCHNORM2D_EVAL_GRAD,
        "x:R? gamma:R? mean:R var:R dy:R dx:W? dgamma:W? dbeta:W? ws:S?",
        "eps:rate",
        "dx=dy",
        "gradient with frozen statistics; x only for dgamma",
    ),
    (
        OpCode.BATCHNORM2D_APPLY,
        "x:R gamma:R? beta:R? save_mean:R save_invstd:R y:W",
        "rectifier:rectifier",
        "y=x",
        "batchnorm2d_fwd's y once more, from what it saved; rectifier 1: then relu, 2: then relu6",
    ),
    (OpCode.RELU_FWD, "x:R y:W", "", "y=x", "y = max(x, 0), NaN stays NaN"),
    (OpCode.RELU_GRAD, "y:R dy:R dx:W", "", "dx=dy dx=y", "dx = y > 0 ? dy : 0"),
    (
        OpCode.RECTIFIER_BITS,
        "y:R bits:W",
        "rectifier:rectifier",
        "",
        "a bit of u8[N, bytes of a sample] for each element: y > 0, with rectifier 2 y < 6 too",
    ),
    (OpCode.RECTIFIER_BITS_GRAD, "bits:R dy:R dx:W", "", "dx=dy", "dx = bit ? dy : 0"),
    (OpCode.TANH_FWD, "x:R y:W", "", "y=x", "y = tanh(x)"),
    (OpCode.TANH_GRAD, "y:R dy:R dx:W", "", "dx=dy dx=y", "dx = dy (1 - y^2)"),
    (
        OpCode.DROPOUT_FWD,
        "x:R y:W",
        "p:share stream:stream",
        "y=x",
        "y = x / (1-p) where random(seed, step, stream, element) >= p, else 0",
    ),
    (OpCode.DROPOUT_GRAD, "dy:R dx:W", "p:share stream:stream", "dx=dy", "same mask as forward"),
    (OpCode.SOFTMAX_FWD, "x:R y:W", _AXIS, "y=x", "y = e^x / sum of e^x along one axis"),
    (OpCode.SOFTMAX_GRAD, "y:R dy:R dx:W", _AXIS, "dx=dy dx=y", "dx = y (dy - sum of y dy)"),
    (OpCode.LOG_SOFTMAX_FWD, "x:R y:W", _AXIS, "y=x", "y = x - log of the sum of e^x"),
    (OpCode.LOG_SOFTMAX_GRAD, "y:R dy:R dx:W", _AXIS, "dx=dy dx=y", "dx = dy - e^y sum of dy"),
    (OpCode.ADD, "a:R b:R y:W", "", "y=a y=b", "y = a + b, same shape"),
    (OpCode.COPY, "x:R y:W", "", "", "y = x"),
    (OpCode.NHWC_TO_NCHW, "x:R y:W", "", "", "x[N,H,W,C] to y[N,C*H*W] in torch's flatten order"),
    (OpCode.NCHW_TO_NHWC, "x:R y:W", "", "", "the inverse: x[N,C*H*W] to y[N,H,W,C]"),
    (
        OpCode.MASKED_SOFTMAX_FWD,
        "x:R mask:R? y:W",
        "causal:flag",
        "y=x",
        "y[N,..,L,S] = e^x / sum of e^x over the S that count: mask[N,S] is not 0 there, and if "
        "causal they are no later than L; y = 0 elsewhere, and where none counts",
    ),
)
