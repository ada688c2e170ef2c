"""`folder:DIR`: images in one subfolder a class, read with Pillow (extra `images`).

Each image is decoded when its batch is read; nothing is kept. Opening decodes every image once,
so that a bad file is refused by name before the first step; a manifest saves that. The rules:
the camera's orientation (EXIF) is applied; transparent pixels lie on white; colours become grey
by Pillow's weights (ITU-R 601-2) and grey becomes three equal channels; 16-bit grey keeps its
levels, divided by 65535; all other values are divided by 255.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtrain.data.about import About
from armtrain.data.columns import ArrayColumn, Rows
from armtrain.data.findings import Opening
from armtrain.data.image_files import MAX_PIXELS, Decoder, Picture
from armtrain.data.options import Option, choice, whole
from armtrain.data.sample_folders import Listing, list_folder
from armtrain.data.source import Origin, TableSource
from armtrain.errors import DataError, StorageError

__all__ = ["IMAGE_OPTIONS", "open_images"]

_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm")
_MAX_SIDE = 4096
_PIXEL_BYTES = 12
"""A picture of three or four bytes a pixel, its copy upright or on white, and Pillow's own."""
_WAY = "repair or remove the files, or leave them out with bad=skip"


def _size(text: str) -> tuple[int, int]:
    """Parse 'HEIGHTxWIDTH'."""
    height, _, width = text.partition("x")
    side = whole(1, _MAX_SIDE)
    try:
        return side(height), side(width or height)
    except ValueError:
        raise ValueError(f"HEIGHTxWIDTH, each from 1 to {_MAX_SIDE}") from None


IMAGE_OPTIONS = {
    "size": Option(_size, "HEIGHTxWIDTH of all samples; by default the plan's"),
    "channels": Option(choice("1", "3"), "grey or colour; by default the plan's"),
    "fit": Option(choice("stretch", "crop", "pad"), "what becomes of other proportions"),
    "range": Option(choice("unit", "signed"), "values in [0, 1] or [-1, 1]"),
    "bad": Option(choice("refuse", "skip"), "skip leaves out files that cannot be decoded"),
}
"""Options of the SPEC."""
_KIND = "folder"


@dataclass(frozen=True)
class _Rules:
    """How every image becomes one sample; `size` and `channels` are None until they are known.

    Attributes
    ----------
    size : tuple of int or None
        Height and width.
    channels : int or None
    fit : str
        'stretch', 'crop' (the middle) or 'pad' (with black), where the proportions differ.
    range : str
        'unit' for values in [0, 1], 'signed' for [-1, 1].
    """

    size: tuple[int, int] | None
    channels: int | None
    fit: str
    range: str


def open_images(
    root: str, options: Mapping[str, Any], opening: Opening, origin: Origin | None = None
) -> TableSource:
    """Open a folder of images.

    Parameters
    ----------
    root : str
    options : mapping
        Parsed by `IMAGE_OPTIONS`.
    opening : Opening
    origin : Origin, optional
        Of a manifest: the good files and what was found in them; nothing is decoded before use.

    Raises
    ------
    DataError
        Pillow is missing, there are no classes, or files cannot be decoded (they are named).
    """
    decoder = Decoder()
    rules = _rules(root, options, opening, origin)
    if origin is not None:
        like = opening.like_kind(_KIND)
        listing = Listing(origin.paths, origin.labels, like.classes if like else ())
        deep, pixels = bool(origin.facts.get("deep")), _pixels(origin.facts)
    else:
        listing = list_folder(root, _SUFFIXES, opening, _KIND)
        rules, listing, deep, pixels = _check_all(decoder, listing, rules, opening)
        opening.findings.settle(root, skip=options.get("bad") == "skip", way=_WAY)
        opening.findings.settle_notes(root)
    if not listing.paths or rules.size is None or rules.channels is None:
        raise DataError(f"{root} holds no image that can be used")
    preparation = {
        "size": list(rules.size),
        "channels": rules.channels,
        "fit": rules.fit,
        "range": rules.range,
    }
    x = _Images(root, listing, rules, decoder, deep)
    labels = np.array(listing.labels, np.int32) if listing.has_labels else None
    source = TableSource(
        root,
        x,
        None if labels is None else ArrayColumn(f"{root}:classes", labels),
        tuple(opening.findings.notes),
        about=About(_KIND, listing.classes, preparation),
        origin=Origin(
            listing.paths, listing.labels, {**preparation, "deep": deep, "pixels": pixels}
        ),
    )
    source.sample_bytes = pixels * _PIXEL_BYTES
    return source


def _pixels(facts: Mapping[str, Any]) -> int:
    """Return the pixels of the largest image of a manifest."""
    pixels = facts.get("pixels")
    return pixels if isinstance(pixels, int) and 0 <= pixels <= MAX_PIXELS else MAX_PIXELS


