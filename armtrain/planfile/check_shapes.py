"""What every operation demands of its operands: dimensions, element counts, types.

One table of rules, read by the independent checker only. A rule returns what each operand must
have, computed from the operands that define the step's size.
"""

from __future__ import annotations

from math import floor, prod

from armtrain.dtypes import DType
from armtrain.ir.ops import OpCode
from armtrain.planfile.check_operands import IMPOSSIBLE, Needs, Operands, Rule
from armtrain.planfile.check_product_shapes import PRODUCT_RULES, window
from armtrain.planfile.check_tensor_shapes import TENSOR_RULES

__all__ = [
    "MAY_HAVE_ROWS",
    "has_rows",
    "may_be_batched",
    "needed_dims",
    "needed_dtype",
    "needed_rank",
]


def _resample(x: str, y: str) -> Rule:
    """Return the rule of images of another size: any, or as many times the input's as is said."""

    def rule(o: Operands) -> Needs:
        (n, *sides, channels), (_, *places, _) = o.dims[x], o.dims[y]
        for i, name in enumerate(("scale_h", "scale_w")):
            if o.attrs.get(name):
                places[i] = floor(sides[i] * o.attrs[name])
        return {y: (n, *places, channels)}

    return rule


def _starts_outside(size: int, places: int, o: Operands, axis: str) -> bool:
    """Tell whether a window that reaches beyond the padding has no place inside the image."""
    start = (places - 1) * o.integer(f"stride_{axis}") - o.integer(f"pad_{axis}")
    return o.integer(f"over_{axis}") > 0 and start >= size


def _pool(x: str, y: str) -> Rule:
    """Return the rule of a pooling layer."""

    def rule(o: Operands) -> Needs:
        n, height, width, channels = o.dims[x]
        kernel_h, kernel_w = o.integer("kernel_h"), o.integer("kernel_w")
        places = window(height, kernel_h, o, "h"), window(width, kernel_w, o, "w")
        if _starts_outside(height, places[0], o, "h") or _starts_outside(width, places[1], o, "w"):
            return {y: IMPOSSIBLE}
        return dict.fromkeys((y, "idx"), (n, *places, channels))

    return rule


def _norm(o: Operands) -> Needs:
    """Return the rule of all batch-norm operations: maps like x (or dy), vectors of channels."""
    like = o.dims["dy" if "dy" in o.dims else "x"]
    maps: Needs = dict.fromkeys(("x", "y", "dy", "dx"), like)
    names = ("gamma", "beta", "mean", "var", "save_mean", "save_invstd", "dgamma", "dbeta")
    return maps | dict.fromkeys(names, like[-1:])


def _layernorm(o: Operands) -> Needs:
    """Return the rule of the layer-norm operations: statistics of rows, vectors as long as one."""
    n, *more, length = o.dims["x"]
    maps: Needs = dict.fromkeys(("x", "y", "dy", "dx"), (n, *more, length))
    vectors = dict.fromkeys(("gamma", "beta", "dgamma", "dbeta"), (length,))
    return maps | vectors | dict.fromkeys(("row_mean", "row_invstd"), (n, *more))


def _alike(like: str, *others: str) -> Rule:
    """Return the rule of an element-wise operation."""

    def rule(o: Operands) -> Needs:
        return {**dict.fromkeys(others, o.count(like)), "scale": (1,)}

    return rule


