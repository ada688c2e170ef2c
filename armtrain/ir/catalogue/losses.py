"""Losses, with their gradient in a training step, alone in an evaluation."""

from __future__ import annotations

from armtrain.ir.op_codes import OpCode, Row

__all__ = ["ROWS"]

_KL_DIV = "log_target:flag batchmean:flag"
_HUBER = "bound:rate scale:rate"
_NLL = "ignore_index:label weight:rate*"
_WEIGHTED = f"smoothing:share {_NLL}"
_SOFT = "smoothing:share weight:rate*"

ROWS: tuple[Row, ...] = (
    (
        OpCode.CROSS_ENTROPY_GRAD,
        "logits:R target:R loss:W dlogits:W ws:S?",
        "",
        "dlogits=logits",
        "mean over N of -log softmax; target i32[N], rows with -100 do not count; loss f64[1]; "
        "dlogits already divided by N",
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
    (
        OpCode.SOFT_CROSS_ENTROPY_GRAD,
        "y:R target:R loss:W dy:W ws:S?",
        _SOFT,
        "dy=y",
        "mean over N of -sum w[c] q[c] log softmax(y)[c], q = (1 - smoothing) target + smoothing / "
        "classes, target f32[N,classes] in [0, 1]",
    ),
    (OpCode.SOFT_CROSS_ENTROPY_EVAL, "y:R target:R loss:W ws:S?", _SOFT, "", "loss f64[1]"),
    (
        OpCode.PLACES_CROSS_ENTROPY_GRAD,
        "y:R target:R loss:W dy:W ws:S?",
        _WEIGHTED,
        "dy=y",
        "weighted_cross_entropy_grad of every row of y[N,..,classes], target f32 a label each",
    ),
    (OpCode.PLACES_CROSS_ENTROPY_EVAL, "y:R target:R loss:W ws:S?", _WEIGHTED, "", "loss f64[1]"),
    (
        OpCode.COSINE_EMBEDDING_GRAD,
        "y:R target:R loss:W dy:W",
        "margin:real",
        "dy=y",
        "mean over all elements of target = 1 ? 1 - y : max(y - margin, 0), targets 1 or -1",
    ),
    (OpCode.COSINE_EMBEDDING_EVAL, "y:R target:R loss:W", "margin:real", "", "loss f64[1]"),
)
