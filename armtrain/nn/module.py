"""`Module`: a tree of layers with parameters by attribute, as `torch.nn.Module`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Self

from armtrain.errors import ArgumentError, ShapeError
from armtrain.nn.arguments import Rule
from armtrain.nn.parameter import Buffer, Parameter
from armtrain.nn.tensor import Tensor
from armtrain.values import truth

__all__ = ["Module"]


class Module:
    """Base class of layers and networks.

    Assigning a `Parameter`, `Buffer` or `Module` to an attribute registers it under that name.
    Subclasses call `super().__init__()` first and define `forward`, which receives symbolic
    tensors and is traced once.

    Attributes
    ----------
    training : bool
        Whether batch norm and dropout work as in training when a training step is planned; see
        `train` and `eval`. Steps that evaluate or predict always work as in evaluation.
    """

    training: bool
    _rules: ClassVar[Mapping[str, Rule]] = {}  # of arguments, whenever they are set

    def __init__(self) -> None:
        self.__dict__.update(_parameters={}, _buffers={}, _modules={}, training=True)

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute and register it if it is a parameter, buffer or module.

        Raises
        ------
        ArgumentError
            It is an argument of the layer, and the constructor would refuse the value.
        """
        value = self._settled(name, value)
        kind = _registry_of(value)
        if kind and kind not in self.__dict__:
            raise AttributeError(
                f"cannot assign {type(value).__name__} '{name}': call super().__init__() first"
            )
        self._forget(name, kind)
        if kind:
            self.__dict__[kind][name] = value
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        """Delete an attribute and forget what was registered under it."""
        self._forget(name, None)
        object.__delattr__(self, name)

    def _settled(self, name: str, value: object) -> object:
        """Return an attribute's value as the layer keeps it, by the constructor's rule for it."""
        rule = self._rules.get(name)
        return value if rule is None else rule(f"{type(self).__name__}: {name}", value)

    def _set(self, **arguments: object) -> None:
        """Set the arguments of a constructor."""
        for name, value in arguments.items():
            setattr(self, name, value)

    def _forget(self, name: str, keep: str | None) -> None:
        """Drop `name` from every registry but `keep`, where it keeps its place."""
        for registry in ("_parameters", "_buffers", "_modules"):
            if registry != keep and registry in self.__dict__:
                self.__dict__[registry].pop(name, None)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Register `param` as attribute `name`."""
        self._register(name, param, Parameter)

    def register_buffer(self, name: str, tensor: Buffer | None) -> None:
        """Register `tensor` as attribute `name`."""
        self._register(name, tensor, Buffer)

    def register_module(self, name: str, module: Module | None) -> None:
        """Register `module` as attribute `name`."""
        self._register(name, module, Module)

    def _register(self, name: str, member: object, kind: type) -> None:
        """Set attribute `name` to None or a member of a kind."""
        if not isinstance(name, str) or not isinstance(member, kind | None):
            raise ArgumentError(
                f"{type(self).__name__}: a name and a {kind.__name__} or None are registered, got "
                f"{name!r:.80} and {type(member).__name__}"
            )
        setattr(self, name, member)

    add_module = register_module

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Return what the module computes; defined by subclasses."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward()")

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        """Trace `forward` on symbolic tensors."""
        inputs = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]
        if not inputs:
            raise ShapeError(f"{type(self).__name__} was called with {_no_tensors(args)}")
        with inputs[0].recorder.inside(self):
            return self.forward(*args, **kwargs)

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield (attribute name, module) of the modules directly below, each once."""
        seen: set[int] = set()
        for name, module in self.__dict__["_modules"].items():
            if id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def children(self) -> Iterator[Module]:
        """Yield the modules directly below."""
        return (module for _, module in self.named_children())

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Yield (path below `prefix`, module) of this and all below, each once, parents first."""
        yield from self._walk(prefix, set())

    def _walk(self, prefix: str, seen: set[int]) -> Iterator[tuple[str, Module]]:
        """Yield modules depth first, skipping those in `seen`."""
        if id(self) in seen:
            return
        seen.add(id(self))
        yield prefix, self
        for name, module in self.__dict__["_modules"].items():
            yield from module._walk(_join(prefix, name), seen)

    def modules(self) -> Iterator[Module]:
        """Yield this and all modules below."""
        return (module for _, module in self.named_modules())

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """Yield (name behind `prefix`, parameter), each once, in torch's order."""
        return self._members("_parameters", prefix)

    def named_buffers(self, prefix: str = "") -> Iterator[tuple[str, Buffer]]:
        """Yield (name behind `prefix`, buffer), each once, in torch's order."""
        return self._members("_buffers", prefix)

    def _members(self, registry: str, prefix: str) -> Iterator[tuple[str, Any]]:
        """Yield (name, member) of one registry of all modules."""
        seen: set[int] = set()
        for path, module in self.named_modules(prefix):
            for name, member in module.__dict__[registry].items():
                if id(member) not in seen:
                    seen.add(id(member))
                    yield _join(path, name), member

    def parameters(self) -> Iterator[Parameter]:
        """Yield all parameters."""
        return (param for _, param in self.named_parameters())

    def buffers(self) -> Iterator[Buffer]:
        """Yield all buffers."""
        return (buffer for _, buffer in self.named_buffers())

    def train(self, mode: bool = True) -> Self:
        """Set `training` of this and all modules below to `mode`, and return the module."""
        training = truth("train: mode", mode)
        for module in self.modules():
            module.training = training
        return self

    def eval(self) -> Self:
        """Set `training` to False: batch norm keeps its statistics, dropout drops nothing."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set `requires_grad`, whether parameters are updated, and return the module."""
        trained = truth("requires_grad", requires_grad)
        for param in self.parameters():
            param.requires_grad_(trained)
        return self

    def apply(self, fn: Callable[[Module], object]) -> Self:
        """Call `fn` on every module, children first, and return the module."""
        if not callable(fn):
            raise ArgumentError(f"apply needs a function of a module, got {fn!r:.80}")
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def extra_repr(self) -> str:
        """Return the arguments shown by `repr`, in one line or several."""
        return ""

    def __repr__(self) -> str:
        """Return the arguments and the tree of modules, as torch does."""
        extra = self.extra_repr()
        children = [f"({name}): {module!r}" for name, module in self.__dict__["_modules"].items()]
        lines = [line.replace("\n", "\n  ") for line in [*filter(None, [extra]), *children]]
        if not children and "\n" not in extra:
            return f"{type(self).__name__}({extra})"
        return f"{type(self).__name__}(\n  " + "\n  ".join(lines) + "\n)"


def _registry_of(value: object) -> str | None:
    """Return the name of the registry that `value` belongs to."""
    if isinstance(value, Parameter):
        return "_parameters"
    if isinstance(value, Buffer):
        return "_buffers"
    return "_modules" if isinstance(value, Module) else None


def _join(prefix: str, name: str) -> str:
    """Return 'prefix.name', or 'name' without a prefix."""
    return f"{prefix}.{name}" if prefix else name


def _no_tensors(args: tuple[Any, ...]) -> str:
    """Say what a call without a tensor was given and what would work."""
    for given in args:
        if isinstance(given, tuple | list) and any(isinstance(a, Tensor | tuple) for a in given):
            return (
                f"a {type(given).__name__} of {len(given)} values, and takes tensors: choose one "
                "in forward(), as in `output, h_n = self.gru(x)` and `self.fc(h_n[-1])`"
            )
    given = ", ".join(type(a).__name__ for a in args) or "nothing"
    return (
        f"{given}: layers hold no data and only take part in tracing; make a plan with "
        "armtrain.plan and train it with armtrain.Trainer"
    )
