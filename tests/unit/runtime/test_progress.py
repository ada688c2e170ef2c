"""What a person sees: lines without a terminal, a bar with one, nothing when quiet."""

from __future__ import annotations

import io
import sys

import pytest

from armtrain.runtime.history import EpochRecord
from armtrain.runtime.progress import Bar, Lines, Quiet, default_progress

RECORD = EpochRecord(2, "c", 0.5, 0.25, 0.875, 1.5, 100.0, 1, 2, 0, 0)


def drive(progress: Quiet) -> None:
    """Send one epoch's events."""
    progress.begin(2, 3, 20, 0)
    progress.step(10, 0.6)
    progress.note("hello")
    progress.step(10, 0.4)
    progress.end(3, RECORD)
    progress.clear()


def test_lines() -> None:
    out = io.StringIO()
    drive(Lines(out))
    note, line = out.getvalue().splitlines()
    assert note == "hello"
    assert line.startswith("epoch 2/3  train loss 0.5000  val loss 0.2500  val accuracy 87.50 %")


def test_bar_goes_to_the_error_stream(capsys: pytest.CaptureFixture[str]) -> None:
    out = io.StringIO()
    drive(Bar(out))
    assert len(out.getvalue().splitlines()) == 2
    err = capsys.readouterr().err
    assert "20/20" in err or "10/20" in err or "0/20" in err


def test_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    drive(Quiet())
    assert capsys.readouterr() == ("", "")


def test_default_depends_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert type(default_progress()) is Bar
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    assert type(default_progress()) is Lines
