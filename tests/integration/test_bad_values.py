"""A value that is not finite: the row of the user's data, or the divergence, is named."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.cli.main import main
from armtrain.data.digits import load_digits

RUN = Path(__file__).resolve().parents[2] / "build" / "armtrain-run"
ROW, ELEMENT, BATCH = 70, 19, 16


@pytest.fixture(scope="module")
def plan() -> at.Plan:
    return at.plan(
        nn.Sequential(nn.Flatten(), nn.Linear(64, 10)),
        input_shape=(1, 8, 8),
        batch_size=BATCH,
        loss=nn.CrossEntropyLoss(),
        optimizer=optim.SGD(lr=0.01),
        threads=1,
    )


def spoilt(value: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the digits with one bad value."""
    x, y = load_digits("train")
    x[ROW, 0, 2, 3] = value
    return x, y


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("call", ["fit", "validation", "evaluate", "predict", "step"])
def test_a_bad_input_names_the_row_of_the_users_data(
    plan: at.Plan, call: str, value: float
) -> None:
    x, y = spoilt(value)
    trainer = at.Trainer(plan, seed=0)
    calls: dict[str, tuple[Callable[[], object], str]] = {
        "fit": (
            lambda: trainer.fit((x, y), 1, preflight=False, progress=False),
            r"batch \d+ of epoch 1; check",
        ),
        "validation": (
            lambda: trainer.fit(
                "digits:test", 1, validation=(x, y), preflight=False, progress=False
            ),
            "batch 5 of the evaluation",
        ),
        "evaluate": (lambda: trainer.evaluate((x, y)), "batch 5 of the evaluation"),
        "predict": (lambda: trainer.predict(x), "batch 5 of the prediction"),
        "step": (lambda: trainer.step(x[64:80], y[64:80]), "the batch of this step"),
    }
    run, where = calls[call]
    row = ROW - 64 if call == "step" else ROW
    with pytest.raises(
        at.NonFiniteError,
        match=rf":x: row {row} \(counted from 0\) is not finite at element 19; .*\({where}",
    ) as caught:
        run()
    assert "learning rate" not in str(caught.value)


@pytest.mark.parametrize("validation", [False, True])
def test_bad_data_are_refused_before_the_first_step(plan: at.Plan, validation: bool) -> None:
    trainer = at.Trainer(plan, seed=0)
    before = trainer.state_dict()
    data = ("digits:train", spoilt(np.nan)) if validation else (spoilt(np.nan), None)
    with pytest.raises(at.NonFiniteError, match=rf":x: row {ROW} .*nothing was trained"):
        trainer.fit(data[0], 1, validation=data[1], progress=False)
    assert trainer._engine.get_state()["step"] == 0
    for name, array in trainer.state_dict().items():
        assert array.tobytes() == before[name].tobytes()


def test_a_diverged_loss_gets_advice_and_no_row(plan: at.Plan) -> None:
    x, y = load_digits("train")
    trainer = at.Trainer(plan, seed=0)
    with pytest.raises(at.NonFiniteError, match="lower the learning rate") as caught:
        trainer.fit((x * np.float32(1e38), y), 5, progress=False)
    assert "row" not in str(caught.value)
    assert "of epoch " in str(caught.value)


