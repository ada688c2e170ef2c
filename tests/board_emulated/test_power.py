"""Power cuts: nothing that was saved is lost, and every run ends with the same bits.

Some boards are switched off while they train, at moments that are drawn once and for all: half of
them counted in writes to the card, which is while saving, half drawn from the time that the run
takes. More cuts are made from the record of an uninterrupted run's writes: there the disk has a
cache, and what it had not been told to flush is lost at random.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from scripts.board_image import Board
from scripts.board_machine import MEDIA, BoardError, Machine, fresh_card
from tests.board_emulated.history import Write, cards_at, checkpoints, read_history, torn_commits
from tests.board_emulated.training import FOLDER, SAVING, STEPS_PER_EPOCH, Training

pytestmark = pytest.mark.board

SEED = 20
CUTS = int(os.environ.get("BOARD_CUTS", "20"))
REPLAYED = 30
RESUMED = 3  # of the replayed cuts, how many boards are started from
TRAIN = f"cd {FOLDER}; ./armtrain-run-* digits.plan {SAVING} --checkpoint ck --resume"
SAVE = "--save few.safetensors"
FINISHED = "training-has-ended"


@dataclass(frozen=True)
class Recorded:
    """An uninterrupted run on a board, with every write to its card."""

    writes: list[Write]
    begin: int
    end: int
    seconds: float
    digest: str


@dataclass(frozen=True)
class Outcome:
    """What a board did after its power had been cut.

    Attributes
    ----------
    reported : int
        Epochs that the console had reported before the cut.
    resumed : int
        Step from which the next start went on; 0 is the beginning.
    digest : str
        SHA-256 of the weights in the end.
    """

    reported: int
    resumed: int
    digest: str


def finish(board: Board, card: Path, reported: int) -> Outcome:
    """Start a board, resume the training, and let it end."""
    with Machine(board, card) as machine:
        machine.boot()
        said = machine.run(f"{TRAIN} {SAVE}")
        digest = machine.run("sha256sum few.safetensors").split()[0]
    resumed = re.search(r"resumed at step (\d+)", said)
    assert resumed or "no checkpoint" in said, said
    return Outcome(reported, int(resumed[1]) if resumed else 0, digest)


def record(medium: str, board: Board, installed: Path, folder: Path) -> Recorded:
    """Train without interruption, recording what is written."""
    card, log = fresh_card(installed, folder / "card.img"), folder / "history"
    with Machine(board, card, medium=medium, history=log) as machine:
        machine.boot()
        begin, started = machine.writes(), time.monotonic()
        machine.run(f"{TRAIN} {SAVE}")
        end, seconds = machine.writes(), time.monotonic() - started
        digest = machine.run("sha256sum few.safetensors").split()[0]
    return Recorded(read_history(log), begin, end, seconds, digest)


@pytest.fixture(scope="session")
def recordings(
    board: Board, installed: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Recorded]:
    """Return the uninterrupted run on a card and on a disk with a cache."""
    return {m: record(m, board, installed, tmp_path_factory.mktemp(m)) for m in MEDIA}


def cut(board: Board, card: Path, whole: Recorded, number: int) -> int:
    """Train, cut the power at a moment, and return how many epochs had been reported by then."""
    chance = Random(f"{SEED} {number}")
    writes = chance.randint(1, whole.end - whole.begin) if number % 2 else None
    seconds = chance.uniform(0.0, whole.seconds)
    history = card.with_suffix(".history")
    with Machine(board, card, history=history) as machine:
        machine.boot()
        begin, end = machine.writes(), time.monotonic() + seconds
        # Typed so that the echo of the command does not hold the word.
        machine.write(f"{TRAIN} {SAVE}; echo {FINISHED[:4]}''{FINISHED[4:]}\n")
        while FINISHED not in machine.said() and (
            time.monotonic() < end if writes is None else machine.writes() - begin < writes
        ):
            time.sleep(0.002)
        machine.cut()
        return len(re.findall(r"^epoch \d+/", machine.said(), re.MULTILINE))


@pytest.fixture(scope="session")
def outcomes(
    board: Board,
    installed: Path,
    recordings: dict[str, Recorded],
    tmp_path_factory: pytest.TempPathFactory,
) -> list[Outcome | BoardError]:
    """Return what became of every board whose power was cut."""
    folder = tmp_path_factory.mktemp("cuts")

    def one(number: int) -> Outcome | BoardError:
        card = fresh_card(installed, folder / f"{number}.img")
        try:
            return finish(board, card, cut(board, card, recordings["sd"], number))
        except BoardError as error:
            return error
        finally:
            card.unlink()

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(one, range(CUTS)))


@pytest.mark.parametrize("medium", list(MEDIA))
def test_uninterrupted(recordings: dict[str, Recorded], training: Training, medium: str) -> None:
    """The training that is going to be cut gives the bits of user-mode emulation."""
    assert recordings[medium].digest == hashlib.sha256(training.saving_weights).hexdigest()


@pytest.mark.parametrize("number", range(CUTS))
def test_switched_off(
    outcomes: list[Outcome | BoardError], recordings: dict[str, Recorded], number: int
) -> None:
    """The run resumes where it was saved and ends with the bits of the uninterrupted one."""
    outcome = outcomes[number]
    assert isinstance(outcome, Outcome), outcome
    assert outcome.digest == recordings["sd"].digest
    # An epoch is reported before its last step is saved; all steps before that are safe.
    assert outcome.resumed >= outcome.reported * STEPS_PER_EPOCH - 1


@pytest.mark.parametrize("medium", list(MEDIA))
def test_replayed_cuts(
    board: Board,
    installed: Path,
    recordings: dict[str, Recorded],
    tmp_path: Path,
    medium: str,
) -> None:
    """At any moment: the file system is whole, every checkpoint intact, none goes back."""
    whole, chance = recordings[medium], Random(f"{SEED} {medium}")
    moments = sorted(chance.sample(range(whole.begin, whole.end), REPLAYED))
    resumed_from = set(chance.sample(moments, RESUMED))
    torn = [m for m in torn_commits(installed, whole.writes) if whole.begin < m <= whole.end]
    assert torn or medium != "sd", "a card is written sector by sector"
    moments = sorted({*moments, *torn[-1:]})
    resumed_from |= set(torn[-1:])
    newest: dict[int, int] = {}
    for moment in cards_at(installed, whole.writes, moments, tmp_path, chance):
        if moment.taken in resumed_from:
            again = fresh_card(moment.image, tmp_path / "again.img")
            assert finish(board, again, 0).digest == whole.digest
        found = checkpoints(moment.image, f"{FOLDER}/ck", tmp_path / str(moment.taken))
        assert all(found.values()), (moment.taken, found)
        newest[moment.taken] = max(found, default=0)
        safe = [step for taken, step in newest.items() if taken <= moment.safe]
        assert newest[moment.taken] >= max(safe, default=0)
    assert max(newest.values()) > min(newest.values()), "the moments see the training go on"
