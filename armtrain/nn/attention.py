"""Attention: sums of values, weighed by how well their keys fit queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from armtrain.errors import ArgumentError, ShapeError
from armtrain.ir.graph import DropoutAttrs, LinearAttrs, MaskedSoftmaxAttrs
from armtrain.nn.arguments import (
    Rule,
    batch_leads,
    changed,
    positive,
    rate,
    refuse_unless,
    refuse_unlike,
)
from armtrain.nn.linear import Linear
from armtrain.nn.module import Module
from armtrain.nn.parameter import Parameter, constant, uniform_glorot
from armtrain.nn.tensor import Tensor
from armtrain.values import real, truth

__all__ = ["MultiheadAttention", "attend", "counting_keys"]

_MOST_SCALE = 1e30


def counting_keys(what: str, mask: Any, key_padding_mask: Any) -> Tensor | None:
    """Return which keys count, 1 or 0, given that or, as torch does, its opposite."""
    given = mask if key_padding_mask is None else key_padding_mask
    if mask is not None and key_padding_mask is not None:
        raise ShapeError(
            f"{what}: mask says which keys count, key_padding_mask, as in torch, which do not; "
            "give one of them"
        )
    if given is None:
        return None
    if not isinstance(given, Tensor):
        raise ShapeError(
            f"{what}: a mask is a value of the network, such as a part of its input, got "
            f"{type(given).__name__}"
        )
    if key_padding_mask is None:
        return given
    given.recorder.as_mask(
        given,
        f"{what}: key_padding_mask",
        "it is 1 where a key is padding and 0 where it counts; mask= takes indices, of which 0 is "
        "padding",
    )
    return 1.0 - given


def no_attention_mask(what: str, value: object) -> None:
    """Refuse what torch adds to scores, or leaves out of them place by place."""
    if value is not None:
        raise ArgumentError(
            f"{what} is not available; is_causal=True hides later places, mask=(N, S) or "
            "key_padding_mask=(N, S) leaves out keys"
        )


def _check(what: str, query: Tensor, key: Tensor, value: Tensor) -> None:
    """Refuse shapes that do not belong together."""
    q, k, v = query.shape, key.shape, value.shape
    fits = 3 <= len(q) == len(k) == len(v) and q[:-2] == k[:-2] and k[:-1] == v[:-1]
    if not fits or q[-1] != k[-1]:
        raise ShapeError(
            f"{what}: query {q}, key {k} and value {v} do not fit; they need shapes "
            "(N, ..., L, E), (N, ..., S, E) and (N, ..., S, V) with the same first dimensions"
        )


def attend(
    what: str,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None,
    causal: bool,
    scale: object = None,
    dropout: DropoutAttrs | None = None,
) -> tuple[Tensor, Tensor]:
    """Return softmax(scale query key^T) value, (N, ..., L, V), and the softmax, (N, ..., L, S)."""
    _check(what, query, key, value)
    factor = query.shape[-1] ** -0.5
    if scale is not None:
        factor = real(f"{what}: scale", scale, -_MOST_SCALE, _MOST_SCALE)
    scores = (query * factor) @ key.transpose(-2, -1)
    if mask is None and not causal:
        shares = scores.softmax(-1)
    else:
        others = () if mask is None else (mask,)
        shares = scores.record(None, MaskedSoftmaxAttrs(causal), others=others)
    kept = shares if dropout is None or dropout.p == 0.0 else shares.record(None, dropout)
    return kept @ value, shares


class MultiheadAttention(Module):
    """Attention of several heads, each on its part of projected features.

    Heads attend with softmax(q k^T / sqrt(embed_dim / num_heads)) v. Of `in_proj_weight`
    (3 embed_dim, embed_dim) the first third makes queries, the second keys, the last values. A
    value that is query, key and value is projected once; each other one is projected whole, and
    the thirds that are its own are used.

    Parameters
    ----------
    embed_dim, num_heads : int
        The heads divide the features.
    dropout : float
        Of the shares, in training steps.
    bias : bool
        Whether there are `in_proj_bias` and `out_proj.bias`, at first 0.
    add_bias_kv, add_zero_attn, kdim, vdim
        Only torch's defaults.
    batch_first : bool
        Must be True, unlike torch's default: values are (N, L, embed_dim).
    """

    embed_dim: int
    num_heads: int
    dropout: float
    batch_first: bool
    in_proj_weight: Parameter
    in_proj_bias: Parameter | None
    _rules: ClassVar[Mapping[str, Rule]] = {
        "embed_dim": positive,
        "num_heads": positive,
        "dropout": lambda what, p: rate(what, p, 1.0),
        "add_bias_kv": lambda what, value: refuse_unless(what, value, False),
        "add_zero_attn": lambda what, value: refuse_unless(what, value, False),
        "kdim": lambda what, value: refuse_unless(what, value, None),
        "vdim": lambda what, value: refuse_unless(what, value, None),
        "batch_first": batch_leads,
    }

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: None = None,
        vdim: None = None,
        batch_first: bool = False,
    ) -> None:
        super().__init__()
        self._set(embed_dim=embed_dim, num_heads=num_heads, dropout=dropout)
        self._set(add_bias_kv=add_bias_kv, add_zero_attn=add_zero_attn, kdim=kdim, vdim=vdim)
        self._set(batch_first=batch_first)
        self._check_heads()
        size = self.embed_dim
        biased = truth("MultiheadAttention: bias", bias)
        self.in_proj_weight = Parameter((3 * size, size), uniform_glorot(size, 3 * size))
        self.in_proj_bias = Parameter((3 * size,), constant(0.0)) if biased else None
        self.out_proj = Linear(size, size, biased)
        if biased:
            self.out_proj.bias = Parameter((size,), constant(0.0))

    def _check_heads(self) -> None:
        """Refuse heads that do not divide the features."""
        if self.embed_dim % self.num_heads:
            raise ArgumentError(
                f"MultiheadAttention: num_heads={self.num_heads} must divide "
                f"embed_dim={self.embed_dim}"
            )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Trace the layer; the type says that there are two values."""
        return super().__call__(*args, **kwargs)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
        *,
        mask: Tensor | None = None,
    ) -> Any:
        """Return the attended values and the shares.

        Parameters
        ----------
        query, key, value : Tensor
            (N, L, embed_dim), (N, S, embed_dim), (N, S, embed_dim).
        key_padding_mask : Tensor, optional
            (N, S), as in torch 1 where a key is padding and 0 where it counts.
        need_weights : bool
            Whether shares are returned; unused ones cost nothing.
        attn_mask
            Only None.
        average_attn_weights : bool
            Whether shares are the mean over heads, (N, L, S), or all, (N, heads, L, S).
        is_causal : bool
            Whether place i of the query sees keys 0 to i alone. torch wants an attn_mask with it.
        mask : Tensor, optional
            (N, S), 1 where a key counts and 0 where it is padding, as of recurrent layers. Where
            no key counts the heads give 0 and gradients are 0; torch gives NaN there.

        Returns
        -------
        output : Tensor
            (N, L, embed_dim).
        shares : Tensor or None
        """
        no_attention_mask("MultiheadAttention: attn_mask", attn_mask)
        shown = truth("MultiheadAttention: need_weights", need_weights)
        averaged = truth("MultiheadAttention: average_attn_weights", average_attn_weights)
        counts = counting_keys("MultiheadAttention", mask, key_padding_mask)
        q, k, v = self._heads(query, key, value)
        output, shares = attend(
            "MultiheadAttention",
            *(q, k, v),
            mask=counts,
            causal=truth("MultiheadAttention: is_causal", is_causal),
            dropout=DropoutAttrs(self.dropout, self.training),
        )
        output = self.out_proj(output.permute(0, 2, 1, 3).reshape(*query.shape))
        if not shown:
            return output, None
        return output, shares.mean(1) if averaged else shares

    def _heads(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """Return queries, keys and values of all heads, (N, heads, L, features)."""
        self._check_heads()
        what = f"MultiheadAttention({self.embed_dim}, {self.num_heads})"
        given = (query, key, value)
        for x in given:
            if x.ndim != 3 or x.shape[2] != self.embed_dim:
                raise ShapeError(
                    f"{what} needs values of shape (N, L, {self.embed_dim}), got {x.shape}; write "
                    f"nn.MultiheadAttention({x.shape[-1]}, ...), or nn.Linear before it"
                )
        rows = 3 * self.embed_dim
        refuse_unlike(what, "in_proj_weight", self.in_proj_weight, (rows, self.embed_dim))
        refuse_unlike(what, "in_proj_bias", self.in_proj_bias, (rows,))
        projected = {id(x): self._projected(x) for x in given}
        return [projected[id(x)][:, place] for place, x in enumerate(given)]

    def _projected(self, x: Tensor) -> Tensor:
        """Return (N, 3, heads, L, features) of (N, L, embed_dim)."""
        params = {"weight": self.in_proj_weight, "bias": self.in_proj_bias}
        y = x.record(None, LinearAttrs(), params)
        features = self.embed_dim // self.num_heads
        y = y.reshape(*x.shape[:2], 3, self.num_heads, features)
        return y.permute(0, 2, 3, 1, 4)

    def extra_repr(self) -> str:
        """Return the arguments, torch's defaults left out, and the parameters beside `out_proj`."""
        named = changed(self, {"dropout": 0.0, "batch_first": False})
        own = (f"({name}): {param!r}" for name, param in self.__dict__["_parameters"].items())
        return "\n".join([", ".join([f"{self.embed_dim}, {self.num_heads}", *named]), *own])
