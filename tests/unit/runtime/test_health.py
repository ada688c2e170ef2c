"""State of a machine: clocks, heat, compressed swap, devices, and the warnings they lead to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from armtrain.board.detect import detect
from armtrain.board.profile import load_board
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


@pytest.mark.parametrize(
    ("machine", "heat", "told"),
    [
        ("raspberrypi-4b", 115.0, "115 degrees C: from 80 on the clock of Raspberry Pi 4 Model B"),
        ("raspberrypi-3b-plus", 60.0, "60 degrees C: from 60 on the clock"),
        ("raspberrypi-3b-plus", 83.0, "83 degrees C: from 80 on the clock"),
        ("odroid-c4", 85.0, "85 degrees C: from 85 on the clock of Odroid C4"),
        ("odroid-m1", 72.0, "72 degrees C: from 70 on the clock"),
    ],
)
def test_heat_is_told_where_no_firmware_does(machine: str, heat: float, told: str) -> None:
    hot = replace(GOOD, temperature_c=heat, throttled=None)
    assert told in problems(hot, machine)[-1]
    assert "MHz" not in problems(hot, machine)[-1]
    slow = problems(replace(hot, clock_mhz=300.0), machine)[-1]
    assert slow.endswith("is lowered, and is 300 MHz of 1500 MHz now")
    fixed = replace(hot, clock_mhz=300.0, governors=("performance",))
    assert problems(fixed, machine)[-1] == slow, "one fact, one warning"
    cool = problems(replace(hot, temperature_c=50.0), machine)
    assert not [p for p in cool if "degrees" in p]


def test_the_firmware_knows_better_than_the_temperature() -> None:
    assert problems(replace(GOOD, temperature_c=90.0)) == []


def test_heat_without_a_known_limit_is_no_warning() -> None:
    hot = replace(GOOD, temperature_c=90.0, throttled=None)
    detection = replace(detect(MACHINES / "odroid-c4"), board=load_board("generic"))
    assert health_hindrances(hot, detection, arm=True) == []


def test_an_unknown_board_is_told_on_arm_only() -> None:
    (told,) = problems(GOOD, "raspberrypi-unknown")
    assert "no profile of its own" in told
    detection = detect(MACHINES / "raspberrypi-unknown")
    assert health_hindrances(GOOD, detection, arm=False) == []


@pytest.mark.parametrize("word", ["9" * 5000, "abc", "<unknown>"])
def test_what_is_no_number_says_nothing(tmp_path: Path, word: str) -> None:
    for name, text in (
        ("proc/swaps", f"Filename Type Size Used Priority\n/dev/zram0 partition {word} 0 5\n"),
        ("sys/class/thermal/thermal_zone0/temp", word),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", word),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    empty = Health((), None, None, None, None, 0, "unknown", "unknown")
    assert read_health(tmp_path, "/") == empty


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


def machine(root: Path, mounts: str, command_line: str = "", **links: str) -> Path:
    """Write a machine with links; '/' is spelled '__'."""
    (root / "proc").mkdir()
    (root / "proc/mounts").write_text(mounts)
    (root / "proc/cmdline").write_text(command_line)
    for name, target in links.items():
        link = root / name.replace("__", "/")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
    return root


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("root=/dev/mmcblk0p2", ("/dev/mmcblk0p2", "sd")),
        ("root=/dev/nvme0n1p2", ("/dev/nvme0n1p2", "nvme")),
        ("root=PARTUUID=9f51-02", ("/dev/mmcblk0p2", "sd")),
        ("root=UUID=unseen", ("/dev/root", "unknown")),
        ("root=179:2", ("/dev/root", "unknown")),
        ("quiet", ("/dev/root", "unknown")),
    ],
)
def test_the_device_that_the_kernel_started_from(
    tmp_path: Path, word: str, expected: tuple[str, str]
) -> None:
    card = tmp_path / "sys/block/mmcblk0/device/type"
    card.parent.mkdir(parents=True)
    card.write_text("SD\n")
    links = {"dev__disk__by-partuuid__9f51-02": "../../mmcblk0p2"}
    machine(tmp_path, "/dev/root / ext4 rw 0 0\n", f"console=tty1 {word} rootwait\n", **links)
    assert storage_of(tmp_path, "/home") == expected


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("platform/scb/fd500000.pcie/usb2/2-1/2-1:1.0/host0/target0:0:0/0:0:0:0/block/sda", "usb"),
        ("platform/fc800000.sata/ata1/host0/target0:0:0/0:0:0:0/block/sda", "sata"),
        ("pci0000:00/0000:00:03.0/virtio2/host0/block/sda", "disk"),
    ],
)
def test_the_bus_of_a_disk(tmp_path: Path, path: str, kind: str) -> None:
    machine(tmp_path, "/dev/sda2 / ext4 rw 0 0\n", sys__block__sda=f"../devices/{path}")
    assert storage_of(tmp_path, "/home") == ("/dev/sda2", kind)
