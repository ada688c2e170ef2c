"""Operations as functions, with the names and arguments of `torch.nn.functional`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armtrain.errors import ShapeError, unknown_name
from armtrain.ir.graph import DropoutAttrs, Pair
from armtrain.nn.activation import (
    ELU,
    GELU,
    SELU,
    Hardsigmoid,
    Hardswish,
    LeakyReLU,
    Mish,
    ReLU6,
    SiLU,
    Softplus,
)
from armtrain.nn.adaptive import AdaptiveAvgPool1d, AdaptiveAvgPool2d
from armtrain.nn.arguments import rate, refuse_unless
from armtrain.nn.attention import attend, counting_keys, no_attention_mask
from armtrain.nn.parameter import Buffer
from armtrain.nn.pool import AvgPool2d, MaxPool2d
from armtrain.nn.prelu import sloped
from armtrain.nn.similarity import CosineSimilarity, cosine
from armtrain.nn.tensor import Tensor, cat, stack
from armtrain.nn.tensor import flatten as _flatten
from armtrain.nn.tensor import softmax as _softmax
from armtrain.nn.upsample import Upsample
from armtrain.values import truth

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "avg_pool2d",
    "cat",
    "cosine_similarity",
    "elu",
    "flatten",
    "gelu",
    "hardsigmoid",
    "hardswish",
    "interpolate",
    "leaky_relu",
    "log_softmax",
    "max_pool2d",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "stack",
    "tanh",
]


def _traced(name: str, value: object) -> Tensor:
    """Return a symbolic tensor; refuse anything that holds numbers."""
    if not isinstance(value, Tensor):
        raise ShapeError(
            f"functional.{name} was called with {type(value).__name__}: functions hold no data and "
            "only take part in tracing, inside forward(); use NumPy's on arrays"
        )
    return value


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return max(x, 0); `inplace` has no effect."""
    truth("relu: inplace", inplace)
    return _traced("relu", input).relu()


def tanh(input: Tensor) -> Tensor:
    """Return tanh(x)."""
    return _traced("tanh", input).tanh()


def sigmoid(input: Tensor) -> Tensor:
    """Return 1 / (1 + e^-x)."""
    return _traced("sigmoid", input).sigmoid()


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Return the activation `ReLU6`; `inplace` has no effect."""
    return _traced("relu6", input).record(None, ReLU6(inplace).attrs())


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Return the activation `LeakyReLU`; `inplace` has no effect."""
    return _traced("leaky_relu", input).record(None, LeakyReLU(negative_slope, inplace).attrs())


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return the activation `ELU`; `inplace` has no effect."""
    return _traced("elu", input).record(None, ELU(alpha, inplace).attrs())


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return the activation `SELU`; `inplace` has no effect."""
    return _traced("selu", input).record(None, SELU(inplace).attrs())


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return the activation `SiLU`; `inplace` has no effect."""
    return _traced("silu", input).record(None, SiLU(inplace).attrs())


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return the activation `Hardswish`; `inplace` has no effect."""
    return _traced("hardswish", input).record(None, Hardswish(inplace).attrs())


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Return the activation `Hardsigmoid`; `inplace` has no effect."""
    return _traced("hardsigmoid", input).record(None, Hardsigmoid(inplace).attrs())


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return the activation `Mish`; `inplace` has no effect."""
    return _traced("mish", input).record(None, Mish(inplace).attrs())


def prelu(input: Tensor, weight: Buffer) -> Tensor:
    """Return the input with the slopes `weight` where it is negative; see `PReLU`."""
    return sloped(_traced("prelu", input), weight)


def gelu(input: Tensor, *, approximate: str = "none") -> Tensor:
    """Return the activation `GELU`."""
    return _traced("gelu", input).record(None, GELU(approximate).attrs())


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """Return the activation `Softplus`."""
    layer = Softplus(beta, threshold)
    return _traced("softplus", input).record(None, layer.attrs())


def softmax(input: Tensor, dim: int | None = None) -> Tensor:
    """Return shares that add up to 1 along a dimension; see `Softmax`."""
    return _softmax(_traced("softmax", input), None, dim, log=False)


