"""One image file: decoded by Pillow, turned upright, without transparency."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtrain.errors import DataError
from armtrain.files import open_regular

__all__ = ["MAX_PIXELS", "Decoder", "Picture"]

_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
MAX_PIXELS = 1 << 26
"""Larger images are refused."""
_ALPHA = ("RGBA", "LA", "PA")
_DEEP = ("I;16", "I;16L", "I;16B", "I;16N", "I")


@dataclass(frozen=True)
class Picture:
    """A decoded image.

    Attributes
    ----------
    size : tuple of int
        Height and width, upright.
    colour : bool
    deep : bool
        Grey of 16 bits.
    conversions : tuple of str
        What was done to it, for the summary.
    """

    size: tuple[int, int]
    colour: bool
    deep: bool
    conversions: tuple[str, ...]
    _image: Any
    _decoder: Decoder

    @property
    def largest(self) -> int:
        """Value of white."""
        return 65_535 if self.deep else 255

    def values(self, size: tuple[int, int], channels: int, fit: str) -> NDArray[Any]:
        """Return the pixels, shape (channels, *size), uint8, or float32 from 0 to 65535."""
        image = self._image
        if not self.deep:
            image = image.convert("L" if channels == 1 else "RGB")
        if self.size != size:
            image = self._decoder.resize(image, size, fit)
        pixels = np.asarray(image)
        if pixels.ndim == 2:
            return np.broadcast_to(pixels, (channels, *size))
        return pixels.transpose(2, 0, 1)


class Decoder:
    """Pillow, loaded when it is needed."""

    def __init__(self) -> None:
        """Load Pillow; raises DataError saying how to install it."""
        try:
            from PIL import Image, ImageOps, UnidentifiedImageError
        except ImportError as error:
            raise DataError(
                "reading images needs Pillow, which is not installed: pip install "
                "'armtrain[images]' (Debian: apt-get install python3-pil), or convert the data "
                "where it is installed, with armtrain convert-data, and use npz:FILE"
            ) from error
        self._pil: Any = Image
        self._ops: Any = ImageOps
        self._unknown: type[Exception] = UnidentifiedImageError

    def decode(self, path: str) -> Picture | str:
        """Return the picture in a file, or the reason why there is none."""
        with open_regular(path, buffered=True) as file:
            head = file.read(16)
            if not head:
                return "the file is empty (0 B)"
            file.seek(0)
            try:
                return self._picture(file)
            except self._unknown:
                kinds = ", ".join(_FORMATS)
                return f"it is no image of these kinds: {kinds}; it starts with {head!r}"
            except MemoryError:
                raise
            except Exception as error:  # decoders raise anything for damaged files
                size = os.fstat(file.fileno()).st_size
                return f"it cannot be decoded ({error or type(error).__name__}; {size} B)"

    def resize(self, image: Any, size: tuple[int, int], fit: str) -> Any:
        """Return an image of (height, width) `size`: stretched, its middle cut out, or padded."""
        width_height = size[::-1]
        # Others overshoot at edges, beyond the range of what is not bytes.
        method = self._pil.Resampling.BILINEAR
        if fit == "crop":
            return self._ops.fit(image, width_height, method=method)
        if fit == "pad":
            return self._ops.pad(image, width_height, method=method)
        return image.resize(width_height, resample=method)

    def _picture(self, file: Any) -> Picture | str:
        """Decode an open file; raises whatever Pillow does."""
        image = self._pil.open(file, formats=_FORMATS)
        width, height = image.size
        if width * height > MAX_PIXELS:
            return f"{height}x{width} pixels are more than {MAX_PIXELS}: make it smaller"
        mode = image.mode
        image.load()
        upright = self._ops.exif_transpose(image)
        conversions = ["turned upright"] if image.getexif().get(0x0112, 1) != 1 else []
        width, height = upright.size
        if mode in _DEEP:
            deep = upright.convert("F")
            low, high = deep.getextrema()
            if low < 0 or high > 65_535:
                return f"its values lie in {low:g}..{high:g}, only 8 and 16 bits have a fixed scale"
            return Picture((height, width), False, True, tuple(conversions), deep, self)
        if mode == "F":
            return "it holds floating-point values, which have no fixed scale; save 8 or 16 bits"
        if mode in _ALPHA or "transparency" in image.info:
            rgba = upright.convert("RGBA")
            white = self._pil.new("RGBA", rgba.size, (255, 255, 255, 255))
            upright = self._pil.alpha_composite(white, rgba)
            upright = upright.convert("L" if mode == "LA" else "RGB")
            conversions.append(f"{mode} on white")
        colour = upright.mode not in ("1", "L")
        if upright.mode not in ("RGB", "L"):
            conversions.append(f"{mode} to {'RGB' if colour else 'grey'}")
            upright = upright.convert("RGB" if colour else "L")
        return Picture((height, width), colour, False, tuple(conversions), upright, self)
