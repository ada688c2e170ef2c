"""WAV folders: encodings, lengths, rates, and damaged files refused by name."""

from __future__ import annotations

import io
import struct
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from armtrain.data.about import About
from armtrain.data.findings import Opening
from armtrain.data.source import Expected, TableSource
from armtrain.data.spec import open_table, parse_spec
from armtrain.data.wav_files import read_header
from armtrain.errors import DataError


def wav(
    samples: bytes, *, bits: int = 16, tag: int = 1, channels: int = 1, rate: int = 8000
) -> bytes:
    """Return a file."""
    block = channels * bits // 8
    form = struct.pack("<HHIIHH", tag, channels, rate, rate * block, block, bits)
    body = b"WAVEfmt " + struct.pack("<I", 16) + form
    body += b"LIST" + struct.pack("<I", 3) + b"abc\0"  # another chunk, of an odd size
    body += b"data" + struct.pack("<I", len(samples)) + samples
    return b"RIFF" + struct.pack("<I", len(body)) + body


def int16(*values: int) -> bytes:
    """Return samples."""
    return np.array(values, "<i2").tobytes()


def put(root: Path, **files: bytes) -> None:
    """Store one file in each folder."""
    for name, content in files.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name / "1.wav").write_bytes(content)


def samples(source: TableSource) -> np.ndarray:
    """Return all inputs."""
    out = np.full((source.count, *source.x.row_shape), 7, np.float32)
    source.x.read(np.arange(source.count, dtype=np.uint64), out)
    return out


def open_sounds(root: Path, options: str = "", opening: Opening | None = None) -> TableSource:
    """Open a folder."""
    return open_table(parse_spec(f"wav:{root}?{options}"), opening)


@pytest.mark.parametrize(
    ("content", "want"),
    [
        (wav(bytes((0, 128, 255)), bits=8), [-1, 0, 127 / 128]),
        (wav(int16(-32768, 0, 32767)), [-1, 0, 32767 / 32768]),
        (wav(bytes.fromhex("000080000000ffff7f"), bits=24), [-1, 0, 8388607 / 8388608]),
        (wav(np.array([-(2**31), 0, 2**30], "<i4").tobytes(), bits=32), [-1, 0, 0.5]),
        (wav(np.array([-1.5, 0, 0.25], "<f4").tobytes(), bits=32, tag=3), [-1.5, 0, 0.25]),
        (wav(int16(1, 3, 100, -100, -8, -4), channels=2), [2 / 32768, 0, -6 / 32768]),
    ],
    ids=("u8", "s16", "s24", "s32", "float", "stereo"),
)
def test_encodings(tmp_path: Path, content: bytes, want: list[float]) -> None:
    put(tmp_path, word=content)
    with open_sounds(tmp_path) as source:
        assert samples(source).tolist() == [[np.array(want, np.float32).tolist()]]


@pytest.mark.parametrize(
    ("align", "want"),
    [
        ("start", [[1, 2, 3], [9, 0, 0]]),
        ("middle", [[2, 3, 4], [0, 9, 0]]),
        ("end", [[3, 4, 5], [0, 0, 9]]),
    ],
)
def test_lengths(tmp_path: Path, align: str, want: list[list[int]]) -> None:
    put(tmp_path, a=wav(int16(1, 2, 3, 4, 5)), b=wav(int16(9)))
    with pytest.raises(DataError, match="1 to 5 frames, half of them up to 1; say length=N"):
        open_sounds(tmp_path)
    with open_sounds(tmp_path, f"length=3&align={align}") as source:
        assert (samples(source)[:, 0] * 32768).tolist() == want
        assert any("cut to 3: 1, filled up to 3: 1" in note for note in source.notes)
    with open_sounds(tmp_path, opening=Opening(wanted=(1, 4))) as source:
        source.check(Expected((1, 4), 2), targets=True)
    with pytest.raises(DataError, match="say length=N"):
        open_sounds(tmp_path, opening=Opening(wanted=(2, 2)))


def test_another_rate_is_refused(tmp_path: Path) -> None:
    put(tmp_path, a=wav(int16(1)), b=wav(int16(1), rate=44_100))
    with pytest.raises(DataError, match=r"b/1\.wav: 44100 frames a second, 8000 are wanted"):
        open_sounds(tmp_path)
    with pytest.raises(DataError, match=r"a/1\.wav: 8000 frames a second, 44100 are wanted"):
        open_sounds(tmp_path, "rate=44100")


