"""Byte counts as people write them."""

from __future__ import annotations

import pytest

from armtrain.errors import ArgumentError
from armtrain.memory.budget import parse_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (1_000_000, 1_000_000),
        ("640", 640),
        ("640 B", 640),
        ("512 KiB", 524_288),
        ("2 MiB", 2_097_152),
        ("80MiB", 83_886_080),
        ("1.5GB", 1_500_000_000),
        (" 0.5 kb ", 500),
        ("1TiB", 2**40),
    ],
)
def test_counts_with_units(text: int | str, expected: int) -> None:
    assert parse_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "MiB", "2 M", "two MiB", "-5", "0", "1e6", "2 MiBB"])
def test_other_texts_are_refused_with_examples(text: str) -> None:
    with pytest.raises(ArgumentError, match="2 MiB"):
        parse_bytes(text)
