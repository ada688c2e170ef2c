"""The catalogue of plan operations: the one list that everything else is made from.

An operation here is what a plan file stores and the engine runs, on buffers in arena layout
(activations channels-last). `kernels/include/art_ops.def` is generated from this table. Each
entry declares which operands it reads and writes; lifetimes come from these declarations and
never from an operation's name.

Operand access: R read, W fully written (old content irrelevant), RW read and updated,
S scratch (content meaningless before and after). A trailing '?' marks an optional operand.
`inplace` lists pairs (output slot, input slot) that may share one storage when the input has
no later reader.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum, IntFlag

from armtrain.limits import MAX_DIM, MAX_FLOAT, MAX_RECORDS, MAX_WINDOW, MIN_FLOAT, NO_LABEL

__all__ = ["OPS", "Access", "AttrSpec", "OpCode", "OpSpec", "OperandSpec", "spec_of"]


class Access(IntFlag):
    """How a step uses an operand; the value is stored in plan files."""

    READ = 1
    WRITE = 2
    READ_WRITE = 3
    SCRATCH = 4


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


@dataclass(frozen=True)
class OperandSpec:
    """One operand slot: `name`, `access`, whether it is `optional`."""

    name: str
    access: Access
    optional: bool = False


@dataclass(frozen=True)
class AttrSpec:
    """One attribute slot of 8 bytes.

    Attributes
    ----------
    name : str
    kind : str
        'i' (int64) or 'f' (float64).
    low, high : int or float
        The range of its values, both ends included. A float is used as a float32, so that one
        below `MIN_FLOAT` must be 0 or is refused.
    """

    name: str
    kind: str
    low: int | float
    high: int | float


@dataclass(frozen=True)
class OpSpec:
    """What one operation reads, writes and needs.

    Attributes
    ----------
    attrs : tuple of AttrSpec
        What every such step has.
    tail : AttrSpec or None
        Any number of further attributes of one kind follow, as one weight per class.
    """

    code: OpCode
    operands: tuple[OperandSpec, ...]
    attrs: tuple[AttrSpec, ...] = ()
    inplace: tuple[tuple[str, str], ...] = ()
    summary: str = ""
    tail: AttrSpec | None = None
    operand_index: dict[str, int] = field(init=False, repr=False, compare=False)
    attr_index: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Index slots by name."""
        object.__setattr__(self, "operand_index", {o.name: i for i, o in enumerate(self.operands)})
        object.__setattr__(self, "attr_index", {a.name: i for i, a in enumerate(self.attrs)})

    def slots(self, count: int) -> tuple[AttrSpec, ...]:
        """Return the slots of a step with `count` attributes; more or less when it cannot have."""
        tail, more = self.tail, count - len(self.attrs)
        if tail is None:
            return self.attrs
        return self.attrs + tuple(replace(tail, name=f"{tail.name}[{i}]") for i in range(more))


_ACCESS = {"R": Access.READ, "W": Access.WRITE, "RW": Access.READ_WRITE, "S": Access.SCRATCH}


def _operands(text: str) -> tuple[OperandSpec, ...]:
    """Parse 'x:R w:R b:R? y:W' into operand slots."""
    slots = []
    for word in text.split():
        name, access = word.split(":")
        slots.append(OperandSpec(name, _ACCESS[access.rstrip("?")], access.endswith("?")))
    return tuple(slots)


_BELOW_ONE = 1.0 - 2.0**-53
_ATTR_TYPES: dict[str, tuple[str, int | float, int | float]] = {
    "size": ("i", 1, MAX_WINDOW),
    "pad": ("i", 0, MAX_WINDOW),
    "flag": ("i", 0, 1),
    "slot": ("i", 0, MAX_RECORDS - 1),
    "stream": ("i", -(2**63), 2**63 - 1),
    "share": ("f", 0.0, 1.0),
    "part": ("f", 0.0, _BELOW_ONE),
    "rate": ("f", 0.0, MAX_FLOAT),
    "real": ("f", -MAX_FLOAT, MAX_FLOAT),
    "norm": ("f", MIN_FLOAT, MAX_FLOAT),
    "label": ("i", NO_LABEL, MAX_DIM),
}
"""Word of an attribute in the table below -> kind and range; a '*' after it: any number of them."""


