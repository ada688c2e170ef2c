"""Cases from real reports that concern boards (ARCH-03 to 05, BLD-03, RUN-01, RUN-04)."""

from __future__ import annotations

from pathlib import Path

import pytest

from armtrain.board.detect import detect, userland_architecture
from armtrain.board.isa import vector_units
from armtrain.board.profile import load_board
from armtrain.board.throttling import decode
from armtrain.cli.doctor import examine

MACHINES = Path(__file__).resolve().parents[1] / "boards"


@pytest.mark.parametrize(
    ("architecture", "line", "level"),
    [
        ("aarch64", "fp asimd evtstrm crc32 cpuid", "neon_a64"),
        (
            "armv7l",
            "half thumb fastmult vfp edsp neon vfpv3 tls vfpv4 idiva idivt",
            "neonv4_a32",
        ),
        ("armv7l", "half thumb fastmult vfp edsp neon vfpv3 tls", "neon_a32"),
        ("armv7l", "fp asimd evtstrm crc32 cpuid", "neonv4_a32"),
        ("armv7l", "half thumb fastmult vfp edsp java tls", "c"),
        ("armv6l", "half thumb fastmult vfp edsp java tls", "c"),
    ],
)
def test_arch_03_neon_is_read_from_the_features_line(
    architecture: str, line: str, level: str
) -> None:
    units = vector_units(architecture, tuple(line.split()))
    assert units.neon == (level != "c")
    assert units.level == level


def test_arch_04_an_empty_capability_word_falls_back_to_the_text() -> None:
    assert vector_units("aarch64", ("fp", "asimd"), hwcap=0).neon
    assert vector_units("aarch64", (), hwcap=1 << 1).neon
    assert not vector_units("armv7l", ("neon",), hwcap=0xD6).neon
    neither = vector_units("aarch64", (), hwcap=0)
    assert (neither.neon, neither.level) == (False, "c")
    assert "neither the capability word nor /proc/cpuinfo can be read" in neither.reason


def test_arch_05_armv8l_is_32_bit_arm() -> None:
    assert userland_architecture("armv8l", 32) == "armv7l"


@pytest.mark.parametrize(
    ("machine", "tag"),
    [
        ("raspberrypi-4b", "aarch64"),
        ("raspberrypi-4b-userland-32", "armv7l"),
        ("raspberrypi-zero-w", "armv6l"),
        ("odroid-xu4", "armv7l"),
        ("odroid-c4", "aarch64"),
    ],
)
def test_bld_03_wheel_tags(machine: str, tag: str) -> None:
    detection = detect(MACHINES / machine)
    assert detection.architecture == tag
    bits = 64 if tag == "aarch64" else 32
    toolchain = detection.board.toolchain(bits)
    assert toolchain is not None
    assert toolchain.wheel_tag == tag


def test_bld_03_a_board_that_cannot_run_64_bit_programs_has_no_such_toolchain() -> None:
    assert load_board("odroid-xu4").toolchain(64) is None
    assert load_board("raspberrypi-zero-w").toolchain(64) is None


def test_run_01_now_and_since_the_start_are_kept_apart() -> None:
    both = ("under-voltage", "throttled")
    assert (decode(0).now, decode(0).since_boot) == ((), ())
    assert (decode(0x50005).now, decode(0x50005).since_boot) == (both, both)
    assert (decode(0x50000).now, decode(0x50000).since_boot) == ((), both)
    problems = [h.problem for h in examine(MACHINES / "raspberrypi-zero-2-w").hindrances]
    assert "under-voltage now" in problems
    assert "throttled now" in problems
    earlier = [h.problem for h in examine(MACHINES / "raspberrypi-zero-w").hindrances]
    assert "under-voltage, throttled since the start of the system, but not now" in earlier
    assert not [p for p in earlier if p.endswith(" now") and "not now" not in p]


def test_run_04_without_the_tool_the_state_is_unknown() -> None:
    container = examine(MACHINES / "raspberrypi-4b-container")
    assert container.health.throttled is None
    assert any("is unknown" in h.problem for h in container.hindrances)
    other = examine(MACHINES / "odroid-xu4").health
    assert other.throttled is None
    assert (other.temperature_c, other.clock_mhz) == (85.0, 2000.0)
    hot = [h.problem for h in examine(MACHINES / "odroid-xu4").hindrances]
    assert any("at 85 degrees C: from 85 on the clock" in problem for problem in hot)
