"""Augmentation: as defined (a twin in NumPy), alike in both front ends and after a resume."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import armtrain as at
from armtrain import nn, optim
from armtrain._engine import Augmenter
from armtrain.cli.main import main
from armtrain.data.augment import Augment, augment_of
from armtrain.nn.functional import cat
from armtrain.runtime.reference.random import normal, philox, stream_of_name

RUN = Path(__file__).resolve().parents[2] / "build" / "armtrain-run"
SHAPE, SEED = (2, 5, 7), 9
TEXTS = ["flip", "shift=2", "crop=3", "noise=0.25", "flip,shift=1,crop=2,noise=0.1"]


def below(word: int, n: int) -> int:
    return word * n >> 32


def twin(what: Augment, seed: int, epoch: int, sample: int, image: np.ndarray) -> np.ndarray:
    """Return a changed image: the window cut out and stretched, moved, mirrored, without noise."""
    stream = (stream_of_name("augment") + epoch) % 2**64
    blocks = np.array([2 * sample, 2 * sample + 1], np.uint64)
    word = [int(w) for w in philox(seed, stream, blocks).reshape(-1)]
    _, height, width = image.shape

    def window(size: int, smaller: int, place: int) -> np.ndarray:
        if size == 1:
            return np.zeros(1, int)
        short = size - below(smaller, what.crop + 1)
        return below(place, size - short + 1) + np.arange(size) * short // size

    def moved(array: np.ndarray, axis: int, by: int) -> np.ndarray:
        out, size = np.zeros_like(array), array.shape[axis]
        for to in range(size):
            if 0 <= to - by < size:
                target = [slice(None)] * 3
                target[axis] = slice(to, to + 1)
                out[tuple(target)] = array.take([to - by], axis)
        return out

    rows, columns = window(height, word[3], word[5]), window(width, word[4], word[6])
    out = image[:, rows][:, :, columns]
    if height > 1:
        out = moved(out, 1, below(word[2], 2 * what.shift + 1) - what.shift)
    if width > 1:
        out = moved(out, 2, below(word[1], 2 * what.shift + 1) - what.shift)
    return out[:, :, ::-1] if what.flip and word[0] & 1 else out


def apply(what: Augment, epoch: int, rows: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return what the engine makes of a batch."""
    augmenter = Augmenter(
        x.shape[1:], flip=what.flip, shift=what.shift, crop=what.crop, noise=what.noise
    )
    out = x.copy()
    augmenter.apply(SEED, epoch, rows.astype(np.uint64), out, np.empty(x[0].size, np.float32))
    return out


@pytest.mark.parametrize("shape", [SHAPE, (3, 1, 6), (2, 6, 1), (1, 4, 4)])
@pytest.mark.parametrize("text", [t for t in TEXTS if "noise" not in t] + ["flip,shift=1,crop=2"])
def test_pixels_go_where_the_definition_says(text: str, shape: tuple[int, ...]) -> None:
    what = augment_of(text)
    assert what is not None
    x = np.random.default_rng(0).random((40, *shape), np.float32)
    rows = np.arange(100, 140)
    for epoch in (0, 3):
        got = apply(what, epoch, rows, x)
        for i, row in enumerate(rows.tolist()):
            np.testing.assert_array_equal(got[i], twin(what, SEED, epoch, row, x[i]))


def test_every_place_and_both_directions_occur() -> None:
    x = np.zeros((400, 1, 5, 5), np.float32)
    x[:, 0, 2, 2] = 1
    hits = apply(Augment(shift=2), 0, np.arange(400), x).sum(axis=(0, 1))
    assert (hits > 400 / 25 / 3).all()
    left = np.zeros((400, 1, 1, 2), np.float32)
    left[..., 0] = 1
    share = apply(Augment(flip=True), 0, np.arange(400), left)[..., 1].mean()
    assert 0.4 < share < 0.6


def test_noise_is_the_generators_normal() -> None:
    x = np.random.default_rng(0).random((4, *SHAPE), np.float32)
    got = apply(Augment(noise=0.25), 2, np.arange(4), x)
    stream = (stream_of_name("augment noise") + 2) % 2**64
    want = x + np.float32(0.25) * normal(SEED, stream, x.size).reshape(x.shape)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-6)


def test_a_sample_does_not_depend_on_its_batch_and_changes_with_the_epoch() -> None:
    what = augment_of(TEXTS[-1])
    assert what is not None
    x = np.random.default_rng(1).random((6, *SHAPE), np.float32)
    rows = np.array([5, 3, 900, 0, 2, 1])
    whole = apply(what, 1, rows, x)
    for i in range(6):
        alone = apply(what, 1, rows[i : i + 1], x[i : i + 1])
        assert alone.tobytes() == whole[i : i + 1].tobytes()
    assert apply(what, 2, rows, x).tobytes() != whole.tobytes()
    assert apply(Augment(), 1, rows, x).tobytes() == x.tobytes()


