"""Class names and preparation travel with the weights, from both front ends, to predictions."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain.cli.main import main
from armtrain.errors import DataError
from armtrain.io.safetensors import read_metadata

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "build" / "armtrain-run"
NAMES = ("cherry", "apple", "banana")
SPEC = "csv:train.csv?label=fruit&normalize=standard"


def write_table(path: Path, rows: int, seed: int, names: tuple[str, ...] = NAMES) -> None:
    """Write fruit with weights and lengths that tell them apart."""
    rng = np.random.default_rng(seed)
    lines = ["grams;cm;fruit"]
    for i in range(rows):
        k = i % len(names)
        grams, cm = 100 + 80 * NAMES.index(names[k]), 9 - 3 * NAMES.index(names[k])
        values = (grams + rng.normal(), cm + 0.1 * rng.normal())
        lines.append(";".join(f"{v:.3f}".replace(".", ",") for v in values) + f";{names[k]}")
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder with two tables and a plan."""
    monkeypatch.chdir(tmp_path)
    write_table(Path("train.csv"), 60, 0)
    write_table(Path("test.csv"), 9, 1, ("cherry", "banana"))
    at.plan(
        nn.Sequential(nn.Linear(2, 3)),
        input_shape=(2,),
        batch_size=8,
        loss=nn.CrossEntropyLoss(),
        optimizer=optim.SGD(lr=0.3),
        threads=1,
    ).save("f.plan")
    return tmp_path


def train(*more: str) -> int:
    """Train from the table with the command line."""
    return main(["train", "f.plan", "--data", SPEC, "--epochs", "4", *more])


