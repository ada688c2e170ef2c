"""Tracing: one symbolic call of a network, written down as a graph."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from armtrain.errors import ArgumentError, ShapeError
from armtrain.ir.graph import Attrs, Graph, InputAttrs, Node, NodeKind, Param
from armtrain.ir.shapes import infer_shape
from armtrain.limits import MAX_DIM
from armtrain.nn.input_parts import MOVING, input_elements
from armtrain.nn.module import Module
from armtrain.nn.parameter import Buffer, Parameter
from armtrain.nn.tensor import Tensor
from armtrain.values import as_integer, as_tuple, integer, truth

__all__ = ["trace"]

_LONGEST_SAMPLE = 5
_SAMPLES = (NodeKind.CONV2D, NodeKind.MAXPOOL2D, NodeKind.AVGPOOL2D, NodeKind.BATCHNORM2D)
"""Kinds whose kernels know no rows of a sample."""
_SWITCH = 2
"""Rows of a table whose indices, 0 and 1, may as well be a mask."""
_OF_COLUMNS = (NodeKind.EMBEDDING, NodeKind.RESHAPE, NodeKind.FLATTEN)
"""Kinds that take one number a sample without a dimension of its own."""


class _Trace:
    """Appends nodes while `forward` runs."""

    def __init__(self, net: Module, batch_size: int, input_shape: tuple[int, ...]) -> None:
        self.batch = batch_size
        self.nodes: list[Node] = []
        self._paths = {id(module): path for path, module in net.named_modules()}
        members = [*net.named_parameters(), *net.named_buffers()]
        self._names = {id(member): name for name, member in members}
        self._shapes = {name: member.shape for name, member in members}
        self._taken: dict[str, int] = {}
        self._inside: list[str] = []
        self._masks: list[tuple[str, str, int]] = []  # what takes one, the way out, its node
        self.input = self._append("input", InputAttrs(), (), (batch_size, *input_shape), ())

    @contextmanager
    def inside(self, module: object) -> Iterator[None]:
        """Name the operators recorded in the block after `module`."""
        self._inside.append(self._path_of(module))
        try:
            yield
        finally:
            self._inside.pop()

    def _path_of(self, module: object) -> str:
        """Return the name of a module; one without parameters may be made inside `forward`."""
        if id(module) in self._paths:
            return self._paths[id(module)]
        if not isinstance(module, Module) or _has_members(module):
            raise ShapeError(
                f"{type(module).__name__} is called but belongs to no module of the network: "
                "assign it to an attribute in __init__, or put it into an nn.ModuleList"
            )
        outer = self._inside[-1] if self._inside else ""
        word = type(module).__name__.lower()
        return f"{outer}.{word}" if outer else word

    def record(
        self,
        owner: object | None,
        attrs: Attrs,
        inputs: tuple[Tensor, ...],
        params: Mapping[str, Buffer | None],
    ) -> Tensor:
        """Append an operation of the module `owner`, or of the innermost one, for an operator."""
        path = self._inside[-1] if self._inside else ""
        if owner is None or not path:
            word = attrs.kind.value if owner is None else type(owner).__name__.lower()
            path = f"{path}.{word}" if path else word
        present = [(slot, self._named(path, p)) for slot, p in params.items() if p is not None]
        if any(x.recorder is not self for x in inputs):
            raise ShapeError(f"layer '{path}': its input belongs to another network")
        self._check_rows(path, attrs, inputs)
        if any(x.ndim == 1 for x in inputs) and attrs.kind not in _OF_COLUMNS:
            raise ShapeError(
                f"layer '{path}' ({attrs.kind.value}) has an input of shape {(self.batch,)}, one "
                "number a sample, which only an embedding takes; keep the dimension, as x[:, 0:1], "
                "or add one with unsqueeze(1)"
            )
        if attrs.kind == NodeKind.EMBEDDING:
            self._check_indices(path, inputs[0].node)
        shape = infer_shape(
            path, attrs, tuple(x.shape for x in inputs), {s: self._shapes[n] for s, n in present}
        )
        return self._append(path, attrs, tuple(x.node for x in inputs), shape, tuple(present))

    def _check_rows(self, path: str, attrs: Attrs, inputs: tuple[Tensor, ...]) -> None:
        """Refuse layers of images on values whose first dimension is rows of samples."""
        for x in inputs:
            if attrs.kind in _SAMPLES and x.shape[0] != self.batch:
                raise ShapeError(
                    f"layer '{path}' ({attrs.kind.value}) works on {self.batch} samples, its input "
                    f"has shape {x.shape} with {x.shape[0] // self.batch} rows of each; reshape it "
                    "so that the batch is a dimension of its own"
                )

    def _check_indices(self, path: str, source: int) -> None:
        """Refuse indices that are computed: only numbers of the input can be checked as they come.

        Every batch is, before anything is computed.
        """
        node = self.nodes[source]
        while node.kind in MOVING:
            node = self.nodes[node.inputs[0]]
        if node.kind != NodeKind.INPUT:
            raise ShapeError(
                f"layer '{path}' (embedding) takes indices, its input is computed by '{node.name}' "
                f"({node.kind.value}); give it the network's input x or a part of it, as x[:, 0] "
                "or x[:, 1:].reshape(...)"
            )

    def as_mask(self, mask: Tensor, name: str, way: str) -> None:
        """Remember that the innermost layer takes numbers from 0 to 1 as its argument `name`."""
        layer = self._inside[-1] if self._inside else ""
        self._masks.append((f"layer '{layer}': {name}" if layer else name, way, mask.node))

    def check_masks(self) -> None:
        """Refuse masks that are indices of a table, which are no numbers from 0 to 1.

        Raises
        ------
        ShapeError
            Naming the layer and the table.
        """
        tables = [node for node in self.nodes if node.kind == NodeKind.EMBEDDING]
        rows = {node.id: self._shapes[dict(node.params)["weight"]][0] for node in tables}
        taken = [
            (node, set(input_elements(self.nodes, node.inputs[0], self.batch) or ()))
            for node in tables
            if self._masks and rows[node.id] > _SWITCH
        ]
        for what, way, mask in self._masks:
            elements = input_elements(self.nodes, mask, self.batch) or ()
            for table, indices in taken:
                if not indices.isdisjoint(elements):
                    raise ShapeError(
                        f"{what} takes elements of the input that are indices of the embedding "
                        f"'{table.name}', 0 to {rows[table.id] - 1}: {way}; or give the embedding "
                        "the part of the input that holds its indices"
                    )

    def _named(self, path: str, member: Buffer) -> str:
        """Return the name of a parameter or buffer."""
        if id(member) not in self._names:
            raise ShapeError(
                f"layer '{path}' uses {member!r}, which no module of the network has as an "
                "attribute"
            )
        return self._names[id(member)]

    def _append(
        self,
        path: str,
        attrs: Attrs,
        inputs: tuple[int, ...],
        shape: tuple[int, ...],
        params: tuple[tuple[str, str], ...],
    ) -> Tensor:
        """Append a node under a unique name."""
        calls = self._taken.get(path, 0) + 1
        self._taken[path] = calls
        name = path if calls == 1 else f"{path}#{calls}"
        node = Node(len(self.nodes), name, attrs, inputs, shape, params)
        self.nodes.append(node)
        return Tensor(self, node.id, shape)


def _checked_input(input_shape: object) -> tuple[int, ...]:
    """Return the shape of one sample."""
    given = as_tuple(input_shape) or ()
    shape = tuple(n for n in map(as_integer, given) if n is not None and 1 <= n <= MAX_DIM)
    if not 1 <= len(given) <= _LONGEST_SAMPLE or len(shape) != len(given):
        raise ArgumentError(
            f"input_shape needs 1 to {_LONGEST_SAMPLE} integers from 1 to {MAX_DIM}, the shape of "
            f"one sample without the batch, such as (3, 32, 32); got {input_shape!r}"
        )
    return shape


def _params(net: Module) -> tuple[Param, ...]:
    """Return parameters and buffers module by module, as torch's state dict orders them."""
    trained = {
        id(p): truth(f"{name}: requires_grad", p.requires_grad)
        for name, p in net.named_parameters()
    }
    named: dict[str, Buffer] = dict([*net.named_parameters(), *net.named_buffers()])
    params = []
    for path, module in net.named_modules():
        for name in (*module.__dict__["_parameters"], *module.__dict__["_buffers"]):
            full = f"{path}.{name}" if path else name
            member = named.get(full)
            if member is not None:
                buffer = not isinstance(member, Parameter)
                is_trained = trained.get(id(member), False)
                params.append(Param(full, member.shape, is_trained, buffer, member.init))
    return tuple(params)


