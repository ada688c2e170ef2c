"""Element-wise activations."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from armtrain.errors import ArgumentError
from armtrain.ir.graph import Activation, ActivationAttrs, ReluAttrs, TanhAttrs
from armtrain.limits import MAX_FLOAT, MIN_FLOAT
from armtrain.nn.arguments import Rule, rate
from armtrain.nn.module import Module
from armtrain.nn.tensor import Tensor
from armtrain.values import real, truth

__all__ = [
    "ELU",
    "GELU",
    "SELU",
    "Hardsigmoid",
    "Hardswish",
    "LeakyReLU",
    "Mish",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softplus",
    "Tanh",
]


class ReLU(Module):
    """max(x, 0).

    Parameters
    ----------
    inplace : bool
        Accepted and without effect: the compiler works in place wherever that is safe.
    """

    inplace: bool
    _rules: ClassVar[Mapping[str, Rule]] = {"inplace": truth}

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self._set(inplace=inplace)

    def forward(self, x: Tensor) -> Tensor:
        """Return a value of the input's shape."""
        return x.record(self, ReluAttrs())


class Tanh(Module):
    """tanh(x)."""

    def forward(self, x: Tensor) -> Tensor:
        """Return a value of the input's shape."""
        return x.record(self, TanhAttrs())


class _Function(Module):
    """A module that applies one activation of the catalogue."""

    function: ClassVar[Activation]

    def attrs(self) -> ActivationAttrs:
        """Return what a node of this layer computes."""
        return ActivationAttrs(self.function)

    def forward(self, x: Tensor) -> Tensor:
        """Return a value of the input's shape."""
        return x.record(self, self.attrs())


class _InPlace(_Function):
    """A function with torch's argument `inplace`, which changes nothing here."""

    inplace: bool
    _rules: ClassVar[Mapping[str, Rule]] = {"inplace": truth}

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self._set(inplace=inplace)


class Sigmoid(_Function):
    """1 / (1 + e^-x)."""

    function = Activation.SIGMOID


class ReLU6(_InPlace):
    """min(max(x, 0), 6).

    Parameters
    ----------
    inplace : bool
        Accepted and without effect: the compiler works in place wherever that is safe.
    """

    function = Activation.RELU6


class LeakyReLU(_InPlace):
    """x where it is positive, `negative_slope` x elsewhere.

    Parameters
    ----------
    negative_slope : float
        At least 0: the gradient is found from the sign of the result.
    inplace : bool
        Accepted and without effect: the compiler works in place wherever that is safe.
    """

    function = Activation.LEAKY_RELU
    negative_slope: float
    _rules: ClassVar[Mapping[str, Rule]] = {"negative_slope": rate, "inplace": truth}

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(inplace)
        self._set(negative_slope=negative_slope)

    def attrs(self) -> ActivationAttrs:
        """Return what a node of this layer computes."""
        return ActivationAttrs(self.function, (("slope", self.negative_slope),))

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"negative_slope={self.negative_slope}"


class ELU(_InPlace):
    """x where it is positive, `alpha` (e^x - 1) elsewhere.

    Parameters
    ----------
    alpha : float
        At least 0: the gradient is found from the sign of the result.
    inplace : bool
        Accepted and without effect: the compiler works in place wherever that is safe.
    """

    function = Activation.ELU
    alpha: float
    _rules: ClassVar[Mapping[str, Rule]] = {"alpha": rate, "inplace": truth}

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self._set(alpha=alpha)

    def attrs(self) -> ActivationAttrs:
        """Return what a node of this layer computes."""
        return ActivationAttrs(self.function, (("positive", 1.0), ("negative", self.alpha)))

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"alpha={self.alpha}"


_SELU_SCALE, _SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
"""Source: Klambauer et al., "Self-Normalizing Neural Networks", 2017, section 2."""


class SELU(_InPlace):
    """The ELU whose numbers keep mean 0 and variance 1 (Klambauer et al., 2017).

    Parameters
    ----------
    inplace : bool
        Accepted and without effect: the compiler works in place wherever that is safe.
    """

    function = Activation.ELU

    def attrs(self) -> ActivationAttrs:
        """Return what a node of this layer computes."""
        negative = _SELU_SCALE * _SELU_ALPHA
        return ActivationAttrs(self.function, (("positive", _SELU_SCALE), ("negative", negative)))


class SiLU(_InPlace):
    """x / (1 + e^-x), also called swish.

    Parameters
    ----------
    inplace : bool
        Accepted and without effect: the compiler works in place wherever that is safe.
    """

    function = Activation.SILU


class Hardswish(_InPlace):
    """x min(max(x + 3, 0), 6) / 6.

    Parameters
    ----------
    inplace : bool
        Accepted and without effect: the compiler works in place wherever that is safe.
    """

    function = Activation.HARDSWISH


class Hardsigmoid(_InPlace):
    """min(max(x + 3, 0), 6) / 6.

    Parameters
    ----------
    inplace : bool
        Accepted and without effect: the compiler works in place wherever that is safe.
    """

    function = Activation.HARDSIGMOID


_GELU = {"none": Activation.GELU, "tanh": Activation.GELU_TANH}


def _gelu_word(what: str, value: Any) -> str:
    """Return 'none' or 'tanh'; refuse anything else."""
    if not isinstance(value, str) or value not in _GELU:
        raise ArgumentError(f"{what}={value!r:.80} is not available; use 'none' or 'tanh'")
    return value


class GELU(_Function):
    """x times the normal distribution function of x.

    Parameters
    ----------
    approximate : str
        'none', or 'tanh': x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.

    Raises
    ------
    ArgumentError
        `approximate` is another word.
    """

    approximate: str
    _rules: ClassVar[Mapping[str, Rule]] = {"approximate": _gelu_word}

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self._set(approximate=approximate)

    def attrs(self) -> ActivationAttrs:
        """Return what a node of this layer computes."""
        return ActivationAttrs(_GELU[self.approximate])

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"approximate={self.approximate!r}"


class Mish(_InPlace):
    """x tanh(log(1 + e^x)).

    Parameters
    ----------
    inplace : bool
        Accepted and without effect: the compiler works in place wherever that is safe.
    """

    function = Activation.MISH


class Softplus(_Function):
    """log(1 + e^(beta x)) / beta, and x itself where beta x is above the threshold.

    Parameters
    ----------
    beta : float
        Above 0.
    threshold : float
    """

    function = Activation.SOFTPLUS
    beta: float
    threshold: float
    _rules: ClassVar[Mapping[str, Rule]] = {
        "beta": partial(real, low=MIN_FLOAT, high=MAX_FLOAT),
        "threshold": partial(real, low=-MAX_FLOAT, high=MAX_FLOAT, smallest=MIN_FLOAT),
    }

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self._set(beta=beta, threshold=threshold)

    def attrs(self) -> ActivationAttrs:
        """Return what a node of this layer computes."""
        numbers = (("beta", self.beta), ("threshold", self.threshold))
        return ActivationAttrs(self.function, numbers)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"beta={self.beta}, threshold={self.threshold}"
