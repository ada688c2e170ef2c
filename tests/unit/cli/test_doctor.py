"""Doctor: names of feature bits are those of the C header."""

from __future__ import annotations

import re
from pathlib import Path

from armtrain.cli.doctor import feature_names


def test_feature_names_follow_the_header(root: Path) -> None:
    text = (root / "kernels" / "core" / "cpu.h").read_text()
    bits = {
        name.lower().replace("_", "+"): int(bit)
        for name, bit in re.findall(r"ART_CPU_(\w+) = 1u << (\d+)", text)
    }
    assert bits
    for name, bit in bits.items():
        assert feature_names(1 << bit) == [name]


def test_unknown_bits_are_shown() -> None:
    assert feature_names(1 << 20 | 1) == ["sse2", "bit 20"]
