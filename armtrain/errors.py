"""The exception tree of armtrain and the one mapping from C status codes to it.

Every message says what was refused, the numbers, and what would work.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = [
    "ArgumentError",
    "ArmtrainError",
    "DataError",
    "DoesNotFitError",
    "EngineError",
    "NonFiniteError",
    "PlanError",
    "ShapeError",
    "StorageError",
    "error_from_status",
    "unknown_name",
]


class ArmtrainError(Exception):
    """Base of all errors raised on purpose by armtrain; `exit_code` is the command line's."""

    exit_code = 1


class ArgumentError(ArmtrainError, ValueError):
    """An argument is of the wrong kind or out of its range."""

    exit_code = 2


class ShapeError(ArmtrainError):
    """A layer, graph or batch has shapes that do not go together."""


class PlanError(ArmtrainError):
    """A plan file is damaged, inconsistent, or belongs to another model."""


class DoesNotFitError(ArmtrainError):
    """The plan needs more memory than the budget or the machine has."""

    exit_code = 3


class StorageError(ArmtrainError):
    """Reading or writing a file or device failed."""

    exit_code = 4


class DataError(ArmtrainError):
    """Training data or labels are unusable."""


class NonFiniteError(ArmtrainError):
    """A loss, gradient norm or weight stopped being a finite number."""


class EngineError(ArmtrainError):
    """The engine refused a call (wrong CPU, wrong state, defect)."""


# Status groups of kernels/include/art_status.def: the tens digit is the group.
_GROUPS: dict[int, type[ArmtrainError]] = {
    1: PlanError,
    2: DoesNotFitError,
    3: StorageError,
    4: ShapeError,
    5: EngineError,
    6: NonFiniteError,
    7: DataError,
    9: EngineError,
}


def error_from_status(code: int, text: str) -> ArmtrainError:
    """Return the exception for a non-zero C status `code` with the detail `text`."""
    return _GROUPS.get(code // 10, EngineError)(text)


def unknown_name(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """Return the error for a name that a module lacks, with what it has and what is nearest.

    Parameters
    ----------
    module : str
        As users write it.
    name : str
        What they asked for, perhaps a name of torch.
    known : iterable of str
        The module's public names.
    """
    from difflib import get_close_matches

    names = sorted(known)
    by_lower = {n.lower(): n for n in names}
    near = [by_lower[n] for n in get_close_matches(name.lower(), by_lower, 1)]
    hint = f"did you mean {near[0]}? " if near else ""
    return AttributeError(f"{module} has no '{name}'; {hint}there are {', '.join(names)}")
