"""The same plan trained by armtrain-run on this machine and on emulated ARM processors."""

from __future__ import annotations

import re
import signal
import subprocess
from functools import cache
from pathlib import Path

import pytest

from scripts.emulate import ROOT, TARGETS, Target
from tests.emulated.runs import BATCH, STEPS, Run, run_training

pytestmark = pytest.mark.emulated

MEMORY_BEYOND_BYTES = 3 * 1024 * 1024
# Where the emulator puts the program's addresses.
GUEST_START, GUEST_BYTES = 0x400000000000, 0xFFFFF000
MODELS = [(t, m) for t in TARGETS for m in t.levels]
NAMES = [f"{t.name}-{m}" for t, m in MODELS]


@cache
def program(target: Target | None) -> Path:
    """Return armtrain-run of a target (None: this machine), built."""
    if target is None:
        subprocess.run(["make", "--silent", "run"], cwd=ROOT, check=True)
        return ROOT / "build" / "armtrain-run"
    if missing := target.missing():
        pytest.skip("; ".join(missing))
    target.make("run")
    return target.build / "armtrain-run"


@cache
def train(plan: Path, target: Target | None, model: str, threads: int = 2, level: str = "") -> Run:
    """Train STEPS steps and return the losses and weights; `level` caps the kernel level."""
    name = f"{target.name if target else 'here'}-{model}-{threads}-{level}"
    command = [str(program(target))]
    if target is not None:
        command = target.command(model, program(target))
    return run_training(command, name, plan, threads, ARMTRAIN_CPU=level)


@pytest.mark.parametrize(("target", "model"), MODELS, ids=NAMES)
def test_level_follows_the_processor(plan: Path, target: Target, model: str) -> None:
    """What the kernel reports about the processor decides, nothing else."""
    assert train(plan, target, model).level == target.levels[model]


@pytest.mark.parametrize(("target", "model"), MODELS, ids=NAMES)
def test_losses_agree_with_this_machine(plan: Path, target: Target, model: str) -> None:
    """Within 1e-5 at the first step and 1e-4 at the last, where rounding has added up."""
    here, there = train(plan, None, "any"), train(plan, target, model)
    assert there.losses[0] == pytest.approx(here.losses[0], rel=1e-5)
    assert there.losses[-1] == pytest.approx(here.losses[-1], rel=1e-4)
    assert here.losses[-1] < here.losses[0]


@pytest.mark.parametrize("target", TARGETS, ids=[t.name for t in TARGETS])
def test_processors_of_one_level_give_the_same_bits(plan: Path, target: Target) -> None:
    """The processor's model is not part of the numeric contract, its level is."""
    seen: dict[str, Run] = {}
    for model, level in target.levels.items():
        run = train(plan, target, model)
        assert run == seen.setdefault(level, run), model


@pytest.mark.parametrize(("target", "model"), MODELS, ids=NAMES)
def test_threads_do_not_change_bits(plan: Path, target: Target, model: str) -> None:
    """One thread and two give the same weights."""
    assert train(plan, target, model, 1) == train(plan, target, model)


@pytest.mark.parametrize("target", TARGETS, ids=[t.name for t in TARGETS])
def test_plain_level_gives_the_same_bits_everywhere(plan: Path, target: Target) -> None:
    """Plain C rounds alike under every compiler and on every processor, ARMv6 included."""
    model = next(iter(target.levels))
    there = train(plan, target, model, level="c")
    assert there.level == "c"
    assert there == train(plan, None, "any", level="c")


def resident(process: int, start: int, length: int) -> int:
    """Return the resident bytes of a process between two addresses."""
    total, inside = 0, False
    for line in Path(f"/proc/{process}/smaps").read_text().splitlines():
        if head := re.match(r"([0-9a-f]+)-[0-9a-f]+ ", line):
            inside = start <= int(head[1], 16) < start + length
        elif inside and line.startswith("Rss:"):
            total += int(line.split()[1]) * 1024
    return total


@pytest.mark.parametrize("target", TARGETS, ids=[t.name for t in TARGETS])
def test_memory_beyond_the_arena(plan: Path, target: Target) -> None:
    """At most 3 MiB of memory that the program itself has touched, while it trains.

    The emulator is told where to put the program's addresses; what is resident there is
    the program's, what is elsewhere is the emulator's own. The kernel's share (page tables) is in
    neither. A stopped process does not change while it is read.
    """
    model = next(iter(target.levels))
    emulator, *rest = target.command(model, program(target))
    place = ["-B", hex(GUEST_START), "-R", hex(GUEST_BYTES)]
    data = ["--data", f"random:samples={BATCH},seed=3", "--epochs", "100000", "--threads", "2"]
    command = [emulator, *place, *rest, str(plan), *data]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            arena = re.search(r"arena (\d+) bytes", process.stdout.readline())
            assert arena
            for _ in range(STEPS):
                assert process.stdout.readline().startswith("epoch")
            process.send_signal(signal.SIGSTOP)
            used = resident(process.pid, GUEST_START, GUEST_BYTES)
        finally:
            process.kill()
    beyond = used - int(arena[1])
    print(f"{target.name}: {used} bytes resident, arena {arena[1]}")
    assert 0 < beyond <= MEMORY_BEYOND_BYTES
