"""Where the built-in profiles are: next to the installed package, else in the source tree."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

__all__ = ["NOT_BOARDS", "built_in"]

NOT_BOARDS = frozenset({"cores"})
"""Tables in the folder of profiles that describe no board."""


def built_in() -> Traversable:
    """Return the folder of built-in profiles: of the source tree, else the installed package."""
    source = Path(__file__).resolve().parents[2] / "boards"
    if (source / "generic.toml").is_file():
        return source
    return files("armtrain.boards")
