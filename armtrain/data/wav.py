"""`wav:DIR`: sounds in one subfolder a class, one WAV file a sample, as (1, length) numbers.

Files are read when their batch is; nothing is kept but their names. All have one rate, which is
not changed, since a network that hears another rate hears other words; their length is made
equal by cutting or by silence.
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
from armtrain.data.options import Option, choice, whole
from armtrain.data.sample_folders import Listing, list_folder
from armtrain.data.source import Origin, TableSource
from armtrain.data.wav_files import Sound, read_header, read_sound
from armtrain.errors import DataError, StorageError
from armtrain.files import open_regular

__all__ = ["WAV_OPTIONS", "open_sounds"]

_KIND = "wav"
_SUFFIXES = (".wav", ".wave")
_MAX_LENGTH = 1 << 26
_WAY = "repair or remove the files, or leave them out with bad=skip"

WAV_OPTIONS = {
    "length": Option(whole(1, _MAX_LENGTH), "frames of all samples; by default the plan's"),
    "align": Option(choice("start", "middle", "end"), "what is kept of longer ones; start"),
    "rate": Option(whole(1, 1 << 24), "frames a second; by default the first file's"),
    "bad": Option(choice("refuse", "skip"), "skip leaves out files that cannot be used"),
}
"""Options of the SPEC."""


@dataclass(frozen=True)
class _Rules:
    """Length and rate of all samples, None until known, and what is kept of longer ones."""

    length: int | None
    rate: int | None
    align: str


def open_sounds(
    root: str, options: Mapping[str, Any], opening: Opening, origin: Origin | None = None
) -> TableSource:
    """Open a folder of WAV files.

    Parameters
    ----------
    root : str
    options : mapping
        Parsed by `WAV_OPTIONS`.
    opening : Opening
    origin : Origin, optional
        Of a manifest: the good files; they are not looked at before use.

    Raises
    ------
    DataError
        There are no classes, or files cannot be used (they are named).
    """
    rules = _rules(root, options, opening, origin)
    if origin is not None:
        like = opening.like_kind(_KIND)
        listing = Listing(origin.paths, origin.labels, like.classes if like else ())
    else:
        listing = list_folder(root, _SUFFIXES, opening, _KIND)
        rules, listing = _check_all(root, listing, rules, opening)
        opening.findings.settle(root, skip=options.get("bad") == "skip", way=_WAY)
        opening.findings.settle_notes(root)
    if not listing.paths or rules.length is None or rules.rate is None:
        raise DataError(f"{root} holds no sound that can be used")
    preparation = {"length": rules.length, "rate": rules.rate, "align": rules.align}
    labels = np.array(listing.labels, np.int32) if listing.has_labels else None
    return TableSource(
        root,
        _Sounds(root, listing, rules.length, rules.rate, rules.align),
        None if labels is None else ArrayColumn(f"{root}:classes", labels),
        tuple(opening.findings.notes),
        about=About(_KIND, listing.classes, preparation),
        origin=Origin(listing.paths, listing.labels, preparation),
    )


def _rules(
    root: str, options: Mapping[str, Any], opening: Opening, origin: Origin | None
) -> _Rules:
    """Return what the SPEC, the weights, a manifest or the plan say, in this order."""
    like = opening.like_kind(_KIND)
    given: dict[str, Any] = {key: options.get(key) for key in ("length", "rate", "align")}
    trained = _checked(root, like.preparation) if like is not None else {}
    for key, value in trained.items():
        if given[key] not in (None, value):
            raise DataError(
                f"{root}: {key}={given[key]} is asked for, the weights were trained with "
                f"{key}={value}: leave the option out"
            )
    known = trained or (_checked(root, origin.facts) if origin is not None else {})
    given |= {key: value for key, value in known.items() if given[key] is None}
    wanted = [n for n in opening.wanted if n != 1]
    if given["length"] is None and len(wanted) == 1:
        given["length"] = wanted[0]
    return _Rules(given["length"], given["rate"], given["align"] or "start")


def _checked(root: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return preparation from a file, which anybody may have written."""
    try:
        return {
            "length": WAV_OPTIONS["length"].parse(str(known["length"])),
            "rate": WAV_OPTIONS["rate"].parse(str(known["rate"])),
            "align": WAV_OPTIONS["align"].parse(known["align"]),
        }
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{root}: the stored preparation of sounds is damaged ({error}); save the weights, or "
            "write the manifest, again"
        ) from error


def _check_all(
    root: str, listing: Listing, rules: _Rules, opening: Opening
) -> tuple[_Rules, Listing]:
    """Read the header of every file; return complete rules and the good files."""
    findings = opening.findings
    good: list[int] = []
    frames: list[int] = []
    rate = rules.rate
    for place, path in enumerate(listing.paths):
        try:
            with open_regular(path) as file:
                sound = read_header(file)
        except (ValueError, StorageError) as error:
            findings.bad(path, str(error))
            continue
        rate = rate or sound.rate
        if sound.rate != rate:
            findings.bad(
                path,
                f"{sound.rate} frames a second, {rate} are wanted: convert it with a sound program",
            )
            continue
        good.append(place)
        frames.append(sound.frames)
        if sound.channels > 1:
            findings.conversions[f"{sound.channels} channels to their mean"] += 1
    length = rules.length or _common_length(root, frames)
    if length:
        longer, shorter = sum(n > length for n in frames), sum(n < length for n in frames)
        findings.conversions |= {
            text: n
            for text, n in ((f"cut to {length}", longer), (f"filled up to {length}", shorter))
            if n
        }
    return replace(rules, length=length, rate=rate), listing.only(good)


def _common_length(root: str, frames: list[int]) -> int | None:
    """Return the length that all files have, None without files."""
    if frames and min(frames) != max(frames):
        raise DataError(
            f"{root}: the files have {min(frames)} to {max(frames)} frames, half of them up to "
            f"{sorted(frames)[(len(frames) - 1) // 2]}; say length=N, which cuts longer ones and "
            "fills shorter ones with silence"
        )
    return frames[0] if frames else None


class _Sounds:
    """A column that reads WAV files when they are needed, shape (1, length)."""

    def __init__(self, root: str, listing: Listing, length: int, rate: int, align: str) -> None:
        self.name = root
        self.count = len(listing.paths)
        self.row_shape: tuple[int, ...] = (1, length)
        self.dtype: np.dtype[Any] = np.dtype(np.float32)
        self._paths = listing.paths
        self._rate = rate
        self._align = align

    def read(self, rows: Rows, out: NDArray[Any]) -> None:
        """Read the sounds `rows`."""
        for i, row in enumerate(rows.tolist()):
            path = self._paths[row]
            with open_regular(path) as file:
                try:
                    sound = read_header(file)
                    if sound.rate != self._rate:
                        raise ValueError(f"it has {sound.rate} frames a second now")
                except ValueError as error:
                    raise DataError(
                        f"{path} became unusable since it was checked: {error}"
                    ) from error
                first, begin, n = self._place(sound)
                out[i] = 0
                read_sound(path, file, sound, first, out[i, 0, begin : begin + n])

    def _place(self, sound: Sound) -> tuple[int, int, int]:
        """Return the first frame to read, its place in the sample, and the number of frames."""
        length = self.row_shape[1]
        spare = sound.frames - length
        shift = {"start": 0, "middle": abs(spare) // 2, "end": abs(spare)}[self._align]
        return (shift, 0, length) if spare >= 0 else (0, shift, sound.frames)

    def close(self) -> None:
        """Do nothing: no file stays open."""
