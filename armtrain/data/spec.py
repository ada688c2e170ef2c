"""SPEC strings: where data come from; `FORMS` lists them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from armtrain.data.columns import ArrayColumn
from armtrain.data.csv_source import CSV_OPTIONS, open_csv
from armtrain.data.digits import PARTS, open_digits
from armtrain.data.findings import Opening
from armtrain.data.idx import open_idx
from armtrain.data.images import IMAGE_OPTIONS, open_images
from armtrain.data.items import open_generator, open_items
from armtrain.data.manifest import Manifest, read_manifest
from armtrain.data.npz import open_npz, read_about
from armtrain.data.options import Option, parse_options, split_options
from armtrain.data.random import RandomSource, Sampler
from armtrain.data.source import Origin, Source, TableSource
from armtrain.data.wav import WAV_OPTIONS, open_sounds
from armtrain.errors import DataError
from armtrain.limits import MAX_SAMPLES, MAX_UINT64

__all__ = ["FORMS", "OPTIONS", "Data", "Spec", "open_data", "open_table", "parse_spec"]

Data = str | tuple[Any, Any] | NDArray[Any] | list[Any] | Source | Iterable[Any] | Callable[[], Any]
"""What users may pass: a SPEC, arrays (x, y), an array x for predictions, an open source, an object
whose `[i]` gives samples, a generator of samples, or a function that returns one of these."""

_RANDOM_BATCHES = 4
_RANDOM_RANGES = {"samples": (1, MAX_SAMPLES), "seed": (0, MAX_UINT64)}

FORMS: tuple[tuple[str, str], ...] = (
    ("digits[:PART]", f"embedded 8x8 digits, fixed 80/20 split; PART is {', '.join(PARTS)}"),
    ("npz:FILE", "arrays x and y of an npz file; uint8 pixels are divided by 255"),
    ("idx:IMAGES,LABELS", "two IDX files (MNIST's format), gzip or plain"),
    ("csv:FILE?label=COLUMN", "a table, its label a class name or number; or target=COLUMN,..."),
    ("folder:DIR", "images, a subfolder a class (Pillow, extra images)"),
    ("wav:DIR", "WAV files, a subfolder a class"),
    ("manifest:FILE", "data that `armtrain check-data` found good and described in FILE"),
    ("random:[samples=N,seed=S]", f"noise; without samples {_RANDOM_BATCHES} batches"),
)
"""Forms of a SPEC and what they mean."""

OPTIONS: dict[str, Mapping[str, Option]] = {
    "csv": CSV_OPTIONS,
    "folder": IMAGE_OPTIONS,
    "wav": WAV_OPTIONS,
}
"""Options behind the question mark of a SPEC, by its kind."""


@dataclass(frozen=True)
class Spec:
    """A parsed SPEC: `kind`, `paths` of files, `part` of a set, `options` and their `text`."""

    kind: str
    paths: tuple[str, ...] = ()
    part: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    text: str = ""


def parse_spec(text: str) -> Spec:
    """Parse the `text` of a SPEC; raises DataError naming the possible forms.

    Examples
    --------
    >>> parse_spec("idx:images.gz,labels.gz").paths
    ('images.gz', 'labels.gz')
    """
    kind, _, rest = text.partition(":")
    if kind == "digits" and (rest or "train") in PARTS:
        return Spec("digits", part=rest or "train")
    if kind in ("npz", "manifest") and rest:
        return Spec(kind, (rest,))
    if kind == "idx" and rest.count(",") == 1 and all(rest.split(",")):
        return Spec("idx", tuple(rest.split(",")))
    if kind in OPTIONS and rest:
        path, options = split_options(rest)
        if not path:
            raise DataError(f"'{text}' names no file or folder before its options")
        return Spec(kind, (path,), "", parse_options(text, options, OPTIONS[kind]), options)
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


def open_table(spec: Spec, opening: Opening | None = None) -> TableSource:
    """Open data that need no plan to know their shapes (all but `random:`)."""
    opening = opening or Opening()
    if spec.kind == "random":
        raise DataError("random: data have no shape of their own; they exist only under a plan")
    if spec.kind == "manifest":
        return _open_manifest(spec.paths[0], opening)
    return _open_checked(spec, opening, None)


def _open_checked(spec: Spec, opening: Opening, origin: Origin | None) -> TableSource:
    """Open data of any kind that has files."""
    if spec.kind == "digits":
        return open_digits(spec.part)
    if spec.kind == "csv":
        return open_csv(spec.paths[0], spec.options, opening)
    if spec.kind == "folder":
        return open_images(spec.paths[0], spec.options, opening, origin)
    if spec.kind == "wav":
        return open_sounds(spec.paths[0], spec.options, opening, origin)
    notes: list[str] = []
    if spec.kind == "npz":
        x, y = open_npz(spec.paths[0], notes)
        return _alike(TableSource(spec.paths[0], x, y, tuple(notes)), opening)
    images = open_idx(spec.paths[0], notes)
    try:
        labels = open_idx(spec.paths[1], notes)
        return TableSource(",".join(spec.paths), images, labels, tuple(notes))
    except BaseException:
        images.close()
        raise


def _alike(source: TableSource, opening: Opening) -> TableSource:
    """Add what the npz file keeps of its data; refuse another numbering than the training's."""
    like = opening.like
    try:
        source.about = about = read_about(source.name)
        if like is not None and about is not None and about.to_text() != like.to_text():
            raise DataError(
                f"{source.name} was converted with other class names or another preparation than "
                "the training's data: convert it with `armtrain convert-data SPEC --like FILE`, "
                "where FILE is the training's npz file, its manifest or the weights"
            )
    except BaseException:
        source.close()
        raise
    return source


