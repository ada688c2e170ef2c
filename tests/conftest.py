"""Settings for every test: Hypothesis profiles and the paths of built programs."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

for _name, _examples in (("emulated", 5), ("fast", 50), ("ci", 200), ("nightly", 5000)):
    settings.register_profile(
        _name,
        max_examples=_examples,
        deadline=None,
        derandomize=_name != "nightly",
        suppress_health_check=[HealthCheck.too_slow],
    )
_default = "ci" if os.environ.get("CI") else "fast"
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", _default))


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> None:
    """Undo an ignored SIGINT, which a shell hands to background jobs and they to their children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the root of the source tree."""
    return ROOT
