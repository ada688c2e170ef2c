"""Boards that are built, supplied with armtrain once, and started on copies of that card.

BOARD names the board (arm64 or armhf). Whatever is missing here is told in the reason of a skip.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from scripts.board_image import BOARDS, Board, build_board, missing_tools
from scripts.board_machine import Machine, fresh_card
from tests.board_emulated.training import FOLDER, Training

INSTALL = "python3 -m pip install --no-index --no-deps --break-system-packages"
Start = Callable[..., Machine]


def built(name: str) -> Board:
    """Return a board, built; skips when this machine cannot build or run it."""
    board = BOARDS[name]
    if absent := missing_tools(board):
        pytest.skip("; ".join(absent))
    build_board(board)
    return board


@pytest.fixture(scope="session")
def board() -> Board:
    """Return the board under test."""
    return built(os.environ.get("BOARD", "arm64"))


@pytest.fixture(scope="session")
def training(board: Board, tmp_path_factory: pytest.TempPathFactory) -> Training:
    """Return the files for the board; skips when its programs have not been built."""
    made = Training(board, tmp_path_factory.mktemp("training"))
    if absent := made.target.missing():
        pytest.skip("; ".join(absent))
    if not made.program.exists():
        pytest.skip(f"{made.program} is not there: make cross-a64 cross-a32")
    made.prepare()
    return made


@pytest.fixture(scope="session")
def installed(board: Board, training: Training, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a card on which the wheel, copied by scp, is installed; do not write to it."""
    card = fresh_card(board.card, tmp_path_factory.mktemp("card") / "card.img")
    with Machine(board, card) as machine:
        machine.boot()
        machine.put(*training.files, to=f"{FOLDER}/")
        printed = machine.run(f"{INSTALL} {FOLDER}/{training.wheel.name} && rm {FOLDER}/*.whl")
        assert "Successfully installed armtrain" in printed
        machine.power_off()
    return card


@pytest.fixture
def start(board: Board, installed: Path, tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts a board on a copy of the card with armtrain."""
    with ExitStack() as stack:

        def begin(other: Board = board, memory_mib: int = 256) -> Machine:
            card = fresh_card(installed, tmp_path / "card.img")
            machine = stack.enter_context(Machine(other, card, memory_mib=memory_mib)).boot()
            machine.run(f"cd {FOLDER}")
            return machine

        yield begin
