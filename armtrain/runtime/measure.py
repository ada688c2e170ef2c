"""Memory of this process, as the kernel counts it.

All figures come from /proc/self/status: the high-water mark of this process alone, never one
that was inherited from a parent. Library and interpreter are told apart from training by a
baseline taken before the engine opens.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

__all__ = ["Growth", "MemoryUse", "PeakMeter", "read_memory"]

_STATUS = "/proc/self/status"
_RESET = "/proc/self/clear_refs"
_KEYS = ("VmHWM", "VmRSS", "RssAnon", "RssFile")


@dataclass(frozen=True)
class MemoryUse:
    """Resident memory of this process in bytes; 0 where the kernel does not say.

    Attributes
    ----------
    peak_bytes : int
        High-water mark (VmHWM).
    resident_bytes, anonymous_bytes, file_bytes : int
        Now: all, private data, and pages of files (libraries, mapped data).
    """

    peak_bytes: int
    resident_bytes: int
    anonymous_bytes: int
    file_bytes: int


@dataclass(frozen=True)
class Growth:
    """What training added to the process.

    Attributes
    ----------
    baseline_bytes : int
        Resident memory of interpreter, libraries and data before the engine opened.
    peak_bytes : int
        Highest resident memory since.
    file_bytes : int
        Pages of library and data files that were touched since, part of the growth.
    growth_bytes : int
        Peak minus baseline, at least 0.
    """

    baseline_bytes: int
    peak_bytes: int
    file_bytes: int

    @property
    def growth_bytes(self) -> int:
        """Return the growth over the baseline."""
        return max(0, self.peak_bytes - self.baseline_bytes)


def parse_status(text: str) -> MemoryUse:
    """Return the memory lines of a /proc/PID/status text."""
    found = dict.fromkeys(_KEYS, 0)
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key in found:
            found[key] = int(value.split()[0]) * 1024
    return MemoryUse(*(found[key] for key in _KEYS))


def read_memory() -> MemoryUse:
    """Return the memory use of this process now; zeros where /proc is missing."""
    try:
        with open(_STATUS, encoding="ascii", errors="replace") as file:
            return parse_status(file.read())
    except OSError:
        return MemoryUse(0, 0, 0, 0)


class PeakMeter:
    """Measures the growth of this process from the moment it is made.

    The kernel's high-water mark is reset, so that memory which planning or importing needed
    earlier does not hide the growth; `process_peak_bytes` still reports the whole process.
    """

    def __init__(self) -> None:
        """Take the baseline."""
        before = read_memory()
        with suppress(OSError), open(_RESET, "w", encoding="ascii") as file:
            file.write("5")
        self._before = before

    def growth(self) -> Growth:
        """Return baseline and peak since it was taken."""
        now, before = read_memory(), self._before
        files = max(0, now.file_bytes - before.file_bytes)
        return Growth(before.resident_bytes, now.peak_bytes, files)

    def process_peak_bytes(self) -> int:
        """Return the high-water mark of the process since it started, in bytes."""
        return max(self._before.peak_bytes, read_memory().peak_bytes)
