"""Constructor arguments, shapes of traced layers, refusals with a way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from armtrain import nn, optim
from armtrain.errors import ArgumentError, ShapeError
from armtrain.ir.node_kinds import NodeKind
from armtrain.ir.program import Init, InitKind
from armtrain.nn import functional


class Call(nn.Module):
    """A network made from a function."""

    def __init__(self, function: Callable[[nn.Tensor], Any], *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.function = function

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return self.function(x)  # type: ignore[no-any-return]


def output_shape(net: nn.Module, input_shape: tuple[int, ...], batch: int = 2) -> tuple[int, ...]:
    graph = nn.trace(net, input_shape, batch)
    return graph.nodes[graph.output].shape


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (nn.Conv2d(4, 8, 3), (2, 8, 10, 7)),
        (nn.Conv2d(4, 8, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2)), (2, 8, 6, 7)),
        (nn.Conv2d(4, 8, 3, padding="same", groups=4), (2, 8, 12, 9)),
        (nn.Conv2d(4, 8, 3, padding="valid"), (2, 8, 10, 7)),
        (nn.MaxPool2d(2), (2, 4, 6, 4)),
        (nn.MaxPool2d(3, 2, padding=1, dilation=2), (2, 4, 5, 4)),
        (nn.AvgPool2d((2, 3), padding=(1, 1)), (2, 4, 7, 3)),
        (nn.BatchNorm2d(4), (2, 4, 12, 9)),
        (nn.Flatten(), (2, 432)),
        (nn.Identity(54, unused=1), (2, 4, 12, 9)),
        (nn.Dropout(), (2, 4, 12, 9)),
    ],
)
def test_shapes(layer: nn.Module, expected: tuple[int, ...]) -> None:
    assert output_shape(layer, (4, 12, 9)) == expected


def test_defaults_are_those_of_torch() -> None:
    pool, norm = nn.MaxPool2d(3), nn.BatchNorm2d(2)
    assert pool.stride == (3, 3)
    assert (norm.eps, norm.momentum) == (1e-5, 0.1)
    assert nn.AvgPool2d(2).count_include_pad
    assert nn.Dropout().p == 0.5
    bound = 27**-0.5
    assert nn.Conv2d(3, 4, 3).weight.init == Init(InitKind.UNIFORM, -bound, bound)
    assert nn.Linear(16, 4).weight.init == Init(InitKind.UNIFORM, -0.25, 0.25)
    assert norm.weight is not None
    assert norm.weight.init == Init(InitKind.CONSTANT, 1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.MaxPool2d(2, ceil_mode=None), "ceil_mode needs True or False"),
        (lambda: nn.MaxPool2d(2, return_indices=True), "use False"),
        (lambda: nn.AvgPool2d(2, divisor_override=0), "divisor_override needs an integer from 1"),
        (lambda: nn.MaxPool2d(16), "pool twice"),
        (lambda: nn.MaxPool2d(2, padding=2), r"use at most \(1, 1\)"),
        (lambda: nn.Conv2d(3, 4, 3, groups=2), "groups=2 must divide in_channels=3"),
        (lambda: nn.Conv2d(3, 4, 3, 2, padding="same"), "needs stride 1"),
        (lambda: nn.Conv2d(3, 4, 3, padding_mode="circular"), "use 'zeros'"),
        (lambda: nn.Conv2d(3, 4, 0), "kernel_size needs an integer from 1 to"),
        (lambda: nn.Conv2d(3, 4, 3, stride=(1, 2, 3)), r"pair \(height, width\)"),  # type: ignore[arg-type]
        (lambda: nn.Linear(0, 4), "in_features needs an integer from 1 to"),
        (lambda: nn.Linear(2.0, 4), "in_features needs an integer from 1 to"),  # type: ignore[arg-type]
        (lambda: nn.BatchNorm2d(4, momentum=None), "cumulative"),  # type: ignore[arg-type]
        (lambda: nn.BatchNorm2d(4, eps=-1.0), "eps needs"),
        (lambda: nn.Dropout(1.0), "below 1"),
        (lambda: nn.Dropout("half"), "p needs a finite number from 0 to 1, got 'half'"),  # type: ignore[arg-type]
        (lambda: nn.BatchNorm2d(4, eps=1e-50), "eps: 1e-50 is too small for a float32"),
        (lambda: nn.BatchNorm2d(4, eps=None), "eps needs a finite number"),  # type: ignore[arg-type]
        (lambda: nn.BatchNorm2d(4, momentum="fast"), "momentum needs"),  # type: ignore[arg-type]
        (lambda: nn.Conv2d(3, 4, 3, stride=2**20 + 1), "stride needs an integer from 1 to 1048576"),
        (lambda: nn.Conv2d(3, 4, 3, padding=None), "padding needs an integer from 0"),  # type: ignore[arg-type]
        (lambda: nn.Linear(2**31, 2**31), "in_features needs an integer from 1 to 2147483647"),
        (lambda: nn.Flatten("1"), "start_dim needs an integer"),  # type: ignore[arg-type]
        (lambda: nn.MSELoss(None, None, None), "reduction=None is not available"),  # type: ignore[arg-type]
        (lambda: nn.CrossEntropyLoss(reduction="sum"), "use 'mean'"),
        (lambda: nn.CrossEntropyLoss(label_smoothing=1.1), "label_smoothing needs .* 0 to 1"),
        (lambda: nn.CrossEntropyLoss([1.0, -2.0]), r"weight\[1\] needs a finite number from 0"),
        (lambda: nn.CrossEntropyLoss([0.0, 0.0]), "weight needs a number above 0, all 2 are 0"),
        (lambda: nn.CrossEntropyLoss([]), "weight is empty"),
        (lambda: nn.NLLLoss([1.0, float("nan")]), r"weight\[1\] needs a finite number"),
        (lambda: nn.NLLLoss(ignore_index=2**31), "needs an integer from -2147483648 to 2147483647"),
        (lambda: nn.NLLLoss(ignore_index=-(2**31) - 1), "ignore_index needs an integer from -21"),
        (lambda: nn.CrossEntropyLoss(probabilities=1), "probabilities needs True or False"),  # type: ignore[arg-type]
        (
            lambda: nn.CrossEntropyLoss(ignore_index=2, probabilities=True),
            "ignore_index=2 is a label, and with probabilities=True there are none",
        ),
        (lambda: nn.BCEWithLogitsLoss([1.0]), r"weight=\[1.0\] is not available; use None"),  # type: ignore[arg-type]
        (lambda: nn.BCEWithLogitsLoss(pos_weight="much"), "pos_weight.0. needs a finite number"),
        (lambda: nn.MSELoss(reduction="none"), "use 'mean'"),
        (lambda: nn.MSELoss(False), "size_average=False is not available; use None"),  # type: ignore[arg-type]
        (lambda: nn.MSELoss(None, True), "reduce=True is not available; use None"),  # type: ignore[arg-type]
        (lambda: nn.CrossEntropyLoss(None, False), "size_average=False"),  # type: ignore[arg-type]
        (lambda: nn.CrossEntropyLoss(None, None, 0.5), "ignore_index needs an integer"),  # type: ignore[arg-type]
        (lambda: nn.CrossEntropyLoss(None, None, -100, False), "reduce=False"),  # type: ignore[arg-type]
        (lambda: nn.parse_loss("hinge"), "available are cross_entropy, .*mse"),
        (lambda: nn.parse_loss("mse:beta=1"), "'beta=1' is not an option of mse, .* no options"),
        (lambda: nn.parse_loss("huber:delta"), "'delta' is not an option .* OPTION=VALUE with"),
        (lambda: nn.parse_loss("huber:delta=1,delta=2"), "given twice"),
        (lambda: nn.parse_loss("huber:delta=wide"), "delta needs a finite number .* got 'wide'"),
        (lambda: nn.parse_loss("kl_div:log_target=1"), "log_target needs True or False, got 1"),
        (lambda: nn.HuberLoss(delta=0.0), "delta needs a finite number from 1.17549e-38"),
        (lambda: nn.SmoothL1Loss(beta=-1.0), "beta needs a finite number from 0"),
        (lambda: nn.KLDivLoss(reduction="sum"), "reduction='sum' is not available; use 'mean'"),
        (lambda: nn.KLDivLoss(reduction=np.ones(2)), "is not available"),  # type: ignore[arg-type]
        (lambda: nn.CosineEmbeddingLoss(1.5), "margin needs a finite number from -1 to 1"),
        (lambda: nn.CosineEmbeddingLoss(reduction="sum"), "reduction='sum' is not available"),
        (lambda: nn.KLDivLoss(False, reduction="batchmean"), "size_average=False"),  # type: ignore[arg-type]
    ],
)
def test_unavailable_arguments_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("net", "shape", "message"),
    [
        (nn.Sequential(nn.Linear(5, 2)), (4,), r"layer '0' .*5 features.*\(2, 4\).*Linear\(4, 2\)"),
        (nn.Linear(4, 2), (4, 1, 1), r"put nn.Flatten\(\) before it"),
        (nn.Sequential(nn.Conv2d(3, 4, 3)), (1, 8, 8), r"expects 3 channels.*Conv2d\(1, 4"),
        (nn.Conv2d(3, 4, 9, padding=1), (3, 5, 5), "reaches over 9x9 pixels.*7x7 with padding"),
        (nn.Conv2d(3, 4, 1), (3,), "needs images"),
        (nn.Softmax(0), (4,), r"dim=0 of a value .*use 1 to 1, or -1 .*samples of a batch stay"),
        (nn.Softmax(2), (4,), r"dim=2 of a value of shape \(2, 4\) is not available"),
        (nn.LogSoftmax(-4), (4, 5), r"dim=-1 of a value"),
        (nn.LogSoftmax(), (4, 5), r"dim=0 of a value of shape \(2, 4, 5\).*use 1 to 2"),
        (nn.BatchNorm2d(3), (4, 2, 2), r"write nn.BatchNorm2d\(4\)"),
        (nn.MaxPool2d(4), (1, 3, 3), "smaller kernel"),
        (nn.MaxPool2d(2, 1, padding=1, dilation=2), (1, 7, 1), "use a smaller dilation"),
        (Call(lambda x: x if x else x.relu()), (4,), "decide by the value"),
    ],
)
def test_misfits_are_refused(net: nn.Module, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        nn.trace(net, shape, 2)


def test_batch_norm_of_one_value_is_refused() -> None:
    with pytest.raises(ShapeError, match="batch_size >= 2"):
        nn.trace(nn.BatchNorm2d(4), (4, 1, 1), 1)
    assert output_shape(nn.BatchNorm2d(4).eval(), (4, 1, 1), 1) == (1, 4, 1, 1)


def test_losses_take_torchs_positions() -> None:
    assert nn.MSELoss(None, None, "mean") == nn.MSELoss()
    assert nn.CrossEntropyLoss(None, None, -100, None, "mean", 0.0) == nn.CrossEntropyLoss()
    assert nn.L1Loss(None, None, "mean") == nn.L1Loss()
    assert nn.SmoothL1Loss(None, None, "mean", 1.0) == nn.SmoothL1Loss()
    assert nn.HuberLoss("mean", 1) == nn.HuberLoss()
    assert nn.KLDivLoss(None, None, "mean", False) == nn.KLDivLoss()


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        (nn.MSELoss(), "mse"),
        (nn.L1Loss(), "l1"),
        (nn.SmoothL1Loss(beta=0.1), "smooth_l1:beta=0.1"),
        (nn.HuberLoss(delta=3), "huber:delta=3.0"),
        (nn.KLDivLoss(reduction="batchmean"), "kl_div:reduction=batchmean"),
        (nn.KLDivLoss(log_target=True), "kl_div:log_target=true"),
        (nn.CosineEmbeddingLoss(-0.25), "cosine_embedding:margin=-0.25"),
        (nn.CrossEntropyLoss(label_smoothing=0.1), "cross_entropy:label_smoothing=0.1"),
        (
            nn.CrossEntropyLoss([1, 0.5], ignore_index=1),
            "cross_entropy:weight=1.0/0.5,ignore_index=1",
        ),
        (nn.CrossEntropyLoss(probabilities=True), "cross_entropy:probabilities=true"),
        (nn.NLLLoss(np.array([2.0, 1.0])), "nll:weight=2.0/1.0"),  # type: ignore[arg-type]
        (nn.BCEWithLogitsLoss(pos_weight=3), "bce_with_logits:pos_weight=3.0"),
    ],
)
def test_losses_have_texts(loss: nn.Loss, text: str) -> None:
    assert loss.text == text
    assert nn.parse_loss(text) == loss != nn.CrossEntropyLoss()
    assert hash(nn.parse_loss(text)) == hash(loss)


@pytest.mark.parametrize(
    ("module", "name", "message"),
    [
        (nn, "Hardtanh", "armtrain.nn has no 'Hardtanh'; .*there are .*AvgPool2d, BCEWithLogits"),
        (nn, "Conv2D", "did you mean Conv2d[?] there are"),
        (nn, "Linaer", "did you mean Linear[?]"),
        (nn.functional, "tanhh", "armtrain.nn.functional has no 'tanhh'; did you mean tanh[?]"),
        (optim, "NAdam", "armtrain.optim has no 'NAdam'; did you mean Adam"),
    ],
)
def test_unknown_names_are_told_what_there_is(module: object, name: str, message: str) -> None:
    assert not hasattr(module, name)
    with pytest.raises(AttributeError, match=message):
        getattr(module, name)


def test_unknown_tensor_method_names_what_is_available() -> None:
    with pytest.raises(AttributeError, match="no 'softplus'; available are"):
        nn.trace(Call(lambda x: x.softplus(1)), (4,), 2)  # type: ignore[operator]


@pytest.mark.parametrize("batch", [0, -1, True, 2.5, "3", 2**31, None])
def test_bad_batch_sizes_are_refused(batch: Any) -> None:
    with pytest.raises(ArgumentError, match="batch_size needs an integer from 1 to 2147483647"):
        nn.trace(nn.Identity(), (4,), batch)


@pytest.mark.parametrize("shape", [3, "3", (), (0,), (2.5,), (True,), (2**31,), (1,) * 6, None])
def test_bad_input_shapes_are_refused(shape: Any) -> None:
    with pytest.raises(ArgumentError, match="input_shape needs 1 to 5 integers"):
        nn.trace(nn.Identity(), shape, 2)


def test_numpy_integers_are_integers() -> None:
    net = nn.Sequential(
        nn.Conv2d(np.int64(3), np.int32(4), (np.int64(3), 3), stride=np.uint8(1)),
        nn.BatchNorm2d(np.int64(4), eps=np.float32(1e-5)),
        nn.MaxPool2d(np.int64(2)),
        nn.Flatten(np.int64(1)),
        nn.Linear(np.int64(36), np.int16(2)),
    )
    assert nn.trace(net, np.array([3, 8, 8]), np.int64(2)).nodes[-1].shape == (2, 2)
    dims = [n for p in net.parameters() for n in p.shape]
    assert {type(n) for n in dims} == {int}


def test_functions_record_what_layers_record() -> None:
    def function(x: nn.Tensor) -> nn.Tensor:
        x = functional.max_pool2d(functional.relu(x), 2)
        x = functional.avg_pool2d(functional.tanh(x), 2)
        return functional.flatten(x, 1)

    layers = [nn.ReLU(), nn.MaxPool2d(2), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten()]
    ours = nn.trace(Call(function), (3, 8, 8), 2)
    theirs = nn.trace(nn.Sequential(*layers), (3, 8, 8), 2)
    assert [n.attrs for n in ours.nodes] == [n.attrs for n in theirs.nodes]


F = functional


@pytest.mark.parametrize(
    ("function", "layer"),
    [
        (F.sigmoid, nn.Sigmoid()),
        (nn.Tensor.sigmoid, nn.Sigmoid()),
        (F.relu6, nn.ReLU6()),
        (lambda x: F.leaky_relu(x, 0.2), nn.LeakyReLU(0.2)),
        (lambda x: F.elu(x, alpha=0.5), nn.ELU(0.5)),
        (F.selu, nn.SELU(inplace=True)),
        (F.silu, nn.SiLU()),
        (F.hardswish, nn.Hardswish()),
        (F.hardsigmoid, nn.Hardsigmoid()),
        (F.gelu, nn.GELU()),
        (lambda x: F.gelu(x, approximate="tanh"), nn.GELU("tanh")),
        (F.mish, nn.Mish()),
        (lambda x: F.softplus(x, 2, 10), nn.Softplus(2.0, 10.0)),
        (F.softmax, nn.Softmax()),
        (lambda x: F.log_softmax(x, -1), nn.LogSoftmax(1)),
        (lambda x: x.softmax(1), nn.Softmax(dim=-1)),
        (lambda x: x.log_softmax(-1), nn.LogSoftmax()),
    ],
)
def test_activation_functions_record_what_their_layers_record(
    function: Callable[[nn.Tensor], nn.Tensor], layer: nn.Module
) -> None:
    ours, theirs = nn.trace(Call(function), (3,), 2), nn.trace(layer, (3,), 2)
    assert [n.attrs for n in ours.nodes] == [n.attrs for n in theirs.nodes]
    assert ours.nodes[-1].shape == (2, 3)


_OF_SEVERAL = ("cat", "stack", "scaled_dot_product_attention")


@pytest.mark.parametrize("name", [n for n in functional.__all__ if n not in _OF_SEVERAL])
def test_functions_refuse_arrays(name: str) -> None:
    arguments = (2,) if "pool" in name or name in ("prelu", "cosine_similarity") else ()
    with pytest.raises(ShapeError, match=f"functional.{name} was called with ndarray"):
        getattr(F, name)(np.zeros(3), *arguments)


@pytest.mark.parametrize("name", ["relu6", "leaky_relu", "elu", "selu", "silu", "mish"])
def test_functions_take_true_or_false_for_inplace(name: str) -> None:
    net = Call(lambda x: getattr(F, name)(x, inplace="no"))
    with pytest.raises(ArgumentError, match="inplace needs True or False, got 'no'"):
        nn.trace(net, (3,), 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.LeakyReLU(-0.1), "negative_slope needs a finite number from 0"),
        (lambda: nn.ELU(-1.0), "alpha needs a finite number from 0"),
        (lambda: nn.ELU("x"), "alpha needs"),
        (lambda: nn.GELU("erf"), "use 'none' or 'tanh'"),
        (lambda: nn.Softplus(0), "beta needs"),
        (lambda: nn.Softmax("channels"), "dim needs an integer"),  # type: ignore[arg-type]
        (lambda: nn.LogSoftmax(1.0), "dim needs an integer"),  # type: ignore[arg-type]
        (lambda: nn.Softplus(1.0, float("inf")), "threshold needs"),
    ],
)
def test_arguments_of_activations_are_checked(make: Callable[[], nn.Module], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()


@pytest.mark.parametrize("flat", [lambda x: x.view(-1, 16), lambda x: x.reshape(x.size(0), -1)])
def test_reshape_to_features_is_a_flatten(flat: Callable[[nn.Tensor], nn.Tensor]) -> None:
    assert output_shape(Call(flat), (4, 2, 2)) == (2, 16)


def test_a_layer_called_again_gets_a_number() -> None:
    relu = nn.ReLU()

    def function(x: nn.Tensor) -> nn.Tensor:
        return relu(relu(x) + x) + x

    graph = nn.trace(Call(function, relu), (4,), 2)
    names = [node.name for node in graph.nodes]
    assert names == ["input", "layers.0", "add", "layers.0#2", "add#2"]


def test_adaptive_pooling_is_pooling_by_windows_that_fit() -> None:
    x = (3, 12, 8)
    graphs = [nn.trace(net, x, 2) for net in (nn.AdaptiveAvgPool2d((4, 2)), nn.AvgPool2d((3, 4)))]
    assert [n.attrs for n in graphs[0].nodes] == [n.attrs for n in graphs[1].nodes]
    assert graphs[0].nodes[-1].shape == (2, 3, 4, 2)
    with pytest.raises(ShapeError, match="needs images"):
        nn.trace(nn.AdaptiveAvgPool2d(1), (7,), 2)


@pytest.mark.parametrize("size", [(5, 2), (24, 3), (None, 3), 13])
def test_adaptive_pooling_by_windows_that_do_not_fit_is_resampling(size: Any) -> None:
    graph = nn.trace(nn.AdaptiveAvgPool2d(size), (3, 12, 8), 2)
    rows, columns = size if isinstance(size, tuple) else (size, size)
    assert graph.nodes[-1].shape == (2, 3, rows or 12, columns)
    assert graph.nodes[-1].attrs.kind is NodeKind.RESAMPLE2D


@pytest.mark.parametrize(
    ("layer", "shape", "message"),
    [
        (nn.Conv1d(3, 4, 3), (3, 8, 8), "needs sequences of shape .N, C, L."),
        (nn.Conv2d(3, 4, 3), (3, 8), "needs images of shape .N, C, H, W."),
        (nn.Conv1d(3, 4, 3), (5, 8), "write nn.Conv1d.5, 4, "),
        (nn.Conv1d(3, 4, 9), (3, 8), "the window reaches over 1x9 pixels"),
        (nn.MaxPool1d(2), (3, 8, 8), "needs sequences"),
        (nn.AvgPool1d(2), (3,), "needs sequences"),
        (nn.AdaptiveAvgPool1d(3), (3, 8, 8), "needs sequences"),
        (nn.BatchNorm1d(3), (3, 8, 8), "needs sequences"),
        (nn.BatchNorm2d(3), (3, 8), "needs images"),
        (nn.BatchNorm1d(5), (3, 8), "write nn.BatchNorm1d.3."),
    ],
)
def test_sides_are_refused(layer: nn.Module, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        nn.trace(layer, shape, 2)


def test_layers_of_sequences_have_torch_shapes() -> None:
    conv = nn.Conv1d(4, 6, 3, groups=2, padding="same")
    assert conv.weight.shape == (6, 2, 3)
    assert (conv.kernel_size, conv.stride, conv.padding) == ((3,), (1,), "same")
    net = nn.Sequential(conv, nn.BatchNorm1d(6), nn.MaxPool1d(2), nn.AdaptiveAvgPool1d(1))
    graph = nn.trace(net, (4, 10), 2)
    shapes = [node.shape for node in graph.nodes]
    assert shapes == [(2, 4, 10), (2, 6, 10), (2, 6, 10), (2, 6, 5), (2, 6, 1)]
    with pytest.raises(ArgumentError, match="Conv1d: stride needs an integer from 1"):
        nn.Conv1d(4, 6, 3, stride=(1, 2))


def test_batch_norm_of_one_row_cannot_train() -> None:
    with pytest.raises(ShapeError, match="cannot train on one value per channel"):
        nn.trace(nn.BatchNorm1d(3), (3,), 1)