def _attrs(text: str, *, tail: bool = False) -> tuple[AttrSpec, ...]:
    """Parse 'stride_h:size eps:rate weight:rate*' into attribute slots, or those of the tail."""
    words = (word.split(":") for word in text.split() if word.endswith("*") == tail)
    return tuple(AttrSpec(name, *_ATTR_TYPES[kind.rstrip("*")]) for name, kind in words)


def _tail(text: str) -> AttrSpec | None:
    """Return the attribute of which there may be any number."""
    return next(iter(_attrs(text, tail=True)), None)


_STRIDES = "stride_h:size stride_w:size pad_h:pad pad_w:pad"
_CONV = f"{_STRIDES} dil_h:size dil_w:size groups:size"
_MAXPOOL = f"kernel_h:size kernel_w:size {_STRIDES} dil_h:size dil_w:size"
_AVGPOOL = f"kernel_h:size kernel_w:size {_STRIDES} count_include_pad:flag"
_HUBER = "bound:rate scale:rate"
_KL_DIV = "log_target:flag batchmean:flag"
_NLL = "ignore_index:label weight:rate*"
_WEIGHTED = f"smoothing:share {_NLL}"

# (code, operands, attributes, in-place pairs, summary)
_TABLE: tuple[tuple[OpCode, str, str, str, str], ...] = (
    (OpCode.LINEAR_FWD, "x:R w:R b:R? y:W ws:S?", "", "", "y[N,O] = x[N,I] w[I,O] + b[O]"),
    (OpCode.LINEAR_GRAD_W, "x:R dy:R dw:W? db:W? ws:S?", "", "", "dw[I,O] = xT dy, db = sum_N dy"),
    (OpCode.LINEAR_GRAD_X, "dy:R w:R dx:W ws:S?", "", "", "dx[N,I] = dy wT"),
    (OpCode.CONV2D_FWD, "x:R w:R b:R? y:W ws:S?", _CONV, "", "x[N,H,W,C] w[G,KH,KW,C/G,O/G] b[O]"),
    (OpCode.CONV2D_GRAD_W, "x:R dy:R dw:W? db:W? ws:S?", _CONV, "", "weight and bias gradient"),
    (OpCode.CONV2D_GRAD_X, "dy:R w:R dx:W ws:S?", _CONV, "", "input gradient"),
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
    (OpCode.RELU_FWD, "x:R y:W", "", "y=x", "y = max(x, 0), NaN stays NaN"),
    (OpCode.RELU_GRAD, "y:R dy:R dx:W", "", "dx=dy dx=y", "dx = y > 0 ? dy : 0"),
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
    (OpCode.ADD, "a:R b:R y:W", "", "y=a y=b", "y = a + b, same shape"),
    (OpCode.COPY, "x:R y:W", "", "", "y = x"),
    (OpCode.NHWC_TO_NCHW, "x:R y:W", "", "", "x[N,H,W,C] to y[N,C*H*W] in torch's flatten order"),
    (OpCode.NCHW_TO_NHWC, "x:R y:W", "", "", "the inverse: x[N,C*H*W] to y[N,H,W,C]"),
    (
        OpCode.CROSS_ENTROPY_GRAD,
        "logits:R target:R loss:W dlogits:W ws:S?",
        "",
        "dlogits=logits",
        "mean over N of -log softmax; target i32[N]; loss f64[1]; dlogits already divided by N",
    ),
    (
        OpCode.CROSS_ENTROPY_EVAL,
        "logits:R target:R loss:W correct:W ws:S?",
        "",
        "",
        "loss f64[1] mean over N, correct i64[1] = rows whose first maximum is the target",
    ),
    (
        OpCode.MSE_GRAD,
        "y:R target:R loss:W dy:W ws:S?",
        "",
        "dy=y",
        "mean over all elements of (y-target)^2",
    ),
    (OpCode.MSE_EVAL, "y:R target:R loss:W ws:S?", "", "", "loss f64[1]"),
    (OpCode.GRAD_SUMSQ, "g:R acc:RW ws:S?", "index:slot", "", "acc[index] = sum of squares, f64"),
    (
        OpCode.CLIP_SCALE,
        "acc:R scale:W",
        "max_norm:norm",
        "",
        "scale f32[1] = min(1, max_norm / (sqrt(sum acc) + 1e-6))",
    ),
    (
        OpCode.SGD_STEP,
        "w:RW g:R momentum:RW? scale:R?",
        "lr:rate momentum:rate dampening:real weight_decay:rate nesterov:flag",
        "",
        "torch.optim.SGD; first step sets the buffer to the gradient",
    ),
    (
        OpCode.ADAM_STEP,
        "w:RW g:R m:RW v:RW scale:R?",
        "lr:rate beta1:part beta2:part eps:rate weight_decay:rate",
        "",
        "torch.optim.Adam; eps is added to the bias-corrected root",
    ),
    (
        OpCode.ADAMW_STEP,
        "w:RW g:R m:RW v:RW scale:R?",
        "lr:rate beta1:part beta2:part eps:rate weight_decay:rate",
        "",
        "torch.optim.AdamW; w is first multiplied by 1 - lr weight_decay",
    ),
    (
        OpCode.RMSPROP_STEP,
        "w:RW g:R square_avg:RW grad_avg:RW? momentum:RW? scale:R?",
        "lr:rate alpha:share eps:rate weight_decay:rate momentum:rate centered:flag",
        "",
        "torch.optim.RMSprop; a variance that rounding makes negative is 0",
    ),
    (
        OpCode.ADAGRAD_STEP,
        "w:RW g:R sum:RW scale:R?",
        "lr:rate lr_decay:rate weight_decay:rate eps:rate",
        "",
        "torch.optim.Adagrad; the rate is lr / (1 + steps before * lr_decay)",
    ),
    (OpCode.CLIP_VALUE, "g:RW", "limit:norm", "", "g = min(max(g, -limit), limit), NaN stays NaN"),
    (
        OpCode.HUBER_GRAD,
        "y:R target:R loss:W dy:W",
        _HUBER,
        "dy=y",
        "mean of scale (d^2 / (2 bound) where |d| < bound, else |d| - bound / 2), d = y - target",
    ),
    (OpCode.HUBER_EVAL, "y:R target:R loss:W", _HUBER, "", "loss f64[1]"),
    (
        OpCode.KL_DIV_GRAD,
        "y:R target:R loss:W dy:W",
        _KL_DIV,
        "dy=y",
        "t (log t - y) of log-probabilities y, t = log_target ? exp(target) : target; mean over "
        "all elements, or over N if batchmean",
    ),
    (OpCode.KL_DIV_EVAL, "y:R target:R loss:W", _KL_DIV, "", "loss f64[1]"),
    (
        OpCode.BCE_WITH_LOGITS_GRAD,
        "y:R target:R loss:W dy:W ws:S?",
        "pos_weight:rate*",
        "dy=y",
        "mean of -p t log sigmoid(y) - (1 - t) log sigmoid(-y), target t in [0, 1]; one p for "
        "all or for each column, none: 1",
    ),
    (
        OpCode.BCE_WITH_LOGITS_EVAL,
        "y:R target:R loss:W ws:S?",
        "pos_weight:rate*",
        "",
        "loss f64[1]",
    ),
    (
        OpCode.WEIGHTED_CROSS_ENTROPY_GRAD,
        "y:R target:R loss:W dy:W ws:S?",
        _WEIGHTED,
        "dy=y",
        "sum of -w[c] q[c] log softmax(y)[c], q = (1 - smoothing) one-hot + smoothing / classes, "
        "over the sum of w[target]; rows whose target is ignore_index do not count",
    ),
    (
        OpCode.WEIGHTED_CROSS_ENTROPY_EVAL,
        "y:R target:R loss:W correct:W ws:S?",
        _WEIGHTED,
        "",
        "loss f64[1], correct i64[1] = counted rows whose first maximum is the target",
    ),
    (
        OpCode.NLL_GRAD,
        "y:R target:R loss:W dy:W ws:S?",
        _NLL,
        "dy=y",
        "sum of -w[target] y[target] over the sum of w[target], of log-probabilities y",
    ),
    (
        OpCode.NLL_EVAL,
        "y:R target:R loss:W correct:W ws:S?",
        _NLL,
        "",
        "loss f64[1], correct i64[1] = counted rows whose first maximum is the target",
    ),
)


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    """Parse 'dx=dy dx=y' into (output, input) pairs in order of preference."""
    return tuple((w.split("=")[0], w.split("=")[1]) for w in text.split())


OPS: dict[OpCode, OpSpec] = {
    code: OpSpec(code, _operands(operands), _attrs(attrs), _pairs(inplace), summary, _tail(attrs))
    for code, operands, attrs, inplace, summary in _TABLE
}


def spec_of(code: OpCode) -> OpSpec:
    """Return the catalogue entry of `code`."""
    return OPS[code]