def _bits(values: str) -> Rule:
    """Return the rule of one bit an element: a sample's start at a byte."""

    def rule(o: Operands) -> Needs:
        n, *rest = o.dims[values]
        return {"bits": (n, -(-prod(rest) // 8)), "dx": o.count(values)}

    return rule


def _along(like: str, *others: str) -> Rule:
    """Return the rule of what goes along one axis: all have the dimensions of the first."""

    def rule(o: Operands) -> Needs:
        dims = o.dims[like]
        inside = 1 <= o.integer("axis") < len(dims)
        return dict.fromkeys(others, dims if inside else IMPOSSIBLE)

    return rule


def _masked(o: Operands) -> Needs:
    """Return the rule of a softmax of scores [N,..,L,S] with a mask [N,S]."""
    dims = o.dims["x"]
    return {"y": dims, "mask": (dims[0], dims[-1])} if len(dims) > 2 else {"x": IMPOSSIBLE}


def _cross_entropy(o: Operands) -> Needs:
    """Return the rule of the cross-entropy operations: one label a row."""
    rows, classes = o.dims["logits"]
    return {"target": (rows,), "loss": (1,), "correct": (1,), "dlogits": (rows, classes)}


def _elements(o: Operands) -> Needs:
    """Return the rule of losses that go element by element."""
    return {"target": o.count("y"), "dy": o.count("y"), "loss": (1,)}


def _bce(o: Operands) -> Needs:
    """Return the rule of binary cross-entropy: no weight, one, or one for each column."""
    weights, dims = o.many("pos_weight"), o.dims["y"]
    fits = weights < 2 or (len(dims) == 2 and dims[1] == weights)
    return _elements(o) if fits else {"y": IMPOSSIBLE}


def _classes(o: Operands) -> Needs:
    """Return the rule of losses of one label a row, with no weight or one for each class."""
    (rows, classes), weights = o.dims["y"], o.many("weight")
    if weights not in (0, classes):
        return {"y": IMPOSSIBLE}
    return {"target": (rows,), "loss": (1,), "correct": (1,), "dy": (rows, classes)}


def _soft(o: Operands) -> Needs:
    """Return the rule of losses of a probability for each class, with no weight or one for each."""
    return _elements(o) if o.many("weight") in (0, o.dims["y"][1]) else {"y": IMPOSSIBLE}


def _places(o: Operands) -> Needs:
    """Return the rule of losses of a label a place, with no weight or one for each class."""
    (*places, classes), weights = o.dims["y"], o.many("weight")
    if weights not in (0, classes) or not places:
        return {"y": IMPOSSIBLE}
    return {"target": prod(places), "loss": (1,), "dy": (*places, classes)}


def _slots(o: Operands) -> Needs:
    """Return the rule of the gradient-norm operations: one float64 a gradient."""
    known = o.attrs.get("index", 0) < o.count("acc")
    return {"acc": o.count("acc") if known else IMPOSSIBLE, "scale": (1,)}


_RULES: dict[OpCode, Rule] = {
    **TENSOR_RULES,
    **PRODUCT_RULES,
    OpCode.ADAPTIVE_AVGPOOL2D_FWD: _resample("x", "y"),
    OpCode.ADAPTIVE_AVGPOOL2D_GRAD: _resample("dx", "dy"),
    OpCode.UPSAMPLE_NEAREST2D_FWD: _resample("x", "y"),
    OpCode.UPSAMPLE_NEAREST2D_GRAD: _resample("dx", "dy"),
    OpCode.UPSAMPLE_BILINEAR2D_FWD: _resample("x", "y"),
    OpCode.UPSAMPLE_BILINEAR2D_GRAD: _resample("dx", "dy"),
    OpCode.MAXPOOL2D_FWD: _pool("x", "y"),
    OpCode.MAXPOOL2D_GRAD: _pool("dx", "dy"),
    OpCode.AVGPOOL2D_FWD: _pool("x", "y"),
    OpCode.AVGPOOL2D_GRAD: _pool("dx", "dy"),
    OpCode.BATCHNORM2D_FWD: _norm,
    OpCode.BATCHNORM2D_EVAL: _norm,
    OpCode.BATCHNORM2D_APPLY: _norm,
    OpCode.BATCHNORM2D_GRAD: _norm,
    OpCode.BATCHNORM2D_EVAL_GRAD: _norm,
    OpCode.LAYERNORM_FWD: _layernorm,
    OpCode.LAYERNORM_GRAD: _layernorm,
    OpCode.RELU_FWD: _alike("x", "y"),
    OpCode.RELU_GRAD: _alike("y", "dy", "dx"),
    OpCode.RECTIFIER_BITS: _bits("y"),
    OpCode.RECTIFIER_BITS_GRAD: _bits("dy"),
    OpCode.TANH_FWD: _alike("x", "y"),
    OpCode.TANH_GRAD: _alike("y", "dy", "dx"),
    OpCode.DROPOUT_FWD: _alike("x", "y"),
    OpCode.DROPOUT_GRAD: _alike("dy", "dx"),
    OpCode.ADD: _alike("a", "b", "y"),
    OpCode.COPY: _alike("x", "y"),
    OpCode.NHWC_TO_NCHW: _alike("x", "y"),
    OpCode.NCHW_TO_NHWC: _alike("x", "y"),
    OpCode.AFFINE: _alike("x", "y"),
    OpCode.POWER: _alike("x", "y"),
    OpCode.FUNCTION: _alike("x", "y"),
    OpCode.CROSS_ENTROPY_GRAD: _cross_entropy,
    OpCode.CROSS_ENTROPY_EVAL: _cross_entropy,
    OpCode.MSE_GRAD: _elements,
    OpCode.MSE_EVAL: _elements,
    OpCode.GRAD_SUMSQ: _slots,
    OpCode.CLIP_SCALE: _slots,
    OpCode.CLIP_VALUE: _alike("g"),
    OpCode.SGD_STEP: _alike("w", "g", "momentum"),
    OpCode.ADAM_STEP: _alike("w", "g", "m", "v"),
    OpCode.ADAMW_STEP: _alike("w", "g", "m", "v"),
    OpCode.RMSPROP_STEP: _alike("w", "g", "square_avg", "grad_avg", "momentum"),
    OpCode.ADAGRAD_STEP: _alike("w", "g", "sum"),
    OpCode.HUBER_GRAD: _elements,
    OpCode.HUBER_EVAL: _elements,
    OpCode.KL_DIV_GRAD: _elements,
    OpCode.KL_DIV_EVAL: _elements,
    OpCode.BCE_WITH_LOGITS_GRAD: _bce,
    OpCode.BCE_WITH_LOGITS_EVAL: _bce,
    OpCode.WEIGHTED_CROSS_ENTROPY_GRAD: _classes,
    OpCode.WEIGHTED_CROSS_ENTROPY_EVAL: _classes,
    OpCode.NLL_GRAD: _classes,
    OpCode.NLL_EVAL: _classes,
    OpCode.PLACES_CROSS_ENTROPY_GRAD: _places,
    OpCode.PLACES_CROSS_ENTROPY_EVAL: _places,
    OpCode.SOFT_CROSS_ENTROPY_GRAD: _soft,
    OpCode.SOFT_CROSS_ENTROPY_EVAL: _soft,
    OpCode.COSINE_EMBEDDING_GRAD: _elements,
    OpCode.COSINE_EMBEDDING_EVAL: _elements,
    OpCode.SIGMOID_FWD: _alike("x", "y"),
    OpCode.SIGMOID_GRAD: _alike("y", "dy", "dx"),
    OpCode.RELU6_FWD: _alike("x", "y"),
    OpCode.RELU6_GRAD: _alike("y", "dy", "dx"),
    OpCode.LEAKY_RELU_FWD: _alike("x", "y"),
    OpCode.LEAKY_RELU_GRAD: _alike("y", "dy", "dx"),
    OpCode.ELU_FWD: _alike("x", "y"),
    OpCode.ELU_GRAD: _alike("y", "dy", "dx"),
    OpCode.SILU_FWD: _alike("x", "y"),
    OpCode.SILU_GRAD: _alike("x", "dy", "dx"),
    OpCode.HARDSWISH_FWD: _alike("x", "y"),
    OpCode.HARDSWISH_GRAD: _alike("x", "dy", "dx"),
    OpCode.HARDSIGMOID_FWD: _alike("x", "y"),
    OpCode.HARDSIGMOID_GRAD: _alike("y", "dy", "dx"),
    OpCode.GELU_FWD: _alike("x", "y"),
    OpCode.GELU_GRAD: _alike("x", "dy", "dx"),
    OpCode.GELU_TANH_FWD: _alike("x", "y"),
    OpCode.GELU_TANH_GRAD: _alike("x", "dy", "dx"),
    OpCode.MISH_FWD: _alike("x", "y"),
    OpCode.MISH_GRAD: _alike("x", "dy", "dx"),
    OpCode.SOFTPLUS_FWD: _alike("x", "y"),
    OpCode.SOFTPLUS_GRAD: _alike("x", "dy", "dx"),
    OpCode.MASKED_SOFTMAX_FWD: _masked,
    OpCode.SOFTMAX_FWD: _along("x", "y"),
    OpCode.SOFTMAX_GRAD: _along("y", "dy", "dx"),
    OpCode.LOG_SOFTMAX_FWD: _along("x", "y"),
    OpCode.LOG_SOFTMAX_GRAD: _along("y", "dy", "dx"),
}

_SAMPLES = frozenset(
    {"x", "y", "dx", "dy", "a", "z", "whole", "idx", "logits", "dlogits", "target"}
    | {"row_mean", "row_invstd", "mask", "rows", "bits"}
)

_RANKS = (
    ("LINEAR_", {"w": 2, "dw": 2}),
    ("EMBEDDING_", {"w": 2, "dw": 2}),
    ("BLOCKS_", {"g": 2}),
    ("CONV2D_", {"x": 4, "y": 4, "dx": 4, "dy": 4, "w": 5, "dw": 5}),
    ("CONV_TRANSPOSE2D_", {"x": 4, "y": 4, "dx": 4, "dy": 4, "w": 5, "dw": 5}),
    ("ADAPTIVE_AVGPOOL2D_", {"x": 4, "y": 4, "dx": 4, "dy": 4}),
    ("UPSAMPLE_", {"x": 4, "y": 4, "dx": 4, "dy": 4}),
    ("MAXPOOL2D_", {"x": 4, "y": 4, "dx": 4, "dy": 4, "idx": 4}),
    ("AVGPOOL2D_", {"x": 4, "y": 4, "dx": 4, "dy": 4}),
    ("BATCHNORM2D_", {"x": 4, "y": 4, "dx": 4, "dy": 4}),
    ("RECTIFIER_BITS", {"bits": 2}),
    ("NHWC_TO_NCHW", {"x": 4}),
    ("NCHW_TO_NHWC", {"y": 4}),
    ("CROSS_ENTROPY_", {"logits": 2, "dlogits": 2, "target": 1}),
    ("WEIGHTED_CROSS_ENTROPY_", {"y": 2, "dy": 2, "target": 1}),
    ("NLL_", {"y": 2, "dy": 2, "target": 1}),
    ("SOFT_CROSS_ENTROPY_", {"y": 2, "dy": 2, "target": 2}),
    ("MASKED_SOFTMAX_", {"mask": 2}),
)
"""Start of an operation's name -> dimensions of its operands."""

_LABELLED = ("CROSS_ENTROPY_", "WEIGHTED_CROSS_ENTROPY_", "NLL_")
"""Start of the names of operations whose target is one integer a row."""

MAY_HAVE_ROWS = {"other": "a", "small": "y", "total": "x"}
"""Operand that is a batch, or stands for all samples of one -> the larger one beside it."""

_VECTORS = frozenset(
    {"b", "db", "gamma", "beta", "mean", "var", "save_mean", "save_invstd", "dgamma", "dbeta"}
    | {"loss", "correct", "acc", "scale", "ws"}
)
"""Operands with one dimension in every operation but ADD, whose b is a value like a."""

_DTYPES = {
    "loss": DType.F64,
    "correct": DType.I64,
    "acc": DType.F64,
    "idx": DType.U8,
    "bits": DType.U8,
    "ws": DType.U8,
}


def needed_dtype(op: OpCode, operand: str) -> DType:
    """Return the element type that `op` expects of `operand`."""
    if operand == "target" and op.name.startswith(_LABELLED):
        return DType.I32
    return _DTYPES.get(operand, DType.F32)


def has_rows(op: OpCode, operand: str) -> bool:
    """Tell whether an operand has a row per sample: in one step all have the same rows."""
    return operand in _SAMPLES or op is OpCode.ADD


def may_be_batched(op: OpCode, operand: str) -> bool:
    """Tell whether an operand may be a batch beside others that are none."""
    clipped = operand == "g" and op in (OpCode.GRAD_SUMSQ, OpCode.CLIP_VALUE)
    return clipped or operand in MAY_HAVE_ROWS


def needed_rank(op: OpCode, operand: str) -> int | None:
    """Return how many dimensions `op` expects of `operand`, None for any number."""
    if operand in _VECTORS and op is not OpCode.ADD:
        return 1
    ranks = (ranks for start, ranks in _RANKS if op.name.startswith(start))
    return next(ranks, {}).get(operand)


def needed_dims(op: OpCode, operands: Operands) -> dict[str, int | tuple[int, ...]]:
    """Return what operands must have, by name: exact dimensions, or a number of elements.

    Raises
    ------
    ValueError
        When a dimension count is not the operation's.
    """
    return _RULES[op](operands)
