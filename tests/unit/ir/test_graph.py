"""Graph text and graph verifier."""

from __future__ import annotations

from dataclasses import replace

import pytest

from armtrain import nn
from armtrain.errors import ShapeError
from armtrain.ir.check_graph import verify_graph
from armtrain.ir.graph import Graph, ReluAttrs
from armtrain.ir.text import graph_text


def small() -> Graph:
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1),
        nn.BatchNorm2d(2),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(8, 3, bias=False),
    )
    net[0].bias.requires_grad_(False)
    return nn.trace(net, (1, 4, 4), 8)


EXPECTED = """\
armtrain graph 1
batch 8
trained 0.weight [2,1,3,3]
frozen 0.bias [2]
trained 1.weight [2]
trained 1.bias [2]
buffer 1.running_mean [2]
buffer 1.running_var [2]
trained 5.weight [3,8]
%0 = input() -> [8,1,4,4] # input
%1 = conv2d(%0) stride=1x1 padding=1x1 dilation=1x1 groups=1 sides=2 over=0x0 weight=0.weight \
bias=0.bias -> [8,2,4,4] # 0
%2 = batchnorm2d(%1) eps=1e-05 momentum=0.1 training=yes sides=2 weight=1.weight bias=1.bias \
running_mean=1.running_mean running_var=1.running_var -> [8,2,4,4] # 1
%3 = maxpool2d(%2) kernel=2x2 stride=2x2 padding=0x0 dilation=1x1 sides=2 ceil=no -> [8,2,2,2] # 2
%4 = flatten(%3) -> [8,8] # 3
%5 = dropout(%4) p=0.25 training=yes -> [8,8] # 4
%6 = linear(%5) weight=5.weight -> [8,3] # 5
output %6
"""


def test_text() -> None:
    assert graph_text(small()) == EXPECTED


def test_good_graph_passes() -> None:
    verify_graph(small())


def broken(graph: Graph, node_id: int, **changes: object) -> Graph:
    nodes = list(graph.nodes)
    nodes[node_id] = replace(nodes[node_id], **changes)  # type: ignore[arg-type]
    return replace(graph, nodes=tuple(nodes))


@pytest.mark.parametrize(
    ("node", "changes", "message"),
    [
        (3, {"inputs": (5,)}, "reads a later node"),
        (3, {"shape": (8, 2, 3, 3)}, "inferred"),
        (3, {"name": "0"}, "one name"),
        (6, {"params": ()}, "has the parameters"),
        (6, {"params": (("weight", "nothing"),)}, "unknown parameter"),
        (2, {"attrs": ReluAttrs()}, "has the parameters"),
    ],
)
def test_broken_graphs_are_refused(node: int, changes: dict[str, object], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        verify_graph(broken(small(), node, **changes))


def test_missing_output_is_refused() -> None:
    with pytest.raises(ShapeError, match="output 9"):
        verify_graph(replace(small(), output=9))
