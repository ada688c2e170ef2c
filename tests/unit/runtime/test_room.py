"""Memory beside the arena: what is counted, and its refusal with the numbers."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.data.columns import ArrayColumn
from armtrain.data.source import TableSource
from armtrain.errors import DoesNotFitError
from armtrain.runtime.batches import Buffers
from armtrain.runtime.engine import engine_module, expected_by, expected_of
from armtrain.runtime.room import WORK_BYTES, buffer_bytes, index_bytes, take_room


def table(dtype: type, n: int = 5) -> TableSource:
    """Return n samples of twelve elements."""
    x, y = np.ones((n, 3, 4), dtype), np.zeros(n, np.int64)
    return TableSource("t", ArrayColumn("x", x), ArrayColumn("y", y))


@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(), nn.MSELoss()])
def test_buffers_are_counted_to_the_byte(loss: nn.Module) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
    options = {"loss": loss, "optimizer": optim.SGD(lr=0.1)}
    program = at.plan(net, input_shape=(1, 3, 4), batch_size=7, **options).program
    classes = 3 if isinstance(loss, nn.CrossEntropyLoss) else 0
    assert buffer_bytes(program) == Buffers(7, expected_of(program, classes)).nbytes


def test_ranges_of_indices_are_counted() -> None:
    net = nn.Sequential(nn.Embedding(300, 2), nn.Flatten(), nn.Linear(200_000, 1))
    options = {"loss": nn.MSELoss(), "optimizer": optim.SGD(lr=0.1), "threads": 1}
    program = at.plan(net, input_shape=(100_000,), batch_size=1, **options).program
    engine = SimpleNamespace(
        info=lambda: {"input_elements": 100_000, "n_classes": 0, "ignored_label": -100},
        index_limits=lambda rows: rows.fill(300),
        target_range=lambda: None,
    )
    tracemalloc.start()
    expected = expected_by(engine, program)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert set(expected.index_limits) == {300}
    assert 12 * 100_000 <= peak <= index_bytes(program) + 4096


@pytest.mark.parametrize(
    ("dtype", "per_sample"), [(np.float32, 12 * 4), (np.uint8, 2 * 12), (np.float64, 2 * 12 * 8)]
)
def test_conversion_is_counted(dtype: type, per_sample: int) -> None:
    # The copy that arrays make, the kept buffer of another type; labels of eight bytes have both.
    assert table(dtype).scratch_bytes(4) == 4 * (per_sample + 2 * 8)


def test_too_little_is_refused_with_the_numbers() -> None:
    source = table(np.uint8)
    need = source.scratch_bytes(4) + WORK_BYTES
    module = SimpleNamespace(memory_available=lambda: (need, "a limit"))
    take_room(module, 4, source, None)
    module = SimpleNamespace(memory_available=lambda: (need - 1, "a limit"))
    with pytest.raises(DoesNotFitError, match=f"a limit leaves {need - 1}: plan with a smaller"):
        take_room(module, 4, source, None)


def test_the_engine_counts_what_the_caller_takes() -> None:
    module = pytest.importorskip("armtrain._engine", reason="the engine is not built")
    assert module is engine_module()
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
    options = {"loss": nn.CrossEntropyLoss(), "optimizer": optim.SGD(lr=0.1)}
    plan = at.plan(net, input_shape=(1, 3, 4), batch_size=7, threads=3, **options)
    available, _ = module.memory_available()
    module.Engine(plan.to_bytes(), beside_bytes=1 << 20).close()
    for beside in (available, 2**64 - 1):
        said = rf"needs {plan.arena_bytes} bytes, the kernel \d+ for .* {beside} for batches"
        with pytest.raises(DoesNotFitError, match=said) as caught:
            module.Engine(plan.to_bytes(), beside_bytes=beside)
        kernel = int(str(caught.value).split("the kernel ")[1].split()[0])
        page_tables = plan.arena_bytes // 512
        assert page_tables // 16 + 2 * 32768 <= kernel <= page_tables + 2 * 32768 + 4 * 65536