def trace(net: Module, input_shape: Sequence[int], batch_size: int) -> Graph:
    """Return the forward graph of `net`.

    Parameters
    ----------
    net : Module
    input_shape : sequence of int
        Shape of one sample, without the batch: (C, H, W) for images.
    batch_size : int
        Planned samples per batch.

    Raises
    ------
    ShapeError
        Layers do not fit together, with the layer's name and the shapes, or lie too deep inside
        each other.

    Examples
    --------
    >>> from armtrain import nn
    >>> nn.trace(nn.Linear(4, 2), (4,), 8).nodes[-1].shape
    (8, 2)
    """
    if not isinstance(net, Module):
        raise ArgumentError(
            f"a network is an armtrain.nn.Module, got {type(net).__name__}; port a torch model by "
            "changing its imports to armtrain.nn"
        )
    if type(net).forward is Module.forward:
        raise ShapeError(
            f"{type(net).__name__} does not define forward(self, x), which computes its output"
        )
    shape = _checked_input(input_shape)
    batch = integer("batch_size", batch_size, 1, MAX_DIM)
    try:
        return _traced(net, shape, batch)
    except RecursionError as error:
        raise ShapeError(
            f"calls below {type(net).__name__} nest deeper than Python's limit of "
            f"{sys.getrecursionlimit()}: no forward() may call its own module without end, and "
            "modules that lie inside each other are better listed in one nn.Sequential; "
            "sys.setrecursionlimit raises the limit"
        ) from error


def _traced(net: Module, shape: tuple[int, ...], batch: int) -> Graph:
    """Call the network on a symbolic batch and return what was recorded."""
    recording = _Trace(net, batch, shape)
    output = net(recording.input)
    recording.check_masks()
    if not isinstance(output, Tensor):
        raise ShapeError(
            f"forward() must return one tensor, got {type(output).__name__}; return the logits"
        )
    if output.ndim == 1:
        raise ShapeError(
            f"forward() returns a value of shape {output.shape}; give each sample a dimension of "
            "its own, as .unsqueeze(1)"
        )
    if output.shape[0] != batch:
        raise ShapeError(
            f"forward() returns a value of shape {output.shape}, {output.shape[0] // batch} rows "
            f"of each of {batch} samples; reshape it to ({batch}, ...), the batch first"
        )
    return Graph(tuple(recording.nodes), _params(net), output.node, batch)


def _has_members(module: Module) -> bool:
    """Tell whether a module has parameters or buffers."""
    return any(True for _ in (*module.named_parameters(), *module.named_buffers()))