def test_predictions_print_names(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train("--validation", "csv:test.csv", "--save", "w.safetensors", "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[-1]["val_accuracy"] == 1.0
    Path("new.csv").write_text("cm;extra;grams\n9,1;x;100\n3;y;258,5\n6;z;179\n")
    args = ["predict", "f.plan", "--weights", "w.safetensors", "--data", "csv:new.csv"]
    assert main(args) == 0
    assert capsys.readouterr().out.split() == list(NAMES[:1] + NAMES[2:] + NAMES[1:2])
    assert main([*args, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"samples": 3, "labels": [2, 1, 0], "classes": sorted(NAMES)}
    assert main(["evaluate", "f.plan", "--weights", "w.safetensors", "--data", "csv:test.csv"]) == 0
    assert "accuracy 100.00 %" in capsys.readouterr().out


def test_both_front_ends_write_the_same_weights_and_names(folder: Path) -> None:
    assert train("--validation", "csv:test.csv", "--save", "table.safetensors") == 0
    assert main(["convert-data", SPEC, "-o", "train.npz"]) == 0
    assert main(["convert-data", "csv:test.csv", "--like", "train.npz", "-o", "test.npz"]) == 0
    options = ["--data", "npz:train.npz", "--validation", "npz:test.npz", "--epochs", "4"]
    best = ["--keep-best", "npz.best"]
    assert main(["train", "f.plan", *options, *best, "--save", "npz.safetensors"]) == 0
    done = subprocess.run(
        [str(RUN), "f.plan", *options, "--keep-best", "run.best", "--save", "run.safetensors"],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    files = [Path(f"{name}.safetensors").read_bytes() for name in ("table", "npz", "run")]
    assert files[0] == files[1] == files[2]
    assert Path("npz.best").read_bytes() == Path("run.best").read_bytes()
    kept = read_metadata("run.best")
    assert kept.pop("armtrain.best").startswith("seed 0, epoch ")
    assert kept == read_metadata("run.safetensors")
    assert json.loads(read_metadata("run.safetensors")["armtrain.classes"]) == sorted(NAMES)


def test_another_numbering_of_a_validation_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert-data", SPEC, "-o", "train.npz"]) == 0
    assert main(["convert-data", "csv:test.csv?label=fruit", "-o", "test.npz"]) == 0
    options = ["--data", "npz:train.npz", "--validation", "npz:test.npz", "--epochs", "1"]
    capsys.readouterr()
    assert main(["train", "f.plan", *options]) == 1
    assert "convert-data SPEC --like" in capsys.readouterr().err
    done = subprocess.run(
        [str(RUN), "f.plan", *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "convert-data SPEC --like" in done.stderr


@pytest.mark.parametrize("like", ["train.npz", "m.json", "w.safetensors"])
def test_like_takes_what_a_training_left(folder: Path, like: str) -> None:
    assert train("--save", "w.safetensors") == 0
    assert main(["convert-data", SPEC, "-o", "train.npz"]) == 0
    assert main(["check-data", SPEC, "-o", "m.json"]) == 0
    assert main(["convert-data", "csv:test.csv", "--like", like, "-o", "test.npz"]) == 0
    with np.load("test.npz") as arrays:
        assert sorted(set(arrays["y"].tolist())) == [1, 2]


def test_like_needs_names(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert-data", "digits", "-o", "d.npz"]) == 0
    assert main(["convert-data", "csv:test.csv", "--like", "d.npz", "-o", "t.npz"]) == 1
    assert "keeps no class names" in capsys.readouterr().err
    args = ["convert-data", "csv:test.csv", "--like", "d.npz", "-o", "d.npz"]
    assert main(args) == 2
    assert main(["convert-data", SPEC, "-o", "train.npz"]) == 0
    assert main(["convert-data", "npz:d.npz", "--like", "train.npz", "-o", "e.npz"]) == 2


def test_names_follow_loading_and_saving(folder: Path) -> None:
    trainer = at.Trainer("f.plan")
    trainer.fit(SPEC, 1, progress=False)
    assert trainer.classes == tuple(sorted(NAMES))
    trainer.save("a.safetensors")
    other = at.Trainer("f.plan")
    assert other.classes == ()
    other.load("a.safetensors")
    other.save("b.safetensors")
    assert Path("a.safetensors").read_bytes() == Path("b.safetensors").read_bytes()
    other.fit((np.zeros((3, 2), np.float32), [0, 1, 2]), 1, progress=False)
    assert other.classes == ()


def test_a_refused_training_leaves_the_names(folder: Path) -> None:
    trainer = at.Trainer("f.plan")
    trainer.fit(SPEC, 1, progress=False)
    write_table(Path("two.csv"), 6, 3, ("cherry", "apple"))
    with pytest.raises(DataError, match="none of the 2 classes"):
        trainer.fit("csv:two.csv?label=fruit", 1, validation="csv:test.csv", progress=False)
    assert trainer.classes == tuple(sorted(NAMES))


def test_damaged_names_are_refused_before_weights_change(folder: Path) -> None:
    trainer = at.Trainer("f.plan")
    trainer.fit(SPEC, 1, progress=False)
    trainer.save("a.safetensors")
    data = Path("a.safetensors").read_bytes()
    Path("a.safetensors").write_bytes(data.replace(b'\\"apple\\"', b'\\"apple ]'))
    before = trainer.state_dict()
    with pytest.raises(DataError, match="damaged"):
        trainer.load("a.safetensors")
    assert all((before[k] == v).all() for k, v in trainer.state_dict().items())


def test_resuming_a_table_is_exact(folder: Path) -> None:
    whole = at.Trainer("f.plan")
    whole.fit(SPEC, 3, progress=False)
    first = at.Trainer("f.plan")
    first.fit(SPEC, 2, checkpoint="c", checkpoint_every=3, progress=False)
    second = at.Trainer("f.plan")
    second.fit(SPEC, 3, checkpoint="c", resume=True, progress=False)
    whole.save("whole.safetensors")
    second.save("second.safetensors")
    assert Path("whole.safetensors").read_bytes() == Path("second.safetensors").read_bytes()


def test_predictions_of_folders_name_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    monkeypatch.chdir(tmp_path)
    for name, value in (("dark", 0), ("light", 255)):
        Path("d", name).mkdir(parents=True)
        image.new("L", (4, 4), value).save(f"d/{name}/{name}.png")
    at.plan(
        nn.Sequential(nn.Flatten(), nn.Linear(16, 2)),
        input_shape=(1, 4, 4),
        batch_size=2,
        loss=nn.CrossEntropyLoss(),
        optimizer=optim.SGD(lr=0.5),
        threads=1,
    ).save("f.plan")
    args = ["--data", "folder:d", "--epochs", "20", "--save", "w.safetensors"]
    assert main(["train", "f.plan", *args]) == 0
    Path("new").mkdir()
    image.new("RGB", (8, 8), (255, 255, 255)).save("new/1.png")
    image.new("RGB", (8, 8), (0, 0, 0)).save("new/2.png")
    capsys.readouterr()
    predict = ["predict", "f.plan", "--weights", "w.safetensors", "--data", "folder:new"]
    assert main(predict) == 0
    assert capsys.readouterr().out == "new/1.png\tlight\nnew/2.png\tdark\n"
    assert main([*predict, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["files"] == ["new/1.png", "new/2.png"]
    assert told["labels"] == [1, 0]
