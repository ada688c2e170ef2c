"""Functions of one element."""

from __future__ import annotations

from collections.abc import Iterator

from armtrain.ir.op_codes import OpCode, Row

__all__ = ["ROWS"]

# (name, attributes, what the gradient reads besides dy, summary, summary of the gradient)
_ACTIVATIONS: tuple[tuple[str, str, str, str, str], ...] = (
    ("SIGMOID", "", "y", "y = 1 / (1 + e^-x)", "dx = dy y (1 - y)"),
    ("RELU6", "", "y", "y = min(max(x, 0), 6), NaN stays NaN", "dx = 0 < y < 6 ? dy : 0"),
    ("LEAKY_RELU", "slope:rate", "y", "y = x > 0 ? x : slope x", "dx = y > 0 ? dy : slope dy"),
    (
        "ELU",
        "positive:rate negative:rate",
        "y",
        "y = x > 0 ? positive x : negative (e^x - 1)",
        "dx = y <= 0 ? dy (y + negative) : positive dy",
    ),
    ("SILU", "", "x", "y = x s, s = 1 / (1 + e^-x)", "dx = dy s (1 + x (1 - s))"),
    (
        "HARDSWISH",
        "",
        "x",
        "y = x min(max(x + 3, 0), 6) / 6",
        "dx = x <= -3 ? 0 : x < 3 ? dy (x / 3 + 1 / 2) : dy",
    ),
    (
        "HARDSIGMOID",
        "",
        "y",
        "y = min(max(x + 3, 0), 6) / 6",
        "dx = 0 < y < 1 ? dy / 6 : 0",
    ),
    (
        "GELU",
        "",
        "x",
        "y = x P(x), P the distribution function of the normal distribution",
        "dx = dy (P(x) + x P'(x))",
    ),
    (
        "GELU_TANH",
        "",
        "x",
        "y = x s, s = 1 / (1 + e^-v), v = sqrt(8 / pi) x (1 + 0.044715 x^2)",
        "dx = dy s (1 + x v' (1 - s))",
    ),
    ("MISH", "", "x", "y = x t, t = tanh(log(1 + e^x))", "dx = dy (t + x t')"),
    (
        "SOFTPLUS",
        "beta:norm threshold:real",
        "x",
        "y = beta x > threshold ? x : log(1 + e^(beta x)) / beta",
        "dx = beta x > threshold ? dy : dy / (1 + e^(-beta x))",
    ),
)


def _activations() -> Iterator[Row]:
    """Yield the two rows of every activation; one that keeps y may overwrite x."""
    for name, attrs, kept, forward, gradient in _ACTIVATIONS:
        yield OpCode[f"{name}_FWD"], "x:R y:W", attrs, "y=x", forward
        pairs = f"dx=dy dx={kept}"
        yield OpCode[f"{name}_GRAD"], f"{kept}:R dy:R dx:W", attrs, pairs, gradient


ROWS: tuple[Row, ...] = tuple(_activations())
