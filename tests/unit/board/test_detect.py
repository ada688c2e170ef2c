"""Detection: captured machines, and machines that no profile describes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armtrain.board.detect import Detection, detect, match, userland_architecture
from armtrain.board.identity import CAPTURE, Identity, System, read_identity, read_system
from armtrain.board.profile import load_board
from armtrain.errors import PlanError

MACHINES = Path(__file__).resolve().parents[2] / "boards"
SPECIAL = {
    "raspberrypi-4b-userland-32": ("raspberrypi-4b", True),
    "raspberrypi-4b-container": ("raspberrypi-4b", True),
    "raspberrypi-unknown": ("raspberrypi-5", False),
}


def machines() -> list[str]:
    """Return the names of all captured machines."""
    return sorted(p.parent.name for p in MACHINES.glob(f"*/{CAPTURE}"))


def found(
    *,
    models: tuple[str, ...] = (),
    compatible: tuple[str, ...] = (),
    machine: str = "aarch64",
    bits: int = 64,
) -> Detection:
    """Return the detection of a machine that says this much."""
    identity = Identity(compatible, models, (), ())
    return match(identity, System(machine, "6.12", bits, 4096, 4, "/", 0))


@pytest.mark.parametrize("name", machines())
def test_captured_machines(name: str) -> None:
    board, exact = SPECIAL.get(name, (name, True))
    detection = detect(MACHINES / name)
    assert (detection.board.id, detection.exact) == (board, exact), detection.reason


def test_every_board_has_a_captured_machine() -> None:
    from armtrain.board.profile import board_ids

    described = {i for i in board_ids() if load_board(i).clusters}
    assert described <= set(machines())


@pytest.mark.parametrize("name", machines())
def test_cores_of_captured_machines_are_those_of_the_profile(name: str) -> None:
    from armtrain.board.cores import core_of

    parts = read_identity(MACHINES / name).parts
    board = detect(MACHINES / name).board
    profile = {cpu: c.core for c in board.clusters for cpu in c.cpus}
    assert {cpu: core_of(*part) for cpu, part in enumerate(parts)} == profile


def test_a_container_without_a_device_tree_still_has_the_model_line() -> None:
    detection = detect(MACHINES / "raspberrypi-4b-container")
    assert not (MACHINES / "raspberrypi-4b-container/proc/device-tree").exists()
    assert "the model is 'Raspberry Pi 4 Model B Rev 1.2'" in detection.reason


def test_32_bit_programs_on_a_64_bit_kernel() -> None:
    detection = detect(MACHINES / "raspberrypi-4b-userland-32")
    assert detection.architecture == "armv7l"
    assert detect(MACHINES / "raspberrypi-4b").architecture == "aarch64"


@pytest.mark.parametrize(
    ("model", "board", "exact"),
    [
        ("Raspberry Pi 4 Model B Rev 9.9", "raspberrypi-4b", True),
        ("RASPBERRY PI 4 model b rev 1.5", "raspberrypi-4b", True),
        ("Raspberry Pi Zero 2 Rev 1.0", "raspberrypi-zero-2-w", True),
        ("Raspberry Pi Zero W Rev 1.1", "raspberrypi-zero-w", True),
        ("Hardkernel ODROID-N2", "odroid-n2", True),
        ("Hardkernel ODROID-N2Plus", "odroid-n2-plus", True),
        ("Hardkernel ODROID-N2Xyz", "odroid-n2", False),
        ("Hardkernel ODROID-M1S", "odroid-m1s", True),
        ("Raspberry Pi Compute Module 4Xyz Rev 1.0", "raspberrypi-cm4", False),
        ("ODROID-XU4", "odroid-xu4", True),
        ("Example Board 6", "generic-aarch64", False),
    ],
)
def test_models(model: str, board: str, exact: bool) -> None:
    detection = found(models=(model,))
    assert (detection.board.id, detection.exact) == (board, exact)
    assert detection.model == model
    assert model in detection.reason


def test_a_similar_name_counts_more_than_the_chip() -> None:
    models = ("Raspberry Pi Compute Module 4Xyz Rev 1.0",)
    detection = found(models=models, compatible=("raspberrypi,x", "brcm,bcm2711"))
    assert (detection.board.id, detection.exact) == ("raspberrypi-cm4", False)


def test_compatible_counts_more_than_the_model() -> None:
    detection = found(models=("Raspberry Pi 4 Model B",), compatible=("raspberrypi,5-model-b",))
    assert detection.board.id == "raspberrypi-5"


def test_an_unknown_board_gets_the_nearest_one_and_the_reason() -> None:
    detection = found(models=("Banana Pi X",), compatible=("banana,x", "rockchip,rk3568"))
    assert (detection.board.id, detection.exact) == ("odroid-m1", False)
    assert "'Banana Pi X' is not known" in detection.reason
    assert "rockchip,rk3568: check memory and storage" in detection.reason
    nameless = found(compatible=("banana,x", "rockchip,rk3568"))
    assert "'banana,x' is not known" in nameless.reason


def test_the_nearest_board_of_a_chip_is_the_usual_one() -> None:
    # The Zero 2 W has the chip too, but half the memory and less than three quarters of the clock.
    detection = found(models=("Example Board",), compatible=("example,board", "brcm,bcm2837"))
    assert (detection.board.id, detection.exact) == ("raspberrypi-3b-plus", False)


@pytest.mark.parametrize(
    ("machine", "bits", "board"),
    [
        ("aarch64", 64, "generic-aarch64"),
        ("aarch64", 32, "generic-armv7"),
        ("armv7l", 32, "generic-armv7"),
        ("armv8l", 32, "generic-armv7"),
        ("armv6l", 32, "generic"),
        ("x86_64", 64, "host"),
        ("riscv64", 64, "generic"),
    ],
)
def test_a_machine_that_says_nothing(machine: str, bits: int, board: str) -> None:
    detection = found(machine=machine, bits=bits)
    assert (detection.board.id, detection.exact) == (board, False)
    assert "no device tree" in detection.reason


def test_architectures_of_wheels() -> None:
    assert userland_architecture("arm64", 64) == "aarch64"
    assert userland_architecture("x86_64", 32) == "i686"
    assert userland_architecture("s390x", 64) == "s390x"


def test_this_machine_is_detected() -> None:
    assert detect().reason


def test_garbage_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "proc/cpuinfo"
    path.parent.mkdir()
    path.write_bytes(b"\xff\xfe:\nCPU part: zebra\nCPU implementer\nmodel : 85\n\0")
    identity = read_identity(tmp_path)
    assert (identity.compatible, identity.models, identity.parts) == ((), (), ())


@given(tree=st.binary(max_size=60), processors=st.binary(max_size=200))
def test_whatever_the_files_hold_there_is_an_answer(tree: bytes, processors: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, data in (
            ("device-tree/model", tree),
            ("device-tree/compatible", tree[::-1]),
            ("cpuinfo", b"Model : " + processors),
        ):
            path = Path(folder) / "proc" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        assert detect(Path(folder)).reason


def test_the_other_path_of_the_device_tree(tmp_path: Path) -> None:
    path = tmp_path / "sys/firmware/devicetree/base/model"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"Hardkernel ODROID-C4\0")
    assert detect(tmp_path).board.id == "odroid-c4"


@pytest.mark.parametrize("text", ["machine = ", "machine = 3\n", 'machine = "x"\n'])
def test_a_damaged_capture(tmp_path: Path, text: str) -> None:
    (tmp_path / CAPTURE).write_text(text)
    with pytest.raises(PlanError, match="captured machine"):
        read_system(tmp_path)


def test_the_capability_word_of_a_captured_machine() -> None:
    assert read_system(MACHINES / "raspberrypi-4b").hwcap & 2
