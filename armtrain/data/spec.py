"""SPEC strings: where data come from; `FORMS` lists them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtrain.data.columns import ArrayColumn
from armtrain.data.digits import PARTS, open_digits
from armtrain.data.idx import open_idx
from armtrain.data.npz import open_npz
from armtrain.data.random import RandomSource, Sampler
from armtrain.data.source import Source, TableSource
from armtrain.errors import DataError
from armtrain.limits import MAX_SAMPLES, MAX_UINT64

__all__ = ["FORMS", "Data", "Spec", "open_data", "open_table", "parse_spec"]

Data = str | tuple[Any, Any] | NDArray[Any] | list[Any] | Source
"""What users may pass: a SPEC, arrays (x, y), an array x for predictions, or an open source."""

_RANDOM_BATCHES = 4
_RANDOM_RANGES = {"samples": (1, MAX_SAMPLES), "seed": (0, MAX_UINT64)}

FORMS: tuple[tuple[str, str], ...] = (
    ("digits[:PART]", f"embedded 8x8 digits, fixed 80/20 split; PART is {', '.join(PARTS)}"),
    ("npz:FILE", "arrays x and y of an npz file; uint8 pixels are divided by 255"),
    ("idx:IMAGES,LABELS", "two IDX files (MNIST's format), gzip or plain"),
    ("random:[samples=N,seed=S]", f"noise; without samples {_RANDOM_BATCHES} batches"),
)
"""Forms of a SPEC and what they mean."""


@dataclass(frozen=True)
class Spec:
    """A parsed SPEC: `kind`, `paths` of files, `options`."""

    kind: str
    paths: tuple[str, ...] = ()
    part: str = ""
    options: dict[str, int] = field(default_factory=dict)


def parse_spec(text: str) -> Spec:
    """Parse a SPEC string; raises DataError naming the possible forms.

    Examples
    --------
    >>> parse_spec("idx:images.gz,labels.gz").paths
    ('images.gz', 'labels.gz')
    """
    kind, _, rest = text.partition(":")
    if kind == "digits" and (rest or "train") in PARTS:
        return Spec("digits", part=rest or "train")
    if kind == "npz" and rest:
        return Spec("npz", (rest,))
    if kind == "idx" and rest.count(",") == 1 and all(rest.split(",")):
        return Spec("idx", tuple(rest.split(",")))
    if kind == "random":
        return Spec("random", options=_random_options(text, rest))
    if kind == "digits":
        raise DataError(f"'{text}': the parts of digits are {', '.join(PARTS)}")
    forms = ", ".join(form for form, _ in FORMS)
    raise DataError(f"'{text}' names no data; possible are {forms}")


def _random_options(text: str, rest: str) -> dict[str, int]:
    """Parse 'samples=48,seed=3'."""
    options: dict[str, int] = {}
    for word in rest.split(",") if rest else ():
        key, _, value = word.partition("=")
        smallest, largest = _RANDOM_RANGES.get(key, (1, 0))
        decimal = value.isdecimal() and len(value) <= len(str(MAX_UINT64))
        if not decimal or not smallest <= int(value) <= largest or key in options:
            raise DataError(
                f"'{text}': options of random are samples=N (1 to {MAX_SAMPLES}) and seed=S (0 to "
                f"{MAX_UINT64}), as in random:samples=48,seed=3"
            )
        options[key] = int(value)
    return options


def open_table(spec: Spec) -> TableSource:
    """Open data that need no plan to know their shapes (all but `random:`)."""
    if spec.kind == "digits":
        return open_digits(spec.part)
    notes: list[str] = []
    if spec.kind == "npz":
        x, y = open_npz(spec.paths[0], notes)
        return TableSource(spec.paths[0], x, y, tuple(notes))
    if spec.kind == "idx":
        images = open_idx(spec.paths[0], notes)
        try:
            labels = open_idx(spec.paths[1], notes)
            return TableSource(",".join(spec.paths), images, labels, tuple(notes))
        except BaseException:
            images.close()
            raise
    raise DataError("random: data have no shape of their own; they exist only under a plan")


def open_data(data: Data, sample: Sampler, batch_size: int) -> Source:
    """Open whatever the user gave as training, validation or prediction data.

    Parameters
    ----------
    data : str, tuple of arrays, array or Source
        A SPEC, (x, y), x alone (an array or a list), or an open source, which is passed through.
    sample : callable
        The engine's generator of `random:` samples.
    batch_size : int
        Planned batch; `random:` means four of them.
    """
    if isinstance(data, str):
        spec = parse_spec(data)
        if spec.kind != "random":
            return open_table(spec)
        count = spec.options.get("samples", _RANDOM_BATCHES * batch_size)
        return RandomSource(sample, count, spec.options.get("seed", 0))
    if isinstance(data, tuple):
        if len(data) != 2:
            raise DataError(f"data are a pair of arrays (x, y), {len(data)} were given")
        x, y = _array("x", data[0]), _array("y", data[1])
        return TableSource("arrays", ArrayColumn("x", x), ArrayColumn("y", y))
    if isinstance(data, list) or hasattr(data, "__array__"):
        return TableSource("x alone", ArrayColumn("x", _array("x", data)), None)
    if hasattr(data, "read") and hasattr(data, "check"):
        return data
    raise DataError(
        f"data of type {type(data).__name__} are unknown; give arrays (x, y), an array x alone for "
        "predictions, or a SPEC such as 'digits' or 'npz:FILE'"
    )


def _array(name: str, data: Any) -> NDArray[Any]:
    """Return data as an array."""
    try:
        return np.asarray(data)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} is no array of samples of one shape: {error}") from None
