"""Write the plans of the hand-made test programs into a folder, for tests without a compiler.

Usage: python scripts/make_test_plans.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from armtrain.planfile.assemble import assemble  # noqa: E402
from armtrain.planfile.plan import Plan  # noqa: E402
from tests.plans import linear_regression, mlp_classifier  # noqa: E402


def main(argv: list[str]) -> int:
    """Write one plan file per program."""
    if len(argv) != 1:
        print("usage: make_test_plans.py FOLDER", file=sys.stderr)
        return 2
    folder = Path(argv[0])
    folder.mkdir(parents=True, exist_ok=True)
    programs = {
        "linreg": linear_regression(),
        "mlp": mlp_classifier(),
        "mlp_adam": mlp_classifier(threads=1, optimizer="adam"),
    }
    for name, program in programs.items():
        Plan.of(assemble(program)).save(folder / f"{name}.plan")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
