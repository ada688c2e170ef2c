"""What weights must know of the data they were trained on: class names and preparation.

It is kept in the weights' file, as safetensors metadata, and in files that `armtrain convert-data`
writes, so that a prediction numbers the classes and prepares its inputs as the training did. It
depends on the training data and their SPEC alone, never on a plan, and it names no path.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from armtrain.errors import DataError

__all__ = ["About", "is_text"]

_CLASSES, _PREPARATION = "armtrain.classes", "armtrain.preparation"


@dataclass(frozen=True)
class About:
    """Names of the classes, in order of their numbers, and how inputs were prepared.

    Attributes
    ----------
    kind : str
        Kind of the SPEC: 'csv', 'folder', 'wav'.
    classes : tuple of str
        Empty for regression and for labels that are numbers already.
    preparation : mapping
        JSON values; what they mean is the kind's own affair.
    """

    kind: str
    classes: tuple[str, ...] = ()
    preparation: Mapping[str, Any] = field(default_factory=dict)

    def to_metadata(self) -> dict[str, str]:
        """Return texts by name; equal data give equal texts."""
        preparation = {"kind": self.kind, **self.preparation}
        return {_CLASSES: _dump(list(self.classes)), _PREPARATION: _dump(preparation)}

    def to_text(self) -> str:
        """Return the metadata as the text of one JSON object, all ASCII."""
        return _dump(self.to_metadata())

    @staticmethod
    def parse(where: str, text: bytes) -> About | None:
        """Return what `to_text` wrote; raises DataError for anything else."""
        try:
            metadata = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise _unusable(where) from error
        if not isinstance(metadata, dict):
            raise _unusable(where)
        return About.from_metadata(where, metadata)

    @staticmethod
    def from_metadata(where: str, metadata: Mapping[str, str]) -> About | None:
        """Return what `to_metadata` wrote, None when there is nothing of ours.

        Raises
        ------
        DataError
            The texts are none that `to_metadata` writes; `where` names them.
        """
        if _CLASSES not in metadata and _PREPARATION not in metadata:
            return None
        try:
            classes = json.loads(metadata[_CLASSES])
            preparation = json.loads(metadata[_PREPARATION])
            kind = preparation.pop("kind")
        except (KeyError, ValueError, RecursionError, AttributeError, TypeError) as error:
            raise _unusable(where) from error
        if not isinstance(preparation, dict):
            raise _unusable(where)
        texts = isinstance(classes, list) and all(map(is_text, classes))
        if not texts or len(set(classes)) != len(classes) or not isinstance(kind, str):
            raise _unusable(where)
        return About(kind, tuple(classes), preparation)


def is_text(value: object) -> bool:
    """Tell whether a value is a text that UTF-8 can hold, as other readers of metadata expect."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _dump(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _unusable(where: str) -> DataError:
    return DataError(
        f"{where}: its class names and preparation are damaged; save the weights again, or remove "
        "the metadata of the file"
    )