def log_softmax(input: Tensor, dim: int | None = None) -> Tensor:
    """Return the logarithm of the softmax; see `LogSoftmax`."""
    return _softmax(_traced("log_softmax", input), None, dim, log=True)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Return the cosines of two values along a dimension; see `CosineSimilarity`."""
    layer = CosineSimilarity(dim, eps)
    first = _traced("cosine_similarity", x1)
    return cosine(first, _traced("cosine_similarity", x2), layer.dim, layer.eps)


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Return the input as (N, features); needs start_dim=1."""
    return _flatten(_traced("flatten", input), None, start_dim, end_dim)


def max_pool2d(
    input: Tensor,
    kernel_size: int | Pair,
    stride: int | Pair | None = None,
    padding: int | Pair = 0,
    dilation: int | Pair = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the maximum over windows; see `MaxPool2d`."""
    layer = MaxPool2d(kernel_size, stride, padding, dilation, ceil_mode=ceil_mode)
    return _traced("max_pool2d", input).record(None, layer.attrs())


def avg_pool2d(
    input: Tensor,
    kernel_size: int | Pair,
    stride: int | Pair | None = None,
    padding: int | Pair = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean over windows; see `AvgPool2d`."""
    layer = AvgPool2d(kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return _traced("avg_pool2d", input).record(None, layer.attrs())


def adaptive_avg_pool1d(input: Tensor, output_size: int | None) -> Tensor:
    """Return the mean over windows; see `AdaptiveAvgPool1d`."""
    value = _traced("adaptive_avg_pool1d", input)
    return value.record(None, AdaptiveAvgPool1d((output_size,)).attrs(value.shape))


def adaptive_avg_pool2d(input: Tensor, output_size: int | tuple[int | None, ...]) -> Tensor:
    """Return the mean over windows; see `AdaptiveAvgPool2d`."""
    value = _traced("adaptive_avg_pool2d", input)
    return value.record(None, AdaptiveAvgPool2d(output_size).attrs(value.shape))


def interpolate(
    input: Tensor,
    size: int | tuple[int, ...] | None = None,
    scale_factor: float | tuple[float, ...] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Return a value with other sides; see `Upsample`. `antialias` can only be False."""
    value = _traced("interpolate", input)
    refuse_unless("interpolate: antialias", antialias, False)
    layer = Upsample(size, scale_factor, mode, align_corners, recompute_scale_factor)
    return value.record(None, layer.attrs(value.shape))


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    mask: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
) -> Tensor:
    """Return softmax(scale query key^T) value of every sample and head.

    Parameters
    ----------
    query, key, value : Tensor
        (N, ..., L, E), (N, ..., S, E) and (N, ..., S, V).
    attn_mask, enable_gqa
        Only torch's defaults.
    dropout_p : float
        Of the shares, in training steps.
    is_causal : bool
        Whether place i of the query sees keys 0 to i alone.
    scale : float, optional
        None: 1 / sqrt(E).
    mask : Tensor, optional
        (N, S), 1 where a key counts and 0 where it is padding, as of recurrent layers. Where no key
        counts the result is 0, and so are gradients; torch gives NaN there.
    key_padding_mask : Tensor, optional
        (N, S), the opposite, as torch's layers take it.

    Returns
    -------
    Tensor
        (N, ..., L, V).
    """
    name = "scaled_dot_product_attention"
    no_attention_mask(f"{name}: attn_mask", attn_mask)
    refuse_unless(f"{name}: enable_gqa", enable_gqa, False)
    output, _ = attend(
        name,
        *(_traced(name, x) for x in (query, key, value)),
        mask=counting_keys(name, mask, key_padding_mask),
        causal=truth(f"{name}: is_causal", is_causal),
        scale=scale,
        dropout=DropoutAttrs(rate(f"{name}: dropout_p", dropout_p, 1.0), True),
    )
    return output


if not TYPE_CHECKING:  # type checkers know the names, and would take every other one for one

    def __getattr__(name: str) -> None:
        """Say what there is instead of a name that torch has and armtrain lacks."""
        raise unknown_name("armtrain.nn.functional", name, __all__)
