"""Data for a plan: opened as the weights know them, and checked."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from armtrain.data import Expected, Source, open_data
from armtrain.data.about import About
from armtrain.data.findings import Opening
from armtrain.data.source import Origin
from armtrain.data.spec import Data
from armtrain.errors import StorageError
from armtrain.io.safetensors import read_metadata

if TYPE_CHECKING:
    from armtrain._engine import Engine

__all__ = ["Opener", "about_of_source", "about_of_weights", "files_of", "opener"]


Opener = Callable[[Data, bool, About | None], Source]
"""opener(data, targets, like): open data and refuse what does not suit the plan."""


def opener(engine: Engine, batch_size: int, expected: Expected) -> Opener:
    """Return the function that opens data for a plan.

    Its `like` are class names and preparation to reuse, None for data that set their own.
    """

    def opened(data: Data, targets: bool, like: About | None) -> Source:
        opening = Opening(targets, like, expected.input_shape)
        source = open_data(data, engine.random_sample, batch_size, opening)
        try:
            source.check(expected, targets=targets)
        except BaseException:
            source.close()
            raise
        return source

    return opened


def about_of_source(source: Source) -> About | None:
    """Return class names and preparation of data; sources of users' own have none."""
    about = getattr(source, "about", None)
    return about if isinstance(about, About) else None


def files_of(source: Source) -> tuple[str, ...]:
    """Return the file of each sample, empty where samples have none of their own."""
    origin = getattr(source, "origin", None)
    return origin.paths if isinstance(origin, Origin) else ()


def about_of_weights(path: str | os.PathLike[str]) -> About | None:
    """Return what the file of weights keeps of its training's data.

    None for a file that cannot be read: the engine, which loads it next, says why.

    Raises
    ------
    DataError
        What it keeps is damaged.
    """
    try:
        metadata = read_metadata(path)
    except StorageError:
        return None
    return About.from_metadata(os.fspath(path), metadata)
