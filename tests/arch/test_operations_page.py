"""docs/operations.md says what is known by hand; test_sources compares it with its generator."""

from __future__ import annotations

import pytest

from armtrain.ir.ops import OPS
from tests.arch import sources


def rows() -> dict[str, list[str]]:
    """Return the cells of every operation by its name."""
    text = sources.text(sources.Path("docs/operations.md"))
    cells = [[c.strip() for c in line.split("|")[1:-1]] for line in text.splitlines()]
    return {row[1].strip("`"): row for row in cells if len(row) == 9 and row[0].isdecimal()}


def test_every_operation_has_a_row() -> None:
    assert {name: row[0] for name, row in rows().items()} == {
        code.name.lower(): str(code.value) for code in OPS
    }


@pytest.mark.parametrize(
    ("name", "gradient"),
    [
        ("linear_fwd", "`linear_grad_w`, `linear_grad_x`: x, w"),
        ("maxpool2d_fwd", "`maxpool2d_grad`: idx"),
        ("avgpool2d_fwd", "`avgpool2d_grad`"),
        ("relu_fwd", "`relu_grad`: y"),
        ("gelu_fwd", "`gelu_grad`: x"),
        ("layernorm_fwd", "`layernorm_grad`: x, gamma, row_mean, row_invstd"),
        ("slice", "`place`"),
        ("matmul", "`matmul`: x, z"),
        ("add", ""),
        ("sgd_step", ""),
    ],
)
def test_gradients_read_what_the_formula_needs(name: str, gradient: str) -> None:
    assert rows()[name][5] == gradient


@pytest.mark.parametrize(
    ("name", "kernels"),
    [("conv2d_grad_w", "product"), ("tanh_grad", "vector"), ("softmax_fwd", "vector"),
     ("copy", ""), ("permute", "")],
)  # fmt: skip
def test_kernels_are_those_that_the_source_calls(name: str, kernels: str) -> None:
    assert rows()[name][8] == kernels