def make_plan(path: Path) -> str:
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(45, 4))
    options = {"loss": nn.CrossEntropyLoss(), "optimizer": optim.SGD(lr=0.1, momentum=0.9)}
    at.plan(net, input_shape=SHAPE, batch_size=8, threads=1, **options).save(path / "m.plan")
    return str(path / "m.plan")


def trained(path: Path, data: str, *epochs: int, **options: Any) -> bytes:
    """Return the weights of trainings that reach `epochs` one after the other."""
    name = f"{options.get('augment')}-{epochs}"
    for until in epochs:
        trainer = at.Trainer(make_plan(path), seed=SEED)
        options |= {"checkpoint": path / name, "resume": True, "progress": False}
        trainer.fit(data, until, **options)
    trainer.save(path / "w")
    return (path / "w").read_bytes()


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", ["random:samples=21,seed=3", "npz"])
def test_both_front_ends_and_a_resumed_run_give_the_same_bits(
    tmp_path: Path, kind: str, text: str
) -> None:
    rng = np.random.default_rng(2)
    x = rng.integers(0, 256, (21, *SHAPE)).astype(np.uint8)
    np.savez(tmp_path / "d.npz", x=x, y=np.arange(21) % 4)
    data = f"npz:{tmp_path}/d.npz" if kind == "npz" else kind
    whole = trained(tmp_path, data, 3, augment=text)
    assert trained(tmp_path, data, 1, 2, 3, augment=text) == whole
    args = [str(RUN), make_plan(tmp_path), "--data", data, "--epochs", "3", "--seed", str(SEED)]
    args += ["--augment", text, "--save", str(tmp_path / "c")]
    subprocess.run(args, check=True, capture_output=True)
    assert (tmp_path / "c").read_bytes() == whole
    assert trained(tmp_path, data, 3) != whole


@pytest.mark.parametrize("front", ["run", "python"])
@pytest.mark.parametrize(
    ("first", "then", "said"),
    [
        ("flip,shift=1", "shift=1,flip", None),
        (None, "shift=0", None),
        ("shift=1", "shift=2", "under other random changes"),
        ("noise=0.5", "noise=0.25", "under other random changes"),
        (
            "flip",
            None,
            "under some random changes of the training inputs (augmentation), this run has none",
        ),
        (
            None,
            "crop=1",
            "under no random changes of the training inputs (augmentation), this run has some",
        ),
    ],
)
def test_a_resume_under_other_changes_is_told(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    front: str,
    first: str | None,
    then: str | None,
    said: str | None,
) -> None:
    args = [make_plan(tmp_path), "--data", "random:samples=8", "--checkpoint", f"{tmp_path}/c"]
    heard = ""
    for epochs, text in (("1", first), ("2", then)):
        words = [*args, "--epochs", epochs, "--resume"]
        words += [] if text is None else ["--augment", text]
        if front == "python":
            assert main(["train", *words]) == 0
            heard = "".join(capsys.readouterr())
        else:
            done = subprocess.run([str(RUN), *words], capture_output=True, text=True, check=True)
            heard = done.stdout + done.stderr
    assert (said in heard) if said else ("(augmentation)" not in heard)
    assert "training data are not those" not in heard


def test_both_front_ends_store_the_same_sum_of_the_data(tmp_path: Path) -> None:
    """Of the samples as they are: whoever resumes finds the same data, and writes the same file."""
    data, text = "random:samples=21,seed=3", TEXTS[-1]
    trained(tmp_path, data, 2, augment=text)
    args = [str(RUN), make_plan(tmp_path), "--data", data, "--seed", str(SEED), "--resume"]
    args += ["--augment", text, "--checkpoint", f"{tmp_path}/c", "--epochs", "2"]
    subprocess.run(args, check=True, capture_output=True)
    (ours,), (theirs,) = (
        (path.read_bytes() for path in sorted((tmp_path / name).glob("*.ckpt"))[-1:])
        for name in ("c", f"{text}-(2,)")
    )
    assert ours == theirs


def test_in_the_middle_of_an_epoch_too(tmp_path: Path) -> None:
    data = "random:samples=21,seed=3"
    whole = trained(tmp_path, data, 2, augment=TEXTS[-1])

    class Stop:
        def on_step_end(self, step: int, logs: dict[str, Any]) -> None:
            if step == 5:
                raise RuntimeError("power cut")

    trainer = at.Trainer(make_plan(tmp_path), seed=SEED)
    options = {"checkpoint": tmp_path / "c", "resume": True, "progress": False}
    with pytest.raises(at.ArmtrainError, match="power cut"):
        trainer.fit(data, 2, augment=TEXTS[-1], callbacks=[Stop()], **options)
    trainer = at.Trainer(make_plan(tmp_path), seed=SEED)
    trainer.fit(data, 2, augment=TEXTS[-1], **options)
    trainer.save(tmp_path / "w")
    assert (tmp_path / "w").read_bytes() == whole


