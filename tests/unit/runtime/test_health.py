"""State of a machine: clocks, heat, compressed swap, devices, and the warnings they lead to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from armtrain.board.detect import detect
from armtrain.board.throttling import decode
from armtrain.runtime.health import Health, health_hindrances, read_health, storage_of

MACHINES = Path(__file__).resolve().parents[2] / "boards"
GOOD = Health(("ondemand",), 1500.0, 1500.0, 45.0, decode(0), 0, "/dev/mmcblk0p2", "sd")


def problems(health: Health, machine: str = "raspberrypi-4b") -> list[str]:
    """Return what is wrong with a machine in this state."""
    found = health_hindrances(health, detect(MACHINES / machine), arm=True)
    assert all(h.remedy for h in found)
    return [h.problem for h in found]


def test_a_captured_machine() -> None:
    assert read_health(MACHINES / "raspberrypi-4b", "/home/user") == GOOD


def test_an_empty_root_knows_nothing(tmp_path: Path) -> None:
    empty = Health((), None, None, None, None, 0, "unknown", "unknown")
    assert read_health(tmp_path, "/") == empty


def test_a_healthy_board_gets_no_warning() -> None:
    assert problems(GOOD) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"governors": ("powersave",)}, "'powersave'"),
        ({"zram_bytes": 4096}, "4096 B of the system's swap"),
        ({"throttled": decode(0x2)}, "frequency capped now"),
        ({"throttled": decode(0x80008)}, "soft temperature limit now"),
        ({"throttled": decode(0x20000)}, "frequency capped since the start"),
        ({"throttled": None}, "is unknown"),
    ],
)
def test_warnings(change: dict[str, object], problem: str) -> None:
    (told,) = problems(replace(GOOD, **change))  # type: ignore[arg-type]
    assert problem in told


def test_a_fixed_clock_that_is_low_means_heat_or_voltage() -> None:
    slow = replace(GOOD, governors=("performance",), clock_mhz=900.0, throttled=None)
    (told,) = problems(slow, "odroid-c4")
    assert "900 MHz of 1500 MHz at 45 degrees C" in told
    assert problems(replace(slow, clock_mhz=1490.0), "odroid-c4") == []
    assert problems(replace(slow, governors=("ondemand",)), "odroid-c4") == []


def test_an_unknown_board_is_told_on_arm_only() -> None:
    (told,) = problems(GOOD, "raspberrypi-unknown")
    assert "no profile of its own" in told
    detection = detect(MACHINES / "raspberrypi-unknown")
    assert health_hindrances(GOOD, detection, arm=False) == []


@pytest.mark.parametrize(
    ("device", "kind", "expected"),
    [
        ("/dev/mmcblk0p2", "SD", "sd"),
        ("/dev/mmcblk0p2", "MMC", "emmc"),
        ("/dev/mmcblk0p2", "", "unknown"),
        ("/dev/nvme0n1p1", "", "nvme"),
        ("/dev/sda1", "", "disk"),
        ("overlay", "", "unknown"),
    ],
)
def test_storage(tmp_path: Path, device: str, kind: str, expected: str) -> None:
    for name, text in (
        ("proc/mounts", f"/dev/x / ext4 rw 0 0\n{device} /data ext4 rw 0 0\n"),
        ("sys/block/mmcblk0/device/type", kind),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert storage_of(tmp_path, "/data/run") == (device, expected)
    assert storage_of(tmp_path, "/database") == ("/dev/x", "unknown")
