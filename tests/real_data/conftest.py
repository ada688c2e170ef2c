"""Published data, fetched by `make real-data`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.real_data import SOURCES


@pytest.fixture(scope="session")
def folder_of() -> Callable[[str], Path]:
    """Return where a source lies; skips when it has not been fetched."""

    def find(name: str) -> Path:
        source = SOURCES[name]
        if not source.is_there():
            pytest.skip(f"{source.package} is not fetched: make real-data does that")
        return source.folder

    return find