def _rules(
    root: str, options: Mapping[str, Any], opening: Opening, origin: Origin | None
) -> _Rules:
    """Return what the SPEC, the weights, a manifest or the plan say, in this order.

    Raises
    ------
    DataError
        The SPEC contradicts what the weights were trained on, or that is damaged.
    """
    given: dict[str, Any] = {
        "size": options.get("size"),
        "channels": int(options["channels"]) if "channels" in options else None,
        "fit": options.get("fit"),
        "range": options.get("range"),
    }
    like = opening.like_kind(_KIND)
    for known, must_agree in (
        (like.preparation if like is not None else {}, True),
        (origin.facts if origin is not None else {}, False),
    ):
        for key, value in _checked(root, known).items():
            if must_agree and given[key] not in (None, value):
                raise DataError(
                    f"{root}: {key}={given[key]} is asked for, the weights were trained with "
                    f"{key}={value}: leave the option out"
                )
            given[key] = given[key] if given[key] is not None else value
    if len(opening.wanted) == 3 and opening.wanted[0] in (1, 3):
        given["channels"] = given["channels"] or opening.wanted[0]
        given["size"] = given["size"] or opening.wanted[1:]
    return _Rules(
        given["size"], given["channels"], given["fit"] or "stretch", given["range"] or "unit"
    )


def _checked(root: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return preparation from a file, which anybody may have written, in the options' types."""
    if not known:
        return {}
    try:
        height, width = known["size"]
        values = {
            "size": _size(f"{height}x{width}"),
            "channels": int(IMAGE_OPTIONS["channels"].parse(str(known["channels"]))),
            "fit": IMAGE_OPTIONS["fit"].parse(known["fit"]),
            "range": IMAGE_OPTIONS["range"].parse(known["range"]),
        }
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{root}: the stored preparation of images is damaged ({error}); save the weights, or "
            "write the manifest, again"
        ) from error
    return values


def _check_all(
    decoder: Decoder, listing: Listing, rules: _Rules, opening: Opening
) -> tuple[_Rules, Listing, bool, int]:
    """Decode every image once.

    Returns
    -------
    rules : _Rules
        Complete.
    listing : Listing
        The good files.
    deep : bool
        One of them has 16 bits.
    pixels : int
        Of the largest one.
    """
    findings = opening.findings
    good: list[int] = []
    deep = False
    colours = pixels = 0
    size = rules.size
    for place, path in enumerate(listing.paths):
        picture = _decoded(decoder, path)
        if isinstance(picture, str):
            findings.bad(path, picture)
            continue
        size = size or picture.size
        if rules.size is None and picture.size != size:
            findings.bad(
                path,
                f"{picture.size[0]}x{picture.size[1]} pixels (height x width), the first image has "
                f"{size[0]}x{size[1]}; size=HEIGHTxWIDTH makes them equal",
            )
            continue
        good.append(place)
        deep |= picture.deep
        pixels = max(pixels, picture.size[0] * picture.size[1])
        colours += picture.colour
        for what in (*picture.conversions, *_resized(picture, size)):
            findings.conversions[what] += 1
    channels = rules.channels or (3 if colours else 1)
    changed = colours if channels == 1 else len(good) - colours
    if changed:
        findings.conversions["colour to grey" if channels == 1 else "grey to three channels"] = (
            changed
        )
    return replace(rules, size=size, channels=channels), listing.only(good), deep, pixels


def _decoded(decoder: Decoder, path: str) -> Picture | str:
    """Return a picture or the reason why there is none, also for a file that cannot be read."""
    try:
        return decoder.decode(path)
    except StorageError as error:
        return str(error)


def _resized(picture: Picture, size: tuple[int, int]) -> tuple[str, ...]:
    """Name the change of a picture's size, if there is one."""
    return () if picture.size == size else (f"resized to {size[0]}x{size[1]}",)


class _Images:
    """A column that decodes images when they are read, shape (channels, height, width)."""

    def __init__(
        self, root: str, listing: Listing, rules: _Rules, decoder: Decoder, deep: bool
    ) -> None:
        assert rules.size is not None
        assert rules.channels is not None
        self.name = root
        self.count = len(listing.paths)
        self.row_shape: tuple[int, ...] = (rules.channels, *rules.size)
        floats = deep or rules.range == "signed"
        self.dtype: np.dtype[Any] = np.dtype(np.float32 if floats else np.uint8)
        self._paths = listing.paths
        self._rules = rules
        self._decoder = decoder

    def read(self, rows: Rows, out: NDArray[Any]) -> None:
        """Decode the images `rows`."""
        channels, *size = self.row_shape
        for i, row in enumerate(rows.tolist()):
            path = self._paths[row]
            picture = self._decoder.decode(path)
            if isinstance(picture, str):
                raise DataError(f"{path} became unusable since it was checked: {picture}")
            values = picture.values((size[0], size[1]), channels, self._rules.fit)
            if self.dtype == np.uint8:
                out[i] = values
                continue
            # One rounding: the differences are exact, also of 16-bit values.
            largest = np.float32(picture.largest)
            if self._rules.range == "signed":
                half = largest / np.float32(2)
                np.divide(values.astype(np.float32) - half, half, out=out[i])
            else:
                np.divide(values, largest, out=out[i], dtype=np.float32)

    def close(self) -> None:
        """Do nothing: no file stays open."""
