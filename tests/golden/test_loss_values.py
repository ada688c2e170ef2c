"""Every loss and its gradient against PyTorch's in double: the plan's reference, the engine.

And the loss of all samples in batches, as evaluations and epochs tell it, against PyTorch's of one
batch of them all: in both front ends.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.runtime.engine import engine_module
from tests.golden.loss_cases import BATCHES, FEATURES, LOSSES, LossCase, outputs, targets
from tests.tolerances.propagation import BoundingExecutor

RUN = Path(__file__).resolve().parents[2] / "build" / "armtrain-run"
STORED = json.loads((Path(__file__).parent / "loss_values.json").read_text())
PLANNED = max(BATCHES)
# Sums of a few dozen doubles; numbers here are below 100.
TOLERANCE = 1e-12


def test_every_case_is_stored() -> None:
    assert STORED.keys() == LOSSES.keys()


def plan_of(case: LossCase, batch_size: int = PLANNED, lr: float = 1.0) -> at.Plan:
    """Return a plan of a linear layer of one-hot samples.

    Its weight is the output, its gradient the output's; the first step with momentum keeps it.
    """
    return at.plan(
        nn.Sequential(nn.Linear(PLANNED, FEATURES, bias=False), nn.Unflatten(1, case.shape)),
        input_shape=(PLANNED,),
        batch_size=batch_size,
        loss=getattr(nn, case.loss)(**case.options),
        optimizer=optim.SGD(lr=lr, momentum=0.5),
    )


def weight(n: int) -> np.ndarray:
    """Return the weight that makes the outputs of n samples."""
    made = np.zeros((FEATURES, PLANNED))
    made[:, :n] = outputs(n).T
    return made


def stored(name: str, n: int) -> tuple[float, np.ndarray]:
    """Return PyTorch's loss and the weight's gradient."""
    loss, *slopes = STORED[name][str(n)]
    gradient = np.zeros((FEATURES, PLANNED))
    gradient[:, :n] = np.reshape(slopes, (n, FEATURES)).T
    return loss, gradient


@pytest.mark.parametrize("n", BATCHES)
@pytest.mark.parametrize("name", LOSSES)
def test_value_and_gradient(name: str, n: int) -> None:
    """Double against double, then float32 of each level under the bound of its arithmetic."""
    plan, x, target = plan_of(LOSSES[name]), np.eye(PLANNED)[:n], targets(LOSSES[name], n)
    loss, expected = stored(name, n)
    executor = BoundingExecutor(plan)
    executor.write("0.weight", weight(n))
    assert executor.evaluate_step(x, target)[0] == pytest.approx(loss, TOLERANCE)
    assert executor.train_step(x, target) == pytest.approx(loss, TOLERANCE)
    gradient, off = executor.gradients["0.weight"], executor.off
    np.testing.assert_allclose(gradient, expected, rtol=TOLERANCE, atol=TOLERANCE)
    assert not gradient[:, n:].any()
    data, kept = plan.to_bytes(), np.empty(expected.shape, np.float32)
    for level in engine_module().kernel_levels():
        engine = engine_module().Engine(data, seed=1, kernel_level=level)
        engine.initialize()
        engine.write("0.weight", weight(n).astype(np.float32))
        labels = np.ascontiguousarray(
            target, np.int32 if LOSSES[name].targets == "labels" else np.float32
        )
        found = engine.train_step(x.astype(np.float32), labels, n)
        assert abs(found - loss) <= off["loss"][0] + TOLERANCE, level
        engine.read("0.weight/momentum", kept)
        assert (np.abs(kept - expected) <= off["0.weight"] + TOLERANCE).all(), level


@pytest.mark.parametrize("batch_size", [1, 2, 3, 4])
@pytest.mark.parametrize("name", LOSSES)
def test_batches_have_the_mean_of_all_samples(name: str, batch_size: int, tmp_path: Path) -> None:
    """Whatever a batch's mean is divided by; at rate 0 the mean of an epoch's steps is the same."""
    case = LOSSES[name]
    x, y = np.eye(PLANNED, dtype=np.float32), targets(case, PLANNED)
    y = y if case.targets == "labels" else y.astype(np.float32)
    loss, _ = stored(name, PLANNED)
    whole = BoundingExecutor(plan_of(case))
    whole.write("0.weight", weight(PLANNED))
    whole.train_step(x, targets(case, PLANNED))
    off = whole.off["loss"][0] + TOLERANCE
    plan = plan_of(case, batch_size, lr=0.0)
    trainer = at.Trainer(plan)
    trainer.load_state_dict({"0.weight": weight(PLANNED)})
    assert abs(trainer.evaluate((x, y)).loss - loss) <= off
    plan.save(tmp_path / "m.plan")
    trainer.save(tmp_path / "w")
    np.savez(tmp_path / "d.npz", x=x, y=y)
    data = f"npz:{tmp_path}/d.npz"
    history = trainer.fit(data, 1, validation=data, progress=False)
    assert abs(history.train_loss[0] - loss) <= off
    assert history.val_loss == [trainer.evaluate((x, y)).loss]
    args = [str(RUN), f"{tmp_path}/m.plan", "--data", data, "--validation", data, "--epochs", "1"]
    args += ["--weights", f"{tmp_path}/w", "--json"]
    done = subprocess.run(args, check=True, capture_output=True, timeout=60)
    record = json.loads(done.stdout.splitlines()[0])
    assert record["train_loss"] == history.train_loss[0]
    assert record["val_loss"] == history.val_loss[0]
