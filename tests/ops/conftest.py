"""Runs some cases of the table alone where the environment asks for it."""

from __future__ import annotations

import os

import pytest

WANTED = "ARMTRAIN_OP_CASES"  # names, with spaces between them


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what is of other cases; pytest counts them in its last line."""
    wanted = os.environ.get(WANTED, "").split()
    if not wanted:
        return
    others = []
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if "tests/ops/" in item.nodeid and parameters.get("name", wanted[0]) not in wanted:
            others.append(item)
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in set(others)]
