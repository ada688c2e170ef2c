"""What slows this machine down or wears it out: clocks, heat, power supply, compressed swap.

Like the facts of machine.py: read below a root folder, and unknown stays unknown.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from armtrain.board.detect import Detection
from armtrain.board.identity import decimal, read_text
from armtrain.board.throttling import Throttled, read_throttled
from armtrain.runtime.machine import Hindrance

__all__ = ["Health", "health_hindrances", "read_health", "storage_of"]

_CPUS = "sys/devices/system/cpu"
_LOW_CLOCK = 0.9
_REMEDIES = {
    "under-voltage": "use the supply that the board's maker recommends, a short thick cable, and "
    "a powered hub for USB devices",
    "frequency capped": "improve the power supply or the cooling, whichever is reported with it",
    "throttled": "add a heat sink or a fan, and let the board cool before timing anything",
    "soft temperature limit": "add a heat sink or a fan: the clock is lowered at this temperature",
}


@dataclass(frozen=True)
class Health:
    """State of a machine.

    Attributes
    ----------
    governors : tuple of str
        Clock governors in use, each once.
    clock_mhz, clock_limit_mhz : float or None
        Highest clock of any processor now; highest that the governor may choose.
    temperature_c : float or None
        Of the hottest thermal zone.
    throttled : Throttled or None
        None: unknown.
    zram_bytes : int
        Swap space in compressed memory, 0 without.
    storage_device, storage_kind : str
        Block device of the storage directory and what it is: sd, emmc, nvme, usb, sata, disk (one
        whose bus is not known), unknown.
    """

    governors: tuple[str, ...]
    clock_mhz: float | None
    clock_limit_mhz: float | None
    temperature_c: float | None
    throttled: Throttled | None
    zram_bytes: int
    storage_device: str
    storage_kind: str


def read_health(root: Path, storage_path: str) -> Health:
    """Return the state of the machine whose files are below `root`."""
    governors = {g.strip() for g in _texts(root, f"{_CPUS}/cpu[0-9]*/cpufreq/scaling_governor")}
    device, kind = storage_of(root, storage_path)
    return Health(
        governors=tuple(sorted(governors)),
        clock_mhz=_highest(root, f"{_CPUS}/cpu[0-9]*/cpufreq/scaling_cur_freq"),
        clock_limit_mhz=_highest(root, f"{_CPUS}/cpu[0-9]*/cpufreq/cpuinfo_max_freq"),
        temperature_c=_highest(root, "sys/class/thermal/thermal_zone[0-9]*/temp"),
        throttled=read_throttled(root),
        zram_bytes=_zram_bytes(read_text(root / "proc/swaps") or ""),
        storage_device=device,
        storage_kind=kind,
    )


def _texts(root: Path, pattern: str) -> list[str]:
    """Return the texts of all readable files that match."""
    texts = (read_text(path) for path in sorted(root.glob(pattern)))
    return [text for text in texts if text is not None]


def _highest(root: Path, pattern: str) -> float | None:
    """Return the highest of some numbers, in thousands: kHz to MHz, millidegrees to degrees."""
    numbers = (decimal(text.strip()) for text in _texts(root, pattern))
    return max((number / 1000 for number in numbers if number is not None), default=None)


def _zram_bytes(swaps: str) -> int:
    """Return the size of all zram devices in a /proc/swaps text, which counts in KiB."""
    rows = (line.split() for line in swaps.splitlines()[1:])
    return sum(
        1024 * (decimal(row[2]) or 0)
        for row in rows
        if len(row) > 2 and row[0].startswith("/dev/zram")
    )


def storage_of(root: Path, path: str) -> tuple[str, str]:
    """Return the device that holds `path` and its kind; 'unknown' where the kernel does not say."""
    best, device = "", "unknown"
    for line in (read_text(root / "proc/mounts") or "").splitlines():
        source, _, rest = line.partition(" ")
        point = rest.split(" ")[0].replace("\\040", " ").rstrip("/")
        if (path + "/").startswith(point + "/") and len(point) >= len(best):
            best, device = point, source
    if device == "/dev/root":
        device = _root_device(root) or device
    name = device.removeprefix("/dev/")
    if card := re.match(r"mmcblk\d+", name):
        kind = (read_text(root / f"sys/block/{card[0]}/device/type") or "").strip()
        return device, {"SD": "sd", "MMC": "emmc"}.get(kind, "unknown")
    if disk := re.match(r"(sd|vd|hd)[a-z]+", name):
        return device, _bus(root, disk[0])
    return device, "nvme" if name.startswith("nvme") else "unknown"


def _root_device(root: Path) -> str | None:
    """Return the device that the kernel was told to start from, None when it cannot be found."""
    words = (read_text(root / "proc/cmdline") or "").split()
    named = next((w.removeprefix("root=") for w in words if w.startswith("root=")), "")
    kind, equals, name = named.partition("=")
    link = f"/dev/disk/by-{kind.lower()}/{name}" if equals else named
    if not link.startswith("/dev/") or (equals and not os.path.lexists(root / link[1:])):
        return None
    return f"/dev/{os.path.basename(os.path.realpath(root / link[1:]))}"


def _bus(root: Path, disk: str) -> str:
    """Return what a disk is attached to; its link in /sys/block passes all buses on the way."""
    path = os.path.realpath(root / "sys/block" / disk)
    buses = (("usb", r"/usb\d+/"), ("sata", r"/ata\d+/"))
    return next((bus for bus, pattern in buses if re.search(pattern, path)), "disk")


def health_hindrances(health: Health, detection: Detection, arm: bool) -> list[Hindrance]:
    """Return what hinders training here.

    Parameters
    ----------
    health : Health
    detection : Detection
    arm : bool
        Whether the processor is an ARM core, so that a board profile matters.
    """
    found = [*_board(detection, arm), *_throttling(health, detection)]
    if "powersave" in health.governors:
        found.append(
            Hindrance(
                "the clock governor is 'powersave': the processor stays at its lowest clock",
                "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
            )
        )
    if health.zram_bytes:
        found.append(
            Hindrance(
                f"{health.zram_bytes} B of the system's swap are compressed memory (zram): it "
                "counts as free swap, but what is moved there still needs memory",
                "plan with --budget below the memory available, or end it: sudo swapoff /dev/zram0",
            )
        )
    return found


def _board(detection: Detection, arm: bool) -> list[Hindrance]:
    """Return what is wrong when the board has no profile of its own."""
    if detection.exact or not arm:
        return []
    return [
        Hindrance(
            f"this board has no profile of its own: {detection.reason}",
            f"plan with --board {detection.board.id}, or describe it in one file (docs/boards.md) "
            "and plan with --board FILE.toml",
        )
    ]


def _throttling(health: Health, detection: Detection) -> list[Hindrance]:
    """Return what slows the processor now and, apart from it, what did earlier."""
    state, profile = health.throttled, detection.board.throttling
    if state is None:
        seen = _heat(health, detection) or _slow_clock(health)
        if profile is None or profile.reader != "vcgencmd":
            return seen
        return [
            Hindrance(
                "whether the processor is throttled is unknown: the firmware cannot be asked",
                "install vcgencmd (package raspi-utils-core) and join the group 'video': "
                "sudo usermod -aG video $USER",
            ),
            *seen,
        ]
    found = [Hindrance(f"{flag} now", _REMEDIES[flag]) for flag in state.now]
    earlier = [flag for flag in state.since_boot if flag not in state.now]
    if earlier:
        found.append(
            Hindrance(
                f"{', '.join(earlier)} since the start of the system, but not now",
                "distrust timings taken since then; "
                + "; ".join(_REMEDIES[flag] for flag in earlier)
                + "; a restart clears the record",
            )
        )
    return found


def _heat(health: Health, detection: Detection) -> list[Hindrance]:
    """Return that the processor is as hot as the profile's limits, where no firmware tells."""
    board, heat = detection.board, health.temperature_c
    if board.throttling is None or heat is None:
        return []
    limits = (board.throttling.soft_limit_c, board.throttling.limit_c)
    reached = [limit.value for limit in limits if limit is not None and limit.value <= heat]
    if not reached:
        return []
    now, most = health.clock_mhz, health.clock_limit_mhz
    slow = f", and is {now:.0f} MHz of {most:.0f} MHz now" if _is_slow(health) else ""
    return [
        Hindrance(
            f"the processor is at {heat:.0f} degrees C: from {max(reached):g} on the clock of "
            f"{board.name} is lowered{slow}",
            _REMEDIES["throttled"],
        )
    ]


def _is_slow(health: Health) -> bool:
    """Say whether the clock is known to be well below the highest."""
    now, most = health.clock_mhz, health.clock_limit_mhz
    return now is not None and most is not None and now < _LOW_CLOCK * most


def _slow_clock(health: Health) -> list[Hindrance]:
    """Return a lowered clock where no firmware tells: only fixed governors say what it means."""
    now, limit = health.clock_mhz, health.clock_limit_mhz
    if health.governors != ("performance",) or not _is_slow(health):
        return []
    heat = "" if health.temperature_c is None else f" at {health.temperature_c:.0f} degrees C"
    return [
        Hindrance(
            f"the clock is {now:.0f} MHz of {limit:.0f} MHz{heat} although the governor asks for "
            "the highest",
            "add a heat sink or a fan, and check the power supply",
        )
    ]
