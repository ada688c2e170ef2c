"""Memory figures: this process alone, growth over its own baseline."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from armtrain.runtime.measure import PeakMeter, parse_status, read_memory

MIB = 1 << 20


def test_status_is_parsed() -> None:
    text = "Name:\tx\nVmHWM:\t  20 kB\nVmRSS:\t 10 kB\nRssAnon:\t 7 kB\nRssFile:\t 3 kB\n"
    use = parse_status(text)
    assert (use.peak_bytes, use.resident_bytes) == (20 * 1024, 10 * 1024)
    assert (use.anonymous_bytes, use.file_bytes) == (7 * 1024, 3 * 1024)


def test_unknown_is_zero() -> None:
    assert parse_status("").peak_bytes == 0


def test_growth_is_what_was_touched() -> None:
    big = np.ones(8 * MIB, np.uint8)
    del big
    meter = PeakMeter()
    block = np.ones(24 * MIB, np.uint8)
    growth = meter.growth()
    assert 23 * MIB < growth.growth_bytes < 27 * MIB
    assert meter.process_peak_bytes() >= growth.peak_bytes
    assert block[0] == 1


def test_peak_of_a_parent_is_not_inherited() -> None:
    code = (
        "import subprocess, sys\n"
        "block = bytearray(200 << 20)\n"
        "child = 'from armtrain.runtime.measure import read_memory; "
        "print(read_memory().peak_bytes)'\n"
        "print(subprocess.check_output([sys.executable, '-c', child], text=True))\n"
    )
    peak = int(subprocess.check_output([sys.executable, "-c", code], text=True))
    assert peak < 100 * MIB


def test_memory_of_this_process() -> None:
    use = read_memory()
    assert use.peak_bytes >= use.resident_bytes > MIB
