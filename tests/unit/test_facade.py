"""The façade: every name loads, and loading the package alone loads next to nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

import armtrain as at


@pytest.mark.parametrize("name", at.__all__)
def test_every_name_loads(name: str) -> None:
    assert getattr(at, name) is not None
    assert name in dir(at)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Tensor'"):
        _ = at.Tensor


@pytest.mark.own_process
def test_import_is_light() -> None:
    code = (
        "import sys, armtrain\n"
        "print(*{'numpy', 'tqdm', 'argparse', 'json', 'asyncio'} & set(sys.modules))\n"
        "print(next(l.split()[1] for l in open('/proc/self/status') if l.startswith('VmHWM')))"
    )
    loaded, peak = subprocess.check_output([sys.executable, "-c", code], text=True).split("\n")[:2]
    assert loaded == ""
    assert int(peak) <= 32 * 1024
