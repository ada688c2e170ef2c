"""The built-in profiles agree with each other and with what is known of the boards."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from armtrain.board.cores import core_of, load_cores
from armtrain.board.profile import board_ids, load_board
from armtrain.board.sections import Cluster

BOARDS = {
    "raspberrypi-zero-w": 1,
    "raspberrypi-zero-2-w": 4,
    "raspberrypi-3b-plus": 4,
    "raspberrypi-4b": 4,
    "raspberrypi-400": 4,
    "raspberrypi-cm4": 4,
    "raspberrypi-5": 4,
    "odroid-c2": 4,
    "odroid-c4": 4,
    "odroid-hc4": 4,
    "odroid-xu4": 4,
    "odroid-n2": 4,
    "odroid-n2-plus": 4,
    "odroid-m1": 4,
    "odroid-m1s": 4,
    "generic": 4,
    "generic-aarch64": 4,
    "generic-armv7": 4,
    "host": 4,
}
CORES = {
    *("arm1176", "cortex-a7", "cortex-a15"),
    *("cortex-a53", "cortex-a55", "cortex-a72", "cortex-a73", "cortex-a76"),
}
REAL = [i for i in board_ids() if not i.startswith(("generic", "host"))]


def biggest(clusters: tuple[Cluster, ...]) -> list[Cluster]:
    """Return the clusters to train on: out of order if any is, the fastest of equal cores."""
    wide = [c for c in clusters if load_cores()[c.core].pipeline == "out-of-order"] or clusters
    return [
        c
        for c in wide
        if c.clock_mhz.value == max(d.clock_mhz.value for d in wide if d.core == c.core)
    ]


def test_the_promised_boards_are_there() -> None:
    assert set(board_ids()) >= set(BOARDS)


@pytest.mark.parametrize("board_id", board_ids())
def test_threads_are_those_of_the_big_cluster(board_id: str) -> None:
    board = load_board(board_id)
    assert board.threads == BOARDS.get(board_id, board.threads)
    if board.clusters:
        assert board.clusters[0] in biggest(board.clusters)


@pytest.mark.parametrize("board_id", REAL)
def test_a_board_is_described_in_full(board_id: str) -> None:
    board = load_board(board_id)
    assert board.detect
    assert board.detect.compatible
    assert board.detect.models
    assert board.memory
    assert board.console
    assert board.power
    assert board.throttling
    assert board.throttling.limit_c
    assert board.toolchains
    assert board.storage
    assert len({s.id for s in board.storage}) == len(board.storage)


@pytest.mark.parametrize("board_id", REAL)
def test_no_medium_is_faster_than_its_bus(board_id: str) -> None:
    for medium in load_board(board_id).storage:
        assert medium.read_mb_s.value <= medium.bus_mb_s.value, medium.id
        assert medium.write_mb_s.value <= medium.bus_mb_s.value, medium.id


def test_no_two_boards_claim_the_same_name() -> None:
    boards = [load_board(i) for i in board_ids()]
    for key in ("compatible", "models", "near_compatible"):
        names = [n.lower() for b in boards if b.detect for n in getattr(b.detect, key)]
        assert len(names) == len(set(names)), key
    tags = [t.wheel_tag for b in boards if b.detect and b.detect.fallback for t in b.toolchains]
    assert sorted(tags) == ["aarch64", "armv7l", "x86_64"]


@pytest.mark.parametrize(
    ("board_id", "gflops"),
    [
        ("raspberrypi-zero-w", 0.91),
        ("raspberrypi-zero-2-w", 32.0),
        ("raspberrypi-3b-plus", 44.8),
        ("raspberrypi-4b", 48.0),
        ("raspberrypi-5", 153.6),
        ("odroid-c4", 64.5),
        ("odroid-xu4", 75.2),
        ("odroid-n2-plus", 109.0),
        ("odroid-m1", 63.7),
    ],
)
def test_peaks(board_id: str, gflops: float) -> None:
    assert load_board(board_id).peak_gflops == pytest.approx(gflops, rel=0.002)


def test_generic_boards_claim_no_peak() -> None:
    assert load_board("generic").peak_gflops is None
    assert load_board("generic").toolchain(64) is None


def test_cores_are_found_by_their_register_fields() -> None:
    assert core_of(0x41, 0xD08) == "cortex-a72"
    assert core_of(0x41, 0xB76) == "arm1176"
    assert core_of(0x41, 0xFFF) is None
    fields = {(c.midr_implementer, c.midr_part) for c in load_cores().values()}
    assert len(fields) == len(load_cores())
    assert set(load_cores()) >= CORES


def test_the_documentation_lists_every_board(root: Path) -> None:
    table = (root / "docs/boards.md").read_text().split("\n## ")[1]
    rows = re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)
    assert rows == board_ids()