def test_validation_is_never_changed(tmp_path: Path) -> None:
    trainer = at.Trainer(make_plan(tmp_path), seed=SEED)
    data = "random:samples=20"
    history = trainer.fit(data, 1, validation=data, augment="noise=5,flip", progress=False)
    assert history.val_loss == [trainer.evaluate(data).loss]


@pytest.mark.parametrize("front", ["run", "python"])
@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("rotate=3", 2, "'rotate=3' is unknown"),
        ("flip,flip", 2, "'flip' is unknown or given twice"),
        ("flip=1", 2, "'flip=1'"),
        ("shift", 2, "'shift'"),
        ("", 2, ""),
        ("flip,", 2, "'' is unknown"),
        ("shift=-1", 2, "shift needs a whole number from 0 to 65535, got '-1'"),
        ("crop=65536", 2, "crop"),
        ("noise=1e400", 2, "noise needs a"),
        ("noise=1e-60", 2, "noise"),
        ("noise=nan", 2, "noise needs a number from 0 to 1000, got 'nan'"),
        ("shift=5", 1, "shift=5 leaves nothing of samples whose shorter side has 5 pixels: at"),
        ("shift=1,crop=6", 1, "crop=6 leaves nothing"),
    ],
)
def test_refusals(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    front: str,
    text: str,
    code: int,
    said: str,
) -> None:
    args = [make_plan(tmp_path), "--data", "random:", "--epochs", "1", "--augment", text]
    if front == "run":
        done = subprocess.run([str(RUN), *args], capture_output=True, text=True, check=False)
        assert done.returncode == code
        assert said in done.stderr
        return
    if code == 2:
        with pytest.raises(SystemExit, match="2"):
            main(["train", *args])
    else:
        assert main(["train", *args]) == code
    assert said in capsys.readouterr().err


def test_rows_of_values_take_noise_alone() -> None:
    net = nn.Sequential(nn.Linear(4, 2))
    plan = at.plan(
        net, input_shape=(4,), batch_size=4, loss=nn.CrossEntropyLoss(), optimizer=optim.SGD(lr=0.1)
    )
    trainer = at.Trainer(plan)
    trainer.fit("random:", 1, augment={"noise": 0.1}, progress=False)
    for what in ("flip", Augment(shift=1)):
        with pytest.raises(at.ShapeError, match="noise alone"):
            trainer.fit("random:", 1, augment=what, progress=False)


class Rated(nn.Module):
    """A network of a number and an index."""

    def __init__(self) -> None:
        super().__init__()
        self.items, self.last = nn.Embedding(6, 3), nn.Linear(4, 1)

    def forward(self, x: Any) -> Any:
        """Return ratings."""
        return self.last(cat([x[:, :1], self.items(x[:, 1])], 1))


@pytest.mark.parametrize("front", ["run", "python"])
def test_noise_on_indices_is_refused_before_anything_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], front: str
) -> None:
    options = {"loss": nn.MSELoss(), "optimizer": optim.SGD(lr=0.1), "threads": 1}
    at.plan(Rated(), input_shape=(2,), batch_size=4, **options).save(tmp_path / "m.plan")
    x = np.full((8, 2), np.nan, np.float32)  # which the pre-flight would refuse
    np.savez(tmp_path / "d.npz", x=x, y=np.ones((8, 1), np.float32))
    args = [f"{tmp_path}/m.plan", "--data", f"npz:{tmp_path}/d.npz", "--epochs", "1"]
    args += ["--augment", "noise=0.1"]
    said = (
        "noise changes every element of an input, and element 1 is an index of an embedding whose "
        "rows are 0..5: leave noise out of the augmentation; nn.Dropout after the embedding "
        "changes what it gives\n"
    )
    if front == "run":
        done = subprocess.run([str(RUN), *args], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (1, f"armtrain-run: {said}")
    else:
        assert main(["train", *args]) == 1
        assert capsys.readouterr().err == f"armtrain train: {said}"


def test_what_moves_indices_alone_trains() -> None:
    net = nn.Sequential(nn.Embedding(6, 3), nn.Flatten(), nn.Linear(12, 1))
    options = {"loss": nn.MSELoss(), "optimizer": optim.SGD(lr=0.1), "threads": 1}
    trainer = at.Trainer(at.plan(net, input_shape=(1, 4), batch_size=4, **options))
    trainer.fit("random:", 1, augment="flip,shift=1,crop=1", progress=False)


@pytest.mark.parametrize(
    "value", [3, "blur", {"blur": 1}, {"flip": "yes"}, {"shift": 1.5}, {"noise": -1}]
)
def test_wrong_kinds(value: object) -> None:
    with pytest.raises(at.ArgumentError, match="augment"):
        augment_of(value)