def _open_manifest(path: str, opening: Opening) -> TableSource:
    """Open what a manifest describes, its files compared with it and not checked again."""
    manifest = read_manifest(path)
    manifest.check_files(path)
    options = parse_options(path, manifest.options, OPTIONS.get(manifest.kind, {}))
    if manifest.bad:
        options["bad"] = "skip"
        opening.findings.notes.append(
            f"{path}: {manifest.bad} bad sample(s) are left out, as armtrain check-data said"
        )
    # A validation is told by the training what the classes are; a training by its manifest.
    trained = opening.like
    opening.like = trained or manifest.about
    spec = Spec(manifest.kind, manifest.paths, manifest.part, options)
    origin = _origin(manifest, opening) if manifest.facts else None
    source = _open_checked(spec, opening, origin)
    if source.count != manifest.samples:
        source.close()
        raise DataError(
            f"{path} says {manifest.samples} samples, its data have {source.count}: run armtrain "
            "check-data again"
        )
    source.trusted = True
    source.trusted_labels = manifest.labels if trained is None else ()
    return source


def _origin(manifest: Manifest, opening: Opening) -> Origin:
    """Return the samples of a manifest that have a file each, numbered as the weights know them."""
    names = manifest.about.classes if manifest.about is not None else ()
    like = opening.like_kind(manifest.kind)
    numbers = {name: i for i, name in enumerate(like.classes if like is not None else names)}
    labels = []
    for file in manifest.files:
        name = names[file.label] if 0 <= file.label < len(names) else None
        if opening.targets and name not in numbers:
            raise DataError(
                f"{file.path} has class {name!r}, which is none of {', '.join(list(numbers)[:8])}: "
                "leave its folder out and run armtrain check-data again"
            )
        labels.append(numbers.get(name or "", -1))
    return Origin(tuple(file.path for file in manifest.files), tuple(labels), manifest.facts)


def open_data(
    data: Data, sample: Sampler, batch_size: int, opening: Opening | None = None
) -> Source:
    """Open whatever the user gave as training, validation or prediction data.

    Parameters
    ----------
    data : str, tuple of arrays, array or Source
        A SPEC, (x, y), x alone (an array or a list), an open source, which is passed through, an
        object with `[i]` and `len()`, an iterable, or a function, which is called once.
    sample : callable
        The engine's generator of `random:` samples.
    batch_size : int
        Planned batch; `random:` means four of them.
    opening : Opening, optional
        What a SPEC is opened for.
    """
    if isinstance(data, str):
        spec = parse_spec(data)
        if spec.kind != "random":
            return open_table(spec, opening)
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
        return cast(Source, data)
    made = data() if callable(data) else data
    if made is not data and isinstance(made, str | tuple | np.ndarray):
        return open_data(made, sample, batch_size, opening)
    return _open_code(made)


def _open_code(data: Any) -> Source:
    """Open samples that code makes: an object with `[i]` and `len()`, or a generator."""
    if not isinstance(data, Mapping | Set | bytes | bytearray):
        if hasattr(data, "__len__") and hasattr(data, "__getitem__"):
            return open_items(data)
        if hasattr(data, "__iter__"):
            return open_generator(data)
    raise DataError(
        f"data of type {type(data).__name__} are unknown; give arrays (x, y), an array x alone for "
        "predictions, a SPEC such as 'digits' or 'npz:FILE', an object whose len() and [i] give "
        "samples (x, y), or a generator of them"
    )


def _array(name: str, data: Any) -> NDArray[Any]:
    """Return data as an array."""
    try:
        return np.asarray(data)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} is no array of samples of one shape: {error}") from None
