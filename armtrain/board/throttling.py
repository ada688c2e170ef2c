"""The throttling word of Raspberry Pi firmware: what slows the processor now, and what did.

Bits 0 to 3 are now, bits 16 to 19 are the same since the system was started (Raspberry Pi
documentation, vcgencmd get_throttled). No word means unknown, which is not the same as fine.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from armtrain.board.identity import read_text

__all__ = ["CAPTURED_WORD", "Throttled", "decode", "parse_word", "read_throttled"]

CAPTURED_WORD = "vcgencmd_get_throttled.txt"
"""File of a captured machine that holds what `vcgencmd get_throttled` printed."""
_FLAGS = ("under-voltage", "frequency capped", "throttled", "soft temperature limit")
_SINCE = 16
_SYSFS = (
    "sys/devices/platform/soc/soc:firmware/get_throttled",
    "sys/devices/platform/soc@*/*firmware/get_throttled",
)
_TIMEOUT_SECONDS = 2.0


@dataclass(frozen=True)
class Throttled:
    """A decoded word.

    Attributes
    ----------
    word : int
    now : tuple of str
        What is the case at this moment.
    since_boot : tuple of str
        What has been the case at any time since the start, now included.
    """

    word: int
    now: tuple[str, ...]
    since_boot: tuple[str, ...]


def decode(word: int) -> Throttled:
    """Return the meaning of a throttling word."""
    return Throttled(
        word,
        tuple(flag for bit, flag in enumerate(_FLAGS) if word >> bit & 1),
        tuple(flag for bit, flag in enumerate(_FLAGS, _SINCE) if word >> bit & 1),
    )


def parse_word(text: str) -> int | None:
    """Return the word in 'throttled=0x50005', '0x50005' or '50005' (hexadecimal), else None."""
    found = re.fullmatch(r"(?:throttled=)?(?:0x)?([0-9a-fA-F]{1,8})", text.strip())
    return int(found[1], 16) if found else None


def read_throttled(root: Path = Path("/")) -> Throttled | None:
    """Return the state of the firmware; None when nothing tells it, as on other boards."""
    paths = [path for pattern in _SYSFS for path in sorted(root.glob(pattern))]
    if root != Path("/"):
        paths.append(root / CAPTURED_WORD)
    for path in paths:
        word = parse_word(read_text(path) or "")
        if word is not None:
            return decode(word)
    word = parse_word(_ask_firmware()) if root == Path("/") else None
    return None if word is None else decode(word)


def _ask_firmware() -> str:
    """Return what vcgencmd prints; nothing when it is missing or not permitted."""
    program = shutil.which("vcgencmd")
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, "get_throttled"],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout if done.returncode == 0 else ""
