"""Which of several buffers that may come next at one address a search tries first.

Whole numbers alone decide, so that a rank is the same on every host.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from armtrain.memory.problem import Buffer
from armtrain.memory.sections import Sections

__all__ = ["RANKS", "Ranks"]

_Key = Callable[[Buffer, int], tuple[int, ...]]

RANKS: dict[str, _Key] = {
    "long": lambda b, peak: (b.lower - b.upper, -b.size),
    "peak": lambda b, peak: (-peak, b.lower - b.upper, -b.size),
    "peak-area": lambda b, peak: (-peak, -b.size * (b.upper - b.lower)),
    "size": lambda b, peak: (-b.size, b.lower - b.upper),
}
"""Keys from the buffer and the most bytes live during its lifetime."""

# Of lifetime, size and peak: the most that a logarithm counts, and how much small shares are
# favoured; then the most that chance adds, 64 times as much since the logarithms are.
_SHARES = ((1000, 1), (1000, 2), (32_000, 1))
_NOISE = 46_000


class Ranks:
    """Ranks of the buffers of one problem.

    Parameters
    ----------
    buffers : sequence of Buffer
    sections : Sections
        Of the same buffers.
    """

    def __init__(self, buffers: Sequence[Buffer], sections: Sections) -> None:
        self._buffers = [buffers[i] for i in sections.order]
        self._peaks = sections.peaks()
        measures = zip(self._buffers, self._peaks, strict=True)
        self._logs = [
            (_log2(b.upper - b.lower), _log2(b.size), _log2(peak)) for b, peak in measures
        ]

    def fixed(self, name: str) -> list[int]:
        """Return per buffer of the sections its place in the order of one of `RANKS`."""
        key = RANKS[name]
        return _places([key(b, peak) for b, peak in zip(self._buffers, self._peaks, strict=True)])

    def shaken(self, seed: int) -> list[int]:
        """Return a rank that mixes lifetime, size and peak in shares drawn from `seed`, with noise.

        A search that is unlucky early does not recover; many short ones of different ranks find
        what one long search does not (Gomes, Selman and Kautz, "Boosting Combinatorial Search
        Through Randomization", AAAI 1998).
        """
        rng = random.Random(seed)
        long, large, high = (int(most * rng.random() ** power) for most, power in _SHARES)
        noise = _NOISE * rng.random()
        return _places(
            [
                (-long * a - large * b - high * c - int(noise * rng.random()),)
                for a, b, c in self._logs
            ]
        )


def _log2(value: int) -> int:
    """Return 64 times the binary logarithm, rounded down: exact on every host."""
    return int(value**64).bit_length() - 1


def _places(keys: Sequence[tuple[int, ...]]) -> list[int]:
    """Return the place of every key in sorted order; equal keys keep theirs."""
    places = [0] * len(keys)
    for place, i in enumerate(sorted(range(len(keys)), key=keys.__getitem__)):
        places[i] = place
    return places
