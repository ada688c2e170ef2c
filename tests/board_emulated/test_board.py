"""A booted board: deploying, training, little memory, other kernels, what doctor says."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scripts.board_image import Board
from tests.board_emulated.conftest import Start, built
from tests.board_emulated.training import DIGITS, FOLDER, Training

pytestmark = pytest.mark.board

RUN = "./armtrain-run-* digits.plan --data npz:digits.npz"
PYTHON = "armtrain train digits.plan --data digits"
VCGENCMD = "#!/bin/sh\\necho throttled=0x50000\\n"


@dataclass(frozen=True)
class Other:
    """The same card under another kernel, and what must be seen there."""

    name: str
    page_size: int
    kernel_machine: str
    userland_bits: int


OTHERS = {
    "arm64": Other("arm64-16k", 16384, "aarch64", 64),
    "armhf": Other("armhf-on-arm64", 4096, "aarch64", 32),
}
MACHINES = {"arm64": ("aarch64", 64), "armhf": ("armv7l", 32)}


def digest(weights: bytes) -> str:
    """Return what sha256sum prints."""
    return hashlib.sha256(weights).hexdigest()


def memory_mib(printed: str) -> float:
    """Return the total of /proc/meminfo in MiB."""
    found = re.search(r"MemTotal:\s+(\d+) kB", printed)
    assert found
    return int(found[1]) / 1024


def doctor(report: str) -> dict[str, Any]:
    """Return doctor's report."""
    read: dict[str, Any] = json.loads(report)
    return read


def test_console_and_ssh_reach_the_same_system(start: Start, board: Board) -> None:
    """The serial console through pyserial, ssh on loopback; the card is a card."""
    machine = start()
    assert machine.console.is_open
    assert machine.run("uname -m").strip() == MACHINES[board.name][0]
    assert machine.ssh("cat /proc/sys/kernel/random/boot_id") == machine.run(
        "cat /proc/sys/kernel/random/boot_id"
    )
    assert "mmcblk0" in machine.run("ls /sys/block")
    assert "sdhci" in machine.run("ls -l /sys/bus/pci/drivers/sdhci-pci /sys/class/mmc_host")


def test_96_mb_trains_with_python(start: Start, training: Training, tmp_path: Path) -> None:
    """The installed wheel on a board without swap; the weights come back by scp."""
    machine = start(memory_mib=96)
    assert memory_mib(machine.run("cat /proc/meminfo")) < 96
    machine.run(f"{PYTHON} {DIGITS} --save python.safetensors --log python.jsonl")
    records = [json.loads(line) for line in machine.run("cat python.jsonl").splitlines()]
    losses = [record["train_loss"] for record in records]
    assert losses == sorted(losses, reverse=True)
    assert {record["kernel_level"] for record in records} == {training.level}
    back = machine.get(f"{FOLDER}/python.safetensors", tmp_path / "python.safetensors")
    assert back.read_bytes() == training.digits_weights


def test_doctor_on_the_board(start: Start, board: Board, training: Training) -> None:
    """Known facts are told, unknown ones are not guessed: no firmware, no throttling word."""
    machine = start()
    report = doctor(machine.run("armtrain doctor --json"))
    assert report["board"]["id"] == f"generic-{'aarch64' if board.debian == 'arm64' else 'armv7'}"
    assert report["userland_bits"] == MACHINES[board.name][1]
    assert report["page_size"] == 4096
    assert report["throttling"] is None
    assert training.level in json.dumps(report["kernels"])
    # With a firmware's program in its place (a script), the whole way from there to the report.
    machine.run(f"printf '{VCGENCMD}' > /usr/bin/vcgencmd; chmod +x /usr/bin/vcgencmd")
    state = doctor(machine.run("armtrain doctor --json"))["throttling"]
    assert state["now"] == []
    assert state["since_boot"] == ["under-voltage", "throttled"]


def test_64_mb_trains_without_python(start: Start, training: Training) -> None:
    """armtrain-run on a board with 64 MB and no swap."""
    machine = start(memory_mib=64)
    assert memory_mib(machine.run("cat /proc/meminfo")) < 64
    machine.run(f"{RUN} {DIGITS} --save run.safetensors")
    assert digest(training.digits_weights) in machine.run("sha256sum run.safetensors")


def test_another_kernel(start: Start, board: Board, training: Training) -> None:
    """16 KiB pages for 64-bit programs, a 64-bit kernel for 32-bit programs: the same bits."""
    expected = OTHERS[board.name]
    machine = start(built(expected.name), memory_mib=512)
    assert machine.run("uname -m").strip() == expected.kernel_machine
    report = doctor(machine.run("armtrain doctor --json"))
    assert report["page_size"] == expected.page_size
    assert report["userland_bits"] == expected.userland_bits
    assert training.level in json.dumps(report["kernels"])
    machine.run(f"{PYTHON} {DIGITS} --save python.safetensors")
    machine.run(f"{RUN} {DIGITS} --save run.safetensors")
    printed = machine.run("sha256sum python.safetensors run.safetensors")
    assert printed.count(digest(training.digits_weights)) == 2
