"""Modules that hold modules in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from armtrain.errors import ArgumentError
from armtrain.nn.module import Module
from armtrain.nn.tensor import Tensor

__all__ = ["ModuleList", "Sequential"]


class _Ordered(Module):
    """Modules under the names '0', '1', ... or those of a mapping."""

    def __len__(self) -> int:
        """Return how many modules there are."""
        return len(self.__dict__["_modules"])

    def __iter__(self) -> Iterator[Module]:
        """Yield the modules in order."""
        return iter(self.__dict__["_modules"].values())

    def _name(self, index: int) -> str:
        """Return the name of the module at `index`."""
        names: list[str] = list(self.__dict__["_modules"])
        return names[index]

    def __getitem__(self, index: int | slice) -> Any:
        """Return one module, or a container of several."""
        if isinstance(index, slice):
            return type(self)._of(list(self)[index])
        return self.__dict__["_modules"][self._name(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        """Replace one module."""
        setattr(self, self._name(index), _checked(module))

    @classmethod
    def _of(cls, modules: list[Module]) -> Self:
        """Return a container of `modules`."""
        container = cls()
        return container.extend(modules)

    def append(self, module: Module) -> Self:
        """Add a module at the end, and return the container."""
        setattr(self, str(len(self)), _checked(module))
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end, and return the container."""
        if not isinstance(modules, Iterable):
            raise ArgumentError(
                f"{type(self).__name__} takes a list of modules, got {type(modules).__name__}"
            )
        for module in modules:
            self.append(module)
        return self


class Sequential(_Ordered):
    """Modules that feed one into the next.

    Parameters
    ----------
    *args : Module, or one mapping of names to modules
    """

    def __init__(self, *args: Module | Mapping[str, Module]) -> None:
        super().__init__()
        for index, arg in enumerate(args):
            if isinstance(arg, Mapping) and len(args) == 1:
                for name, module in arg.items():
                    setattr(self, name, _checked(module))
            else:
                setattr(self, str(index), _checked(arg))

    def forward(self, x: Tensor) -> Tensor:
        """Return the last module's value."""
        for module in self:
            x = module(x)
        return x


class ModuleList(_Ordered):
    """Modules in a list; `forward` of the owner calls them.

    Parameters
    ----------
    modules : iterable of Module, optional
    """

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self.extend(modules)


def _checked(module: object) -> Module:
    """Return `module` if it is one."""
    if not isinstance(module, Module):
        raise TypeError(f"a container holds modules of armtrain.nn, got {type(module).__name__}")
    return module
