"""`armtrain boards` and `armtrain doctor` on captured machines."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from armtrain.board.profile import board_ids
from armtrain.cli.main import main

KEYS = {
    "board",
    "cores",
    "isa",
    "userland_bits",
    "page_size",
    "kernels",
    "memory",
    "storage",
    "warnings",
}


def told(capsys: pytest.CaptureFixture[str], *args: str) -> Any:
    """Return the JSON that a successful command prints."""
    assert main([*args, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    boards = told(capsys, "boards")
    assert [b["id"] for b in boards] == board_ids()
    for board in boards:
        assert {"name", "threads", "cores", "memory", "storage", "toolchains"} <= set(board)
    xu4 = next(b for b in boards if b["id"] == "odroid-xu4")
    assert [(c["core"], c["count"]) for c in xu4["cores"]] == [("cortex-a15", 4), ("cortex-a7", 4)]
    assert xu4["core_count"] == 8


def test_one_board(capsys: pytest.CaptureFixture[str]) -> None:
    board = told(capsys, "boards", "raspberrypi-5")
    assert board["id"] == "raspberrypi-5"
    assert board["peak_fp32_gflops"] == pytest.approx(153.6)
    assert board["storage"][0]["read_mb_s"]["source"].startswith("measured: ")


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["boards"]) == 0
    out = capsys.readouterr().out
    assert all(i in out for i in board_ids())
    assert main(["boards", "raspberrypi-4b"]) == 0
    out = capsys.readouterr().out
    assert "1500  [datasheet: " in out
    assert "1024 2048 4096 8192  [datasheet: " in out
    assert "48.0  [derived: " in out


def test_an_unknown_board(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["boards", "toaster"]) == 2
    assert f"known are {', '.join(board_ids())}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("machine", "board", "isa", "level", "bits", "page"),
    [
        ("raspberrypi-zero-w", "raspberrypi-zero-w", "armv6l", "c", 32, 4096),
        ("raspberrypi-4b", "raspberrypi-4b", "aarch64+neon+fma", "neon_a64", 64, 4096),
        (
            "raspberrypi-4b-userland-32",
            "raspberrypi-4b",
            "armv7l+neon+fma",
            "neonv4_a32",
            32,
            4096,
        ),
        ("raspberrypi-5", "raspberrypi-5", "aarch64+neon+fma", "neon_a64", 64, 16384),
        ("odroid-xu4", "odroid-xu4", "armv7l+neon+fma", "neonv4_a32", 32, 4096),
    ],
)
def test_doctor_on_captured_machines(
    capsys: pytest.CaptureFixture[str],
    root: Path,
    machine: str,
    board: str,
    isa: str,
    level: str,
    bits: int,
    page: int,
) -> None:
    facts = told(capsys, "doctor", "--root", str(root / "tests" / "boards" / machine))
    assert set(facts) >= KEYS
    assert facts["board"]["id"] == board
    assert facts["isa"] == isa
    assert facts["kernels"]["level"] == level
    assert (facts["userland_bits"], facts["page_size"]) == (bits, page)
    assert all(w["problem"] and w["remedy"] for w in facts["warnings"])


def test_doctor_names_the_clusters(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    facts = told(capsys, "doctor", "--root", str(root / "tests/boards/odroid-n2-plus"))
    assert facts["cores"] == [
        {"core": "cortex-a53", "cpus": [0, 1]},
        {"core": "cortex-a73", "cpus": [2, 3, 4, 5]},
    ]
    assert facts["storage"]["kind"] == "emmc"
    assert facts["storage"]["media"] == ["emmc-hs200"]
    assert any("powersave" in w["problem"] for w in facts["warnings"])


def test_a_disk_may_be_on_usb_or_sata(
    capsys: pytest.CaptureFixture[str], root: Path, tmp_path: Path
) -> None:
    for board, media in (("raspberrypi-4b", ["usb3-ssd"]), ("odroid-m1", ["sata-ssd", "usb3-ssd"])):
        machine = shutil.copytree(root / "tests/boards" / board, tmp_path / board)
        (machine / "proc/mounts").write_text("/dev/sda2 / ext4 rw 0 0\n")
        storage = told(capsys, "doctor", "--root", str(machine))["storage"]
        assert (storage["kind"], storage["media"]) == ("disk", media)


@pytest.mark.parametrize("text", [None, "", "nothing of use\n"])
def test_doctor_without_a_list_of_processors(
    capsys: pytest.CaptureFixture[str], root: Path, tmp_path: Path, text: str | None
) -> None:
    machine = shutil.copytree(root / "tests/boards/raspberrypi-4b", tmp_path / "machine")
    (machine / "proc/cpuinfo").unlink()
    if text is not None:
        (machine / "proc/cpuinfo").write_text(text)
    facts = told(capsys, "doctor", "--root", str(machine))
    assert (facts["cores"], facts["cpus_online"], facts["cpus_usable"]) == ([], None, 4)
    assert any("lists no processor" in w["problem"] for w in facts["warnings"])
    assert main(["doctor", "--root", str(machine)]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^cores +unknown$", out, re.MULTILINE)
    assert re.search(r"^processors +4 usable$", out, re.MULTILINE)
    assert "None" not in out


def test_doctor_on_memory(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    zero = told(capsys, "doctor", "--root", str(root / "tests/boards/raspberrypi-zero-2-w"))
    assert zero["memory"]["zram_bytes"] == 420_000 * 1024
    found = [w["problem"] for w in zero["warnings"]]
    assert any("cgroup_disable=memory" in p for p in found)
    assert any("zram" in p for p in found)
    assert zero["throttling"]["now"] == ["under-voltage", "throttled"]
    assert zero["throttling"]["since_boot"] == ["under-voltage", "throttled"]
    assert zero["clock"]["governors"]
    four = told(capsys, "doctor", "--root", str(root / "tests/boards/raspberrypi-4b"))
    assert four["warnings"] == []
    mixed = told(capsys, "doctor", "--root", str(root / "tests/boards/raspberrypi-4b-userland-32"))
    assert any("32-bit" in w["problem"] for w in mixed["warnings"])


def test_doctor_tells_programs_from_the_kernel(
    capsys: pytest.CaptureFixture[str], root: Path
) -> None:
    machine = str(root / "tests/boards/raspberrypi-4b-userland-32")
    facts = told(capsys, "doctor", "--root", machine)
    assert (facts["kernel_bits"], facts["userland_bits"]) == (64, 32)
    assert main(["doctor", "--root", machine]) == 0
    out = capsys.readouterr().out
    assert "64-bit (aarch64), pages of 4096 B" in out
    assert "32-bit, armv7l+neon+fma" in out
    zero = told(capsys, "doctor", "--root", str(root / "tests/boards/raspberrypi-zero-w"))
    assert (zero["kernel_bits"], zero["userland_bits"]) == (32, 32)


def test_doctor_says_what_a_control_group_leaves(
    capsys: pytest.CaptureFixture[str], root: Path
) -> None:
    machine = str(root / "tests/boards/raspberrypi-4b-container")
    memory = told(capsys, "doctor", "--root", machine)["memory"]
    assert memory["cgroup_limit_bytes"] == 256 << 20
    assert memory["cgroup_used_bytes"] == 28 << 20, "files in memory can be dropped but for 4 MiB"
    assert memory["usable_bytes"] == 228 << 20
    assert main(["doctor", "--root", machine]) == 0
    out = capsys.readouterr().out
    assert "256.00 MiB, 28.00 MiB of it in use" in out
    assert "warning: a control group limits this process to 268435456 B" in out
    free = told(capsys, "doctor", "--root", str(root / "tests/boards/raspberrypi-4b"))["memory"]
    assert free["usable_bytes"] == free["available_bytes"]


def test_doctor_in_a_directory_that_was_deleted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    facts = told(capsys, "doctor")
    assert (facts["storage"]["path"], facts["storage"]["free_bytes"]) == ("unknown", None)
    assert any("may have been deleted" in w["problem"] for w in facts["warnings"])
    assert main(["doctor"]) == 0
    assert re.search(r"^storage here +unknown$", capsys.readouterr().out, re.MULTILINE)


def test_doctor_text(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    assert main(["doctor", "--root", str(root / "tests/boards/raspberrypi-zero-w")]) == 0
    out = capsys.readouterr().out
    assert "now: nothing; since the start: under-voltage, throttled (0x50000)" in out
    assert "1 x arm1176" in out
    assert main(["doctor", "--root", str(root / "tests/boards/raspberrypi-4b")]) == 0
    assert "no hindrance found" in capsys.readouterr().out


def test_doctor_wants_a_captured_machine(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["doctor", "--root", str(tmp_path)]) == 2
    assert "capture.toml" in capsys.readouterr().err


def test_capture_and_read_back(
    capsys: pytest.CaptureFixture[str], root: Path, tmp_path: Path
) -> None:
    script = [sys.executable, str(root / "scripts" / "capture_board.py")]
    folder = str(tmp_path / "here")
    subprocess.run([*script, folder], check=True, capture_output=True)
    facts = told(capsys, "doctor", "--root", folder)
    assert facts["page_size"] in (4096, 16384, 65536)
    assert facts["memory"]["total_bytes"] > 0
    here = told(capsys, "doctor")
    for key in ("userland_bits", "kernel_bits", "page_size", "isa"):
        assert facts[key] == here[key]
    assert facts["memory"]["cgroup_limit_bytes"] == here["memory"]["cgroup_limit_bytes"]
    again = subprocess.run([*script, folder], check=False, capture_output=True, text=True)
    assert again.returncode == 4
    assert "exists" in again.stderr
    assert subprocess.run(script, check=False, capture_output=True).returncode == 2


# What a board may say, and what is left of it in a capture.
PRIVATE = {
    b"Revision\t: c03112\nSerial\t\t: 10000000abcdef01\nModel\t\t: Raspberry Pi 4\n":
        b"Revision\t: c03112\nModel\t\t: Raspberry Pi 4\n",
    b"smsc95xx.macaddr=B8:27:EB:01:02:03 root=PARTUUID=9f51-02 bcm2708.serial=0xabcdef\n":
        b"smsc95xx.macaddr=00:00:00:00:00:00 root=PARTUUID=0 bcm2708.serial=0\n",
    b"BOOTIF=01-b8-27-eb-01-02-03 rw": b"BOOTIF=00:00:00:00:00:00 rw",
    b'root=UUID="6a5b0b4f-7f1c-4f57-a6a1-3c1b7f8a9d10" rw': b'root=UUID="0" rw',
    b'root="UUID=6a5b0b4f-7f1c-4f57-a6a1-3c1b7f8a9d10" rw': b'root="UUID=0" rw',
    b"root=LABEL=annas-disk rw": b"root=LABEL=0 rw",
    b"root=/dev/disk/by-uuid/6a5b0b4f-7f1c-4f57-a6a1-3c1b7f8a9d10 rw":
        b"root=/dev/disk/by-uuid/0 rw",
    b"/dev/disk/by-id/usb-Vendor_Stick_4C530001230412116491-0:0-part2 / ext4 rw 0 0\n":
        b"/dev/disk/by-id/0 / ext4 rw 0 0\n",
    b"/dev/mapper/luks-6a5b0b4f-7f1c-4f57-a6a1-3c1b7f8a9d10 / ext4 rw 0 0\n":
        b"/dev/mapper/luks-0 / ext4 rw 0 0\n",
    b"/dev/sda1 /media/anna/3C1B-9D10 vfat rw 0 0\n/dev/sdb1 /mnt/3C1B-9D10 vfat rw 0 0\n":
        b"/dev/sda1 /media/0 vfat rw 0 0\n/dev/sdb1 /mnt/0 vfat rw 0 0\n",
    b"/dev/root / ext4 rw 0 0\n/dev/mmcblk0p1 /boot vfat rw 0 0\n":
        b"/dev/root / ext4 rw 0 0\n/dev/mmcblk0p1 /boot vfat rw 0 0\n",
}  # fmt: skip


def test_a_capture_holds_nothing_private(root: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, 'scripts'); from capture_board import without_private;"
        "sys.stdout.buffer.write(without_private(sys.stdin.buffer.read()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root,
        input=b"\n".join(PRIVATE),
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"\n".join(PRIVATE.values())
