"""Attention: masks, parameters, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.ir.ops import OpCode
from armtrain.nn import functional
from armtrain.runtime.reference import ReferenceExecutor

RANDOM = np.random.default_rng(0)


class Masked(nn.Module):
    """Self-attention of sequences whose first feature is their mask; shares behind the output."""

    def __init__(self, argument: str | None = "mask", causal: bool = False) -> None:
        super().__init__()
        self.heads = nn.MultiheadAttention(4, 2, batch_first=True)
        self.argument, self.causal = argument, causal

    def forward(self, x: Any) -> Any:
        """Return all there is."""
        counts = x[:, :, 0]
        given = 1.0 - counts if self.argument == "key_padding_mask" else counts
        masks = {self.argument: given} if self.argument else {}
        output, shares = self.heads(
            x, x, x, is_causal=self.causal, average_attn_weights=False, **masks
        )
        return functional.cat([output.flatten(1), shares.flatten(1)], 1)


def planned(net: nn.Module, shape: tuple[int, ...], batch_size: int = 1) -> at.Plan:
    """Return a plan with plain SGD."""
    return at.plan(
        net,
        input_shape=shape,
        batch_size=batch_size,
        loss=nn.MSELoss(),
        optimizer=optim.SGD(lr=0.1),
    )


def outputs(net: Masked, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return outputs (L, 4) and shares (2, L, L) of one sequence."""
    length = x.shape[1]
    values = np.asarray(ReferenceExecutor(planned(net, (length, 4)), seed=7).predict_step(x))[0]
    return values[: 4 * length].reshape(length, 4), values[4 * length :].reshape(2, length, length)


def sequences(*counts: float) -> np.ndarray:
    """Return one sequence whose places count or not."""
    x = RANDOM.normal(size=(1, len(counts), 4)).astype(np.float32)
    x[:, :, 0] = counts
    return x


@pytest.mark.parametrize("argument", ["mask", "key_padding_mask"])
def test_what_a_mask_leaves_out_changes_nothing(argument: str) -> None:
    x = sequences(1, 1, 1, 0, 0)
    alone, _ = outputs(Masked(None), x[:, :3])
    padded, shares = outputs(Masked(argument), x)
    np.testing.assert_allclose(padded[:3], alone, rtol=1e-12)
    assert not shares[:, :, 3:].any()
    np.testing.assert_allclose(shares.sum(axis=2), 1.0, rtol=1e-12)


def test_a_causal_place_sees_no_later_one() -> None:
    x = sequences(1, 1, 1, 1)
    alone, _ = outputs(Masked(None, causal=True), x[:, :2])
    whole, shares = outputs(Masked(None, causal=True), x)
    np.testing.assert_allclose(whole[:2], alone, rtol=1e-12)
    assert not np.triu(shares, 1).any()


def test_where_no_key_counts_there_is_zero_and_no_gradient() -> None:
    """The engine itself; both causes at once: place 0 sees itself alone, and it is padding."""
    plan, x = planned(Masked(causal=True), (3, 4), 2), np.concatenate([sequences(0, 1, 1)] * 2)
    x[1, :, 0] = 0
    trainer = at.Trainer(plan)
    before = trainer.state_dict()
    values = np.asarray(trainer.predict(x))
    shares = values[:, 12:].reshape(2, 2, 3, 3)
    assert not shares[0, :, 0].any()
    assert not shares[1].any()
    assert not np.signbit(shares).any()
    np.testing.assert_array_equal(values[1, :12].reshape(3, 4), [before["heads.out_proj.bias"]] * 3)
    target = np.zeros_like(values)
    target[0] = values[0]  # what the second sample gives alone counts
    trainer.step(x, target)
    after = trainer.state_dict()
    np.testing.assert_array_equal(after["heads.in_proj_weight"], before["heads.in_proj_weight"])
    assert all(np.isfinite(value).all() for value in after.values())


def test_parameters_have_the_names_order_and_start_of_torch() -> None:
    heads = nn.MultiheadAttention(4, 2, batch_first=True)
    shapes = {name: p.shape for name, p in heads.named_parameters()}
    assert list(shapes.items()) == [
        ("in_proj_weight", (12, 4)),
        ("in_proj_bias", (12,)),
        ("out_proj.weight", (4, 4)),
        ("out_proj.bias", (4,)),
    ]
    assert heads.in_proj_weight.init.b == pytest.approx((6 / 16) ** 0.5)
    assert heads.out_proj.weight.init.b == 0.5
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    assert [name for name, _ in layer.named_parameters()] == [
        *(f"self_attn.{name}" for name in shapes),
        *("linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias"),
        *("norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"),
    ]


