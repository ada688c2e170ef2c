"""A layer of a transformer: attention and two linear layers, with norms and shortcuts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from armtrain.errors import ArgumentError
from armtrain.ir.graph import Activation, ActivationAttrs
from armtrain.nn.arguments import Rule, changed
from armtrain.nn.attention import MultiheadAttention, no_attention_mask
from armtrain.nn.dropout import Dropout
from armtrain.nn.linear import Linear
from armtrain.nn.module import Module
from armtrain.nn.sample_norm import LayerNorm
from armtrain.nn.tensor import Tensor
from armtrain.values import truth

__all__ = ["TransformerEncoderLayer"]

_WORDS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": Tensor.relu,
    "gelu": lambda x: x.record(None, ActivationAttrs(Activation.GELU)),
}


def _activation(what: str, value: object) -> object:
    """Return a known word or a function of a tensor."""
    if callable(value) or (isinstance(value, str) and value in _WORDS):
        return value
    raise ArgumentError(
        f"{what} needs {' or '.join(map(repr, _WORDS))}, or a function such as "
        f"nn.functional.silu, got {value!r:.80}"
    )


class TransformerEncoderLayer(Module):
    """Self-attention and two linear layers of (N, L, d_model), each added to what it gets.

    Parameters
    ----------
    d_model, nhead : int
        The heads divide the features.
    dim_feedforward : int
        Features between the linear layers.
    dropout : float
        Of shares, between the linear layers and of what both parts give.
    activation : str or callable
        'relu', 'gelu' or a function of a tensor.
    layer_norm_eps : float
    batch_first : bool
        Must be True, unlike torch's default: values are (N, L, d_model).
    norm_first : bool
        Whether a part normalises what it gets; else the sum is normalised.
    bias : bool
        Whether linear layers and norms have one.
    """

    activation: Any
    norm_first: bool
    _rules: ClassVar[Mapping[str, Rule]] = {"activation": _activation, "norm_first": truth}

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self._set(activation=activation, norm_first=norm_first)
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias)
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)

    def forward(
        self,
        src: Tensor,
        src_mask: None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
        *,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Return a value of the input's shape; masks as those of `MultiheadAttention`."""
        no_attention_mask("TransformerEncoderLayer: src_mask", src_mask)

        def attended(x: Tensor) -> Tensor:
            """Return what the places take from each other."""
            y, _ = self.self_attn(
                *(x, x, x, src_key_padding_mask),
                need_weights=False,
                is_causal=is_causal,
                mask=mask,
            )
            return self.dropout1(y)

        if self.norm_first:
            x = src + attended(self.norm1(src))
            return x + self._wide(self.norm2(x))
        x = self.norm1(src + attended(src))
        return self.norm2(x + self._wide(x))

    def extra_repr(self) -> str:
        """Return the arguments that no layer below shows, torch's defaults left out."""
        word = {"activation": "relu"} if isinstance(self.activation, str) else {}
        return ", ".join(changed(self, {**word, "norm_first": False}))

    def _wide(self, x: Tensor) -> Tensor:
        """Return what the two linear layers give."""
        function = _WORDS.get(self.activation) if isinstance(self.activation, str) else None
        y = (function or self.activation)(self.linear1(x))
        return self.dropout2(self.linear2(self.dropout(y)))
