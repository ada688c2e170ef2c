"""What products demand of their operands: linear layers, convolutions, updates by blocks."""

from __future__ import annotations

from math import prod

from armtrain.ir.ops import OpCode
from armtrain.limits import MAX_MERGED_TERMS, MAX_WINDOW
from armtrain.planfile.check_operands import IMPOSSIBLE, Needs, Operands, Rule

__all__ = ["PRODUCT_RULES", "window"]


def _linear(x: str, y: str, w: str) -> Rule:
    """Return the rule of y[..., O] = x[..., I] w[I, O]."""

    def rule(o: Operands) -> Needs:
        (*rows, inputs), (*_, outputs) = o.dims[x], o.dims[y]
        if not rows:
            return {x: IMPOSSIBLE}
        return {y: (*rows, outputs), w: (inputs, outputs), "b": (outputs,), "db": (outputs,)}

    return rule


def window(size: int, kernel: int, o: Operands, axis: str) -> int:
    """Return the output positions of a sliding window along one axis."""
    dilation = o.integer(f"dil_{axis}") if f"dil_{axis}" in o.attrs else 1
    ends = 2 * o.integer(f"pad_{axis}") + o.integer(f"over_{axis}")
    return (size + ends - dilation * (kernel - 1) - 1) // o.integer(f"stride_{axis}") + 1


def _conv(x: str, y: str, w: str) -> Rule:
    """Return the rule of a convolution from x[N,H,W,C] and the weight to y."""

    def rule(o: Operands) -> Needs:
        (n, height, width, channels), (_, _, _, outputs) = o.dims[x], o.dims[y]
        needs: Needs = {"b": (outputs,), "db": (outputs,)}
        if w not in o.dims:  # a bias gradient alone
            return needs
        groups, (_, kernel_h, kernel_w, _, _) = o.integer("groups"), o.dims[w]
        needs[y] = (n, window(height, kernel_h, o, "h"), window(width, kernel_w, o, "w"), outputs)
        needs[w] = (groups, kernel_h, kernel_w, channels // groups, outputs // groups)
        split = channels % groups == 0 == outputs % groups
        return needs if split and max(kernel_h, kernel_w) <= MAX_WINDOW else {w: IMPOSSIBLE}

    return rule


def _conv_transpose(x: str, y: str, w: str) -> Rule:
    """Return the rule of a convolution from y to x, whose bias is that of y."""
    convolution = _conv(y, x, w)

    def rule(o: Operands) -> Needs:
        outputs = o.dims[y][-1]
        return {**convolution(o), "b": (outputs,), "db": (outputs,)}

    return rule


def _blocks(*states: str) -> Rule:
    """Return the rule of an update that makes the gradient of its weight, g rows at a time.

    Depthwise weights and kernel rows that are one long tap have no rows that are sums of their own.
    """
    of_matrix, of_images = _linear("x", "dy", "w"), _conv("x", "dy", "w")

    def rule(o: Operands) -> Needs:
        *leading, columns = w = o.dims["w"]
        needs = (of_matrix if len(w) == 2 else of_images)(o)
        if len(w) == 5:
            groups, _, kernel_w, inputs, outputs = w
            merges = groups == 1 and kernel_w > 1 and o.integer("dil_w") == 1
            merged = merges and kernel_w * inputs <= MAX_MERGED_TERMS
            if merged or (groups > 1 and inputs == outputs == 1):
                return {"w": IMPOSSIBLE}
        rows = min(o.dims["g"][0], prod(leading))
        return {**needs, **dict.fromkeys(states, o.count("w")), "g": (rows, columns)}

    return rule


PRODUCT_RULES: dict[OpCode, Rule] = {
    OpCode.LINEAR_FWD: _linear("x", "y", "w"),
    OpCode.LINEAR_GRAD_W: _linear("x", "dy", "dw"),
    OpCode.LINEAR_GRAD_X: _linear("dx", "dy", "w"),
    OpCode.CONV2D_FWD: _conv("x", "y", "w"),
    OpCode.CONV2D_GRAD_W: _conv("x", "dy", "dw"),
    OpCode.CONV2D_GRAD_X: _conv("dx", "dy", "w"),
    OpCode.CONV_TRANSPOSE2D_FWD: _conv_transpose("x", "y", "w"),
    OpCode.CONV_TRANSPOSE2D_GRAD_W: _conv_transpose("x", "dy", "dw"),
    OpCode.CONV_TRANSPOSE2D_GRAD_X: _conv_transpose("dx", "dy", "w"),
    OpCode.BLOCKS_SGD_STEP: _blocks("momentum"),
    OpCode.BLOCKS_ADAM_STEP: _blocks("m", "v"),
    OpCode.BLOCKS_ADAMW_STEP: _blocks("m", "v"),
    OpCode.BLOCKS_RMSPROP_STEP: _blocks("square_avg", "grad_avg", "momentum"),
    OpCode.BLOCKS_ADAGRAD_STEP: _blocks("sum"),
}