def test_a_loss_that_is_no_number_has_no_sign(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An infinity less another one is a NaN whose sign the processor chooses."""
    net = nn.Sequential(nn.Linear(1, 2, bias=False), nn.Linear(2, 1, bias=False))
    options = {"loss": nn.MSELoss(), "optimizer": optim.SGD(lr=0.1), "threads": 1}
    diverged = at.plan(net, input_shape=(1,), batch_size=4, **options)
    diverged.save(tmp_path / "m.plan")
    trainer = at.Trainer(diverged)
    trainer.load_state_dict(
        {"0.weight": np.array([[3e38], [-3e38]]), "1.weight": np.array([[1.0, 1.0]])}
    )
    trainer.save(tmp_path / "w")
    np.savez(tmp_path / "d.npz", x=np.full((4, 1), 3e38, np.float32), y=np.zeros((4, 1)))
    args = [f"{tmp_path}/m.plan", "--data", f"npz:{tmp_path}/d.npz", "--epochs", "1"]
    args += ["--weights", f"{tmp_path}/w"]
    assert main(["train", *args]) == 1
    said = capsys.readouterr().err
    done = subprocess.run([str(RUN), *args], capture_output=True, text=True, check=False)
    assert done.stderr == said.replace("armtrain train: ", "armtrain-run: ")
    assert "the loss after 0 steps is nan;" in said


def test_an_output_that_is_not_finite_names_the_row(plan: at.Plan) -> None:
    x, _ = load_digits("train")
    trainer = at.Trainer(plan, seed=0)
    state = {name: array * np.float32(1e30) for name, array in trainer.state_dict().items()}
    trainer.load_state_dict(state)
    x[:40] = 0
    with pytest.raises(at.NonFiniteError, match=r"output of row 40 \(counted from 0\)"):
        trainer.predict(x * np.float32(1e30))


@pytest.mark.parametrize("output", [False, True])
def test_predict_refuses_a_bad_row(
    plan: at.Plan, output: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x, _ = spoilt(np.nan)
    np.savez(tmp_path / "bad.npz", x=x)
    plan.save(tmp_path / "m.plan")
    at.Trainer(plan, seed=0).save(tmp_path / "w.safetensors")
    args = ["predict", f"{tmp_path}/m.plan", "--weights", f"{tmp_path}/w.safetensors"]
    args += ["--data", f"npz:{tmp_path}/bad.npz"]
    args += ["-o", f"{tmp_path}/out.npz"] if output else []
    assert main(args) == 1
    out, err = capsys.readouterr()
    assert f"row {ROW} (counted from 0)" in err
    assert len(out.splitlines()) <= ROW
    assert not (tmp_path / "out.npz").exists()


@pytest.mark.parametrize("options", [[], ["--no-preflight"]])
def test_both_front_ends_say_the_same(
    plan: at.Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    x, y = spoilt(np.nan)
    np.savez(tmp_path / "bad.npz", x=x, y=y)
    np.savez(tmp_path / "good.npz", x=np.zeros_like(x), y=y)
    plan.save(tmp_path / "m.plan")
    for data in (["bad.npz"], ["good.npz", "--validation", f"npz:{tmp_path}/bad.npz"]):
        args = [f"{tmp_path}/m.plan", "--data", f"npz:{tmp_path}/{data[0]}", *data[1:]]
        args += ["--epochs", "1", *options]
        assert main(["train", *args, "--json"]) == 1
        said = capsys.readouterr().err.splitlines()[-1].removeprefix("armtrain train: ")
        done = subprocess.run([str(RUN), *args], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1] == f"armtrain-run: {said}"
        assert f"bad.npz:x: row {ROW} (counted from 0) is not finite at element {ELEMENT}" in said


def test_a_huge_validation_loss_is_shown_whole(tmp_path: Path) -> None:
    plan = at.plan(
        nn.Linear(3, 1),
        input_shape=(3,),
        batch_size=4,
        loss=nn.MSELoss(),
        optimizer=optim.SGD(lr=0.1),
    )
    plan.save(tmp_path / "m.plan")
    x, y = np.random.default_rng(0).random((8, 3)), np.zeros((8, 1))
    np.savez(tmp_path / "t.npz", x=x, y=y)
    np.savez(tmp_path / "v.npz", x=x * 1e30, y=y)
    args = [str(RUN), "m.plan", "--data", "npz:t.npz", "--validation", "npz:v.npz", "--epochs", "1"]
    done = subprocess.run(
        [*args, "--log", "log"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    (loss,) = re.findall(r"val loss (\S+)", done.stdout)
    assert float(loss) == json.loads((tmp_path / "log").read_text())["val_loss"] > 1e50
