"""Print the requirements of one extra of pyproject.toml, one a line.

Usage: python scripts/list_requirements.py EXTRA
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def requirements(extra: str) -> list[str]:
    """Return the requirement strings of the extra named `extra`."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras: dict[str, list[str]] = tomllib.load(file)["project"]["optional-dependencies"]
    return extras[extra]


if __name__ == "__main__":
    # No blanks: the output is split into words by the shell.
    print("\n".join(r.replace(" ", "") for r in requirements(sys.argv[1])))
