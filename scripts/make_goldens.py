"""Write the losses of the golden runs as PyTorch computes them, and factors of schedules.

Usage: python scripts/make_goldens.py [--check]

Needs PyTorch. `--check` writes nothing and exits 1 when a stored loss differs by more than 1e-6.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from tests.golden.runs import MODELS, RUNS, Run, batches, initial_weights  # noqa: E402
from tests.golden.schedules import LEARNING_RATE, SCHEDULES, TIMES  # noqa: E402

STORED = ROOT / "tests" / "golden" / "losses.json"
SCHEDULE_FACTORS = STORED.with_name("schedules.json")


def losses(run: Run, dtype: torch.dtype) -> list[float]:
    """Return the losses of one run."""
    model = MODELS[run.model](torch.nn).to(dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = torch.from_numpy(initial_weights(name, tuple(parameter.shape)))
            parameter.copy_(values.to(dtype))
    optimizer = getattr(torch.optim, run.optimizer)(model.parameters(), **run.options)
    result = []
    for x, labels in batches(run):
        optimizer.zero_grad()
        logits = model(torch.from_numpy(x).to(dtype))
        loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels).long())
        loss.backward()
        if run.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), run.clip_norm)
        if run.clip_value is not None:
            torch.nn.utils.clip_grad_value_(model.parameters(), run.clip_value)
        optimizer.step()
        result.append(loss.item())
    return result


def factors(name: str, options: dict[str, Any]) -> list[float]:
    """Return the learning rates of a schedule divided by the first one given."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], LEARNING_RATE, momentum=0.9)
    schedule = getattr(torch.optim.lr_scheduler, name)(optimizer, **options)
    result = []
    for _ in range(TIMES):
        result.append(optimizer.param_groups[0]["lr"] / LEARNING_RATE)
        optimizer.step()
        schedule.step()
    return result


def main(argv: list[str]) -> int:
    """Write or check the stored losses."""
    torch.set_num_threads(1)
    found = {
        name: {"float32": losses(run, torch.float32), "float64": losses(run, torch.float64)}
        for name, run in RUNS.items()
    }
    if "--check" not in argv:
        STORED.write_text(json.dumps(found, indent=1) + "\n")
        schedules = {text: factors(*made) for text, made in SCHEDULES.items()}
        SCHEDULE_FACTORS.write_text(json.dumps(schedules, indent=1) + "\n")
        return 0
    stored = json.loads(STORED.read_text())
    worst = max(
        abs(a / b - 1.0)
        for name, kinds in found.items()
        for kind, values in kinds.items()
        for a, b in zip(values, stored[name][kind], strict=True)
    )
    print(f"largest relative difference: {worst:.3g}")
    return int(worst > 1e-6)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