class Called(nn.Module):
    """A layer called in some way."""

    def __init__(self, call: Any) -> None:
        super().__init__()
        self.heads = nn.MultiheadAttention(4, 2, batch_first=True)
        self.layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
        self.call = call

    def forward(self, x: Any) -> Any:
        """Return what the call gives."""
        return self.call(self, x)


class Plain(nn.Module):
    """Self-attention without masks."""

    def __init__(self, need_weights: bool) -> None:
        super().__init__()
        self.heads = nn.MultiheadAttention(4, 2, batch_first=True)
        self.need_weights = need_weights

    def forward(self, x: Any) -> Any:
        """Return the output alone."""
        return self.heads(x, x, x, need_weights=self.need_weights)[0]


def test_a_tree_shows_arguments_and_all_parts() -> None:
    shown = (
        "MultiheadAttention(",
        "  8, 2, dropout=0.5, batch_first=True",
        "  (in_proj_weight): Parameter(24, 8)",
        "  (in_proj_bias): Parameter(24,)",
        "  (out_proj): Linear(in_features=8, out_features=8, bias=True)",
        ")",
    )
    assert repr(nn.MultiheadAttention(8, 2, 0.5, batch_first=True)).splitlines() == [*shown]
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.5, "gelu", batch_first=True, norm_first=True)
    first, second, *rest = repr(layer).splitlines()
    assert (first, second) == ("TransformerEncoderLayer(", "  activation='gelu', norm_first=True")
    assert rest[:6] == ["  (self_attn): " + shown[0], *(f"  {line}" for line in shown[1:])]
    names = [line[3 : line.index(")")] for line in rest if line.startswith("  (")]
    assert names == [name for name, _ in layer.named_children()]
    plain = nn.TransformerEncoderLayer(8, 2, batch_first=True)
    assert repr(plain).splitlines()[1] == "  (self_attn): MultiheadAttention("


def test_shares_that_nobody_reads_cost_nothing_and_values_are_projected_once() -> None:
    with_shares, without = (
        [step.op for step in planned(Plain(need), (5, 4)).program.steps] for need in (True, False)
    )
    assert with_shares == without
    assert with_shares.count(OpCode.LINEAR_FWD) == 3 * 2
    assert OpCode.MASKED_SOFTMAX_FWD not in with_shares


def test_the_function_refuses_arrays() -> None:
    with pytest.raises(at.ShapeError, match="scaled_dot_product_attention was called with ndarray"):
        functional.scaled_dot_product_attention(*[np.zeros((1, 2, 3))] * 3)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: nn.MultiheadAttention(4, 2), "batch_first=True"),
        (lambda: nn.MultiheadAttention(4, 3, batch_first=True), "num_heads=3 must divide"),
        (lambda: nn.MultiheadAttention(4, 2, kdim=3, batch_first=True), "kdim=3 is not"),
        (lambda: nn.MultiheadAttention(4, 2, add_zero_attn=True, batch_first=True), "add_zero"),
        (lambda: nn.TransformerEncoderLayer(4, 2, activation="elu", batch_first=True), "'relu' or"),
        (lambda: nn.TransformerEncoderLayer(4, 2), "batch_first=True"),
    ],
)
def test_arguments_are_refused(build: Any, words: str) -> None:
    with pytest.raises(at.ArgumentError, match=words):
        build()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda net, x: net.heads(x[:, 0], x, x), r"shape \(N, L, 4\)"),
        (lambda net, x: net.heads(x, x, x[:, :2]), "do not fit"),
        (lambda net, x: net.heads(x, x, x, mask=x), "mask of shape"),
        (lambda net, x: net.heads(x, x, x, mask=[1, 0]), "a mask is a value of the network"),
        (lambda net, x: net.heads(x, x, x, x[:, :, 0], mask=x[:, :, 0]), "give one of them"),
        (lambda net, x: net.heads(x, x, x, attn_mask=x), "is_causal=True hides"),
        (lambda net, x: net.layer(x, x), "src_mask is not available"),
        (lambda net, x: functional.scaled_dot_product_attention(x, x, x, x), "attn_mask is not"),
        (lambda net, x: functional.scaled_dot_product_attention(x, x[..., :2], x), "do not fit"),
        (lambda net, x: functional.scaled_dot_product_attention(x, x, x, scale=1e38), "scale"),
    ],
)
def test_values_are_refused(call: Any, words: str) -> None:
    with pytest.raises((at.ShapeError, at.ArgumentError), match=words):
        nn.trace(Called(call), (5, 4), 2)
