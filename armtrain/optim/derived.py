"""Users' subclasses of optimisers and schedules: they may choose values, and nothing else.

A plan holds values, and the engine's own code computes; a method of a subclass is never called.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from typing import Any

from armtrain.errors import ArgumentError
from armtrain.values import known_kind

__all__ = ["plain"]


def plain(value: Any, kinds: Collection[type[Any]], where: str) -> Any:
    """Return an instance of a subclass as one of the class itself.

    Parameters
    ----------
    value : object
    kinds : collection of type
        The dataclasses that are known.
    where : str
        What the names of `kinds` follow, for the message: 'optim'.

    Returns
    -------
    object or None
        None: it is an instance of none of them.

    Raises
    ------
    ArgumentError
        The subclass defines something that would have no effect.
    """
    kind, owners = known_kind(value, kinds)
    if kind is None or not owners:
        return None if kind is None else value
    values = [f.name for f in fields(kind)]
    for owner in owners:
        for name in _additions(owner, values):
            title = f"{where}.{kind.__name__}"
            raise ArgumentError(
                f"{owner.__name__}, a subclass of {title}, defines '{name}', which would have no "
                f"effect: plans hold the values of {title} ({', '.join(values)}) and no code; "
                f"pass {title}(...) itself, or leave '{name}' out. Rates that change during the "
                "training go to fit(schedule=...)"
            )
    return kind(**{name: getattr(value, name) for name in values})


def _additions(owner: type, values: Collection[str]) -> list[str]:
    """Return the public names of a class, without other defaults of known values."""
    decorated = "__dataclass_fields__" in vars(owner)
    fresh = [f.name for f in fields(owner)] if decorated else []
    known = values if decorated else ()
    public = (name for name in (*vars(owner), *fresh) if not name.startswith("_"))
    return [name for name in public if name not in known]
