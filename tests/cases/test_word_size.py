"""Cases from real reports where a processor's word matters (ARCH-01 to 16, CKPT-12).

They run on this machine, and by the emulated suites on 32-bit and 64-bit ARM.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest

import armtrain as at
from armtrain import _engine, nn, optim
from armtrain.errors import DataError, DoesNotFitError
from armtrain.nn.losses import Loss

BITS = 8 * struct.calcsize("P")
YEAR_2042 = 2_300_000_000  # seconds, more than 31 bits hold


def plan_of(net: nn.Module, features: int, batch: int, loss: Loss | None = None) -> at.Plan:
    """Return a plan for one thread."""
    return at.plan(
        net,
        input_shape=(features,),
        batch_size=batch,
        loss=loss or nn.CrossEntropyLoss(),
        optimizer=optim.SGD(lr=0.1),
        threads=1,
    )


def test_arch_01_a_step_names_its_kernels() -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    trainer = at.Trainer(plan_of(net, 4, 2))
    assert np.isfinite(trainer.step(np.ones((2, 4), np.float32), np.array([0, 1])))
    assert trainer.info["kernel_level"] == _engine.kernel_levels()[-1]


def test_arch_06_signed_bytes_stay_signed(tmp_path: Path) -> None:
    values = np.array([0x80, 0xFF, 0x00, 0x7F], np.uint8).view(np.int8)
    np.savez(tmp_path / "d.npz", x=np.zeros((4, 4), np.float32), y=values)
    trainer = at.Trainer(plan_of(nn.Linear(4, 3), 4, 3))
    with pytest.raises(DataError, match=r"lie in -128\.\.127"):
        trainer.fit(f"npz:{tmp_path / 'd.npz'}", epochs=1)


def test_arch_08_floats_at_any_multiple_of_four() -> None:
    trainer = at.Trainer(plan_of(nn.Linear(19, 1, bias=False), 19, 1, nn.MSELoss()))
    trainer.load_state_dict({"weight": np.ones((1, 19), np.float32)})
    for place in (0, 4, 8, 12):
        memory = np.zeros(19 * 4 + 32, np.uint8)
        start = (place - memory.ctypes.data) % 16
        x = memory[start : start + 19 * 4].view(np.float32)
        x[:] = np.arange(1, 20)
        assert x.ctypes.data % 16 == place
        assert trainer.predict(x.reshape(1, 19)).tolist() == [[190.0]]


def test_arch_09_a_tensor_of_two_to_the_32_elements_has_its_true_size() -> None:
    plan = plan_of(nn.Linear(65536, 65536, bias=False), 65536, 1)
    assert plan.weights_bytes == 17_179_869_184
    assert 0 < plan.arena_bytes - 17_179_869_184 < 2**23  # its gradient is made block by block


@pytest.mark.skipif(BITS > 32, reason="a process of this machine can address any such arena")
@pytest.mark.parametrize("features", [23200, 32800, 65536])
def test_arch_09_what_cannot_be_addressed_is_refused(features: int) -> None:
    plan = plan_of(nn.Linear(features, features, bias=False), features, 1)
    said = f"{plan.arena_bytes} bytes, a 32-bit process can have at most {2**31 - 1}"
    with pytest.raises(DoesNotFitError, match=said):
        at.Trainer(plan)


def test_arch_10_labels_of_64_bits_do_not_wrap() -> None:
    trainer = at.Trainer(plan_of(nn.Linear(4, 3), 4, 3))
    x = np.zeros((3, 4), np.float32)
    assert np.isfinite(trainer.step(x, np.array([0, 1, 2], np.int64)))
    with pytest.raises(DataError, match=r"lie in 0\.\.4294967297"):
        trainer.step(x[:2], np.array([0, 4_294_967_297], np.int64))


def test_arch_16_the_last_record_beyond_four_gigabytes(tmp_path: Path) -> None:
    count, width, start = 5_000_000, 1000, 12
    path, labels = tmp_path / "x.idx", tmp_path / "y.idx"
    record = np.arange(width, dtype=np.uint16).astype(np.uint8)
    with path.open("wb") as file:
        file.write(struct.pack(">HBBII", 0, 8, 2, count, width))
        try:
            file.seek(start + (count - 1) * width)
            file.write(record.tobytes())
            file.flush()
        except OSError as error:
            pytest.skip(f"the file system of {tmp_path} has no sparse files of 5 GB: {error}")
    assert path.stat().st_size == start + 5_000_000_000
    labels.write_bytes(struct.pack(">HBBI", 0, 8, 1, count) + bytes(count - 1) + b"\2")
    x, y = np.empty((1, width), np.float32), np.empty(1, np.int32)
    trainer = at.Trainer(plan_of(nn.Linear(width, 3), width, 3))
    with trainer.open(f"idx:{path},{labels}", targets=True) as source:
        assert source.count == count
        source.read(np.array([count - 1]), x, y)
    assert np.array_equal(x[0], record.astype(np.float32) / np.float32(255))
    assert y[0] == 2


def test_a_file_dated_after_2038(tmp_path: Path) -> None:
    plan = plan_of(nn.Linear(4, 3), 4, 3)
    trainer = at.Trainer(plan, seed=3)
    path = tmp_path / "w.safetensors"
    trainer.save(str(path))
    try:
        os.utime(path, (YEAR_2042, YEAR_2042))
    except OverflowError as error:
        pytest.skip(f"this Python knows no such date: {error}")
    other = at.Trainer(plan, seed=4)
    other.load(str(path))
    assert other.state_dict()["weight"].tobytes() == trainer.state_dict()["weight"].tobytes()


def test_ckpt_12_steps_beyond_31_bits(tmp_path: Path) -> None:
    plan = plan_of(nn.Linear(4, 3), 4, 3).to_bytes()
    engine, other = _engine.Engine(plan, seed=3), _engine.Engine(plan, seed=4)
    engine.initialize()
    engine.set_state(step=3_000_000_000, position=5_000_000_000, loss_counted=5e9)
    engine.checkpoint_save(tmp_path, 2)
    assert [p.name for p in tmp_path.iterdir()] == ["step-003000000000.ckpt"]
    other.checkpoint_load(tmp_path)
    assert other.get_state() == engine.get_state()