def test_predictions_follow_the_training(tmp_path: Path) -> None:
    put(tmp_path / "train", a=wav(int16(1, 2, 3)), b=wav(int16(1)))
    put(tmp_path, new=wav(int16(1, 2)))
    with open_sounds(tmp_path / "train", "length=2&align=end") as source:
        like = About.from_metadata("w", source.about.to_metadata())
    with open_sounds(tmp_path / "new", opening=Opening(targets=False, like=like)) as source:
        assert (samples(source) * 32768).tolist() == [[[1, 2]]]
    with pytest.raises(DataError, match="weights were trained with length=2"):
        open_sounds(tmp_path / "new", "length=3", Opening(targets=False, like=like))
    broken = About("wav", ("a",), {"length": "x", "rate": 8000, "align": "end"})
    with pytest.raises(DataError, match="preparation of sounds is damaged"):
        open_sounds(tmp_path / "new", opening=Opening(targets=False, like=broken))


GOOD = wav(int16(1, 2, 3))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the file is empty"),
        (b"OggS" + GOOD, "it is no WAV file: it starts with b'OggS"),
        (GOOD[:-2], "it is cut off: 6 B of samples are said to be there, 4 B are"),
        (GOOD[:20], "its format takes 0 B"),
        (GOOD[:40], "it has no samples in its 40 B"),
        (GOOD[:12], "it has no format in its 12 B"),
        (wav(b""), "it holds no samples"),
        (wav(b"\0" * 8, bits=64), "its samples have encoding 1 with 64 bits"),
        (wav(b"\0" * 8, bits=8, tag=7), "its samples have encoding 7 with 8 bits"),
        (wav(int16(1), rate=0), "its format is damaged"),
        (wav(int16(1)).replace(b"\1\0\x40\x1f", b"\0\0\x40\x1f"), "its format is damaged: 0"),
    ],
    ids=lambda value: value if isinstance(value, str) else "file",
)
def test_damaged_files_are_named(tmp_path: Path, content: bytes, reason: str) -> None:
    put(tmp_path, a=GOOD, b=content)
    with pytest.raises(DataError) as refused:
        open_sounds(tmp_path)
    assert f"b/1.wav: {reason}" in str(refused.value)
    with open_sounds(tmp_path, "bad=skip") as source:
        assert source.count == 1


def test_no_cut_or_changed_byte_escapes() -> None:
    rng = np.random.default_rng(0)
    with tempfile.TemporaryFile(buffering=0) as file:
        for _ in range(100):
            data = bytearray(GOOD[: rng.integers(1, len(GOOD) + 1)])
            data[rng.integers(len(data))] = rng.integers(256)
            file.truncate(0)
            file.seek(0)
            file.write(data)
            with suppress(ValueError):
                sound = read_header(file)
                size = sound.frames * sound.channels * sound.bits // 8
                assert sound.offset + size <= len(data)


def test_a_file_that_changes_later_is_named(tmp_path: Path) -> None:
    put(tmp_path, a=GOOD)
    with open_sounds(tmp_path) as source:
        put(tmp_path, a=b"RIFF")
        with pytest.raises(DataError, match=r"a/1\.wav became unusable"):
            samples(source)
        put(tmp_path, a=wav(int16(1, 2, 3), rate=9))
        with pytest.raises(DataError, match="9 frames a second now"):
            samples(source)


def test_written_by_the_standard_library(tmp_path: Path) -> None:
    import wave

    made = io.BytesIO()
    with wave.open(made, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(3)
        file.setframerate(8000)
        file.writeframes(bytes.fromhex("000040"))
    put(tmp_path, a=made.getvalue())
    with open_sounds(tmp_path) as source:
        assert samples(source).tolist() == [[[0.5]]]


def test_files_that_cannot_be_read_are_named_with_the_others(tmp_path: Path) -> None:
    put(tmp_path, a=GOOD, b=b"")
    (tmp_path / "a" / "gone.wav").symlink_to(tmp_path / "nowhere.wav")
    with pytest.raises(DataError, match=r"2 bad place.*gone\.wav: cannot read.*1\.wav: the file"):
        open_sounds(tmp_path)
