"""Train one workload in this process and print its peak: `python -m tests.bench.peak`.

Usage: python -m tests.bench.peak FRAMEWORK WORKLOAD F.plan

Only what a user of the framework imports is imported.
"""

from __future__ import annotations

import json
import sys

from tests.bench.workloads import WORKLOADS, make_batch

_STEPS = 3


def main(framework: str, key: str, plan: str) -> None:
    """Print the high-water mark of this process as JSON."""
    workload = WORKLOADS[key]
    if framework == "armtrain":
        import armtrain as at

        trainer, batch = at.Trainer(plan, seed=0), make_batch(workload)
        for _ in range(_STEPS):
            trainer.step(batch.x, batch.y)
        # A trainer resets the kernel's mark, to tell its growth, and remembers it.
        peak = trainer.process_peak_bytes()
    else:
        from armtrain.runtime.measure import read_memory
        from tests.bench.contenders import Torch, set_torch_threads

        set_torch_threads(1)
        net = Torch(workload, make_batch(workload), channels_last=framework == "torch-cl")
        for _ in range(_STEPS):
            net.step()
        peak = read_memory().peak_bytes
    print(json.dumps({"peak_bytes": peak}))


if __name__ == "__main__":
    main(*sys.argv[1:])
