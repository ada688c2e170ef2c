"""The throttling word: forms, sources, and that unknown is not fine."""

from __future__ import annotations

from pathlib import Path

import pytest

from armtrain.board.throttling import CAPTURED_WORD, decode, parse_word, read_throttled


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("throttled=0x50005\n", 0x50005),
        ("50000\n", 0x50000),
        ("0x0", 0),
        ("0", 0),
        ("", None),
        ("VCHI initialization failed", None),
        ("throttled=", None),
    ],
)
def test_forms(text: str, word: int | None) -> None:
    assert parse_word(text) == word


def test_all_bits() -> None:
    state = decode(0xF000F)
    flags = ("under-voltage", "frequency capped", "throttled", "soft temperature limit")
    assert (state.now, state.since_boot) == (flags, flags)
    assert decode(1 << 19 | 1 << 1).now == ("frequency capped",)
    assert decode(1 << 19 | 1 << 1).since_boot == ("soft temperature limit",)


@pytest.mark.parametrize(
    "path",
    [
        "sys/devices/platform/soc/soc:firmware/get_throttled",
        "sys/devices/platform/soc@107c000000/soc@107c000000:firmware/get_throttled",
        CAPTURED_WORD,
    ],
)
def test_where_the_word_is_read(tmp_path: Path, path: str) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("50000\n")
    state = read_throttled(tmp_path)
    assert state is not None
    assert state.word == 0x50000


def test_nothing_to_read_is_unknown(tmp_path: Path) -> None:
    assert read_throttled(tmp_path) is None


@pytest.mark.parametrize(
    ("script", "word"), [("echo throttled=0x4", 4), ("exit 255", None), ("echo no", None)]
)
def test_the_firmware_is_asked_on_a_live_board(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, word: int | None
) -> None:
    program = tmp_path / "vcgencmd"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("armtrain.board.throttling._SYSFS", ())
    state = read_throttled()
    assert (state.word if state else None) == word


def test_a_live_machine_without_the_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("armtrain.board.throttling._SYSFS", ())
    assert read_throttled() is None
