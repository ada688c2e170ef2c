"""Time training steps of armtrain and PyTorch side by side in one run, and print ratios.

Usage: python tests/bench/compare_torch.py [--repeats N] [--json]

Both train the same network on the same random batch of 32 with plain SGD on one thread, taking
turns, so that a busy machine slows both alike. Figures are medians of CPU time; only the ratio
means something on a shared machine. PyTorch must be installed: pip install torch==2.13.0
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import armtrain as at
from armtrain import nn, optim

BATCH = 32


def lenet5(n: Any) -> Any:
    """Return LeNet-5 made from the layers of module `n`."""
    return n.Sequential(
        *(n.Conv2d(1, 6, 5), n.ReLU(), n.AvgPool2d(2)),
        *(n.Conv2d(6, 16, 5), n.ReLU(), n.AvgPool2d(2), n.Flatten()),
        *(n.Linear(256, 120), n.ReLU(), n.Linear(120, 84), n.ReLU(), n.Linear(84, 10)),
    )


def mlp(n: Any) -> Any:
    """Return a 784-512-512-10 perceptron."""
    return n.Sequential(
        *(n.Flatten(), n.Linear(784, 512), n.ReLU()),
        *(n.Linear(512, 512), n.ReLU(), n.Linear(512, 10)),
    )


def vgg16(n: Any) -> Any:
    """Return VGG16 for 32x32 images, without batch norm."""
    layers: list[Any] = []
    channels = 3
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            layers += [n.Conv2d(channels, width, 3, padding=1), n.ReLU()]
            channels = width
        layers.append(n.MaxPool2d(2))
    head = (n.Linear(512, 512), n.ReLU(), n.Linear(512, 512), n.ReLU(), n.Linear(512, 10))
    return n.Sequential(*layers, n.Flatten(), *head)


MODELS = {"lenet5": (lenet5, (1, 28, 28)), "mlp": (mlp, (1, 28, 28)), "vgg16": (vgg16, (3, 32, 32))}


def armtrain_step(build: Callable[[Any], Any], x: Any, y: Any) -> Callable[[], object]:
    """Return one training step of armtrain."""
    plan = at.plan(
        build(nn),
        input_shape=x.shape[1:],
        batch_size=BATCH,
        loss=nn.CrossEntropyLoss(),
        optimizer=optim.SGD(lr=0.01),
        threads=1,
    )
    trainer = at.Trainer(plan, seed=0)
    return lambda: trainer.step(x, y)


def torch_step(build: Callable[[Any], Any], x: Any, y: Any) -> Callable[[], object]:
    """Return one training step of PyTorch."""
    import torch

    torch.set_num_threads(1)
    model = build(torch.nn)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss_of = torch.nn.CrossEntropyLoss()
    batch, labels = torch.from_numpy(x), torch.from_numpy(y)

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_of(model(batch), labels)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def compare(name: str, repeats: int) -> dict[str, Any]:
    """Return median CPU milliseconds of both and their ratio."""
    build, shape = MODELS[name]
    rng = np.random.default_rng(0)
    x = rng.random((BATCH, *shape), np.float32)
    y = rng.integers(0, 10, BATCH)
    steps = {"armtrain": armtrain_step(build, x, y), "torch": torch_step(build, x, y)}
    times: dict[str, list[float]] = {key: [] for key in steps}
    for _ in range(repeats + 3):
        for key, step in steps.items():
            start = time.process_time()
            step()
            times[key].append(time.process_time() - start)
    row: dict[str, Any] = {k: 1e3 * statistics.median(v[3:]) for k, v in times.items()}
    return {"model": name, **row, "ratio": row["armtrain"] / row["torch"]}


def main(argv: list[str]) -> int:
    """Compare all models."""
    parser = argparse.ArgumentParser(description="armtrain against PyTorch, one thread, batch 32")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    for name in MODELS:
        row = compare(name, options.repeats)
        if options.json:
            print(json.dumps(row))
        else:
            print(
                f"{row['model']:8s} armtrain {row['armtrain']:9.2f} ms  "
                f"torch {row['torch']:9.2f} ms  ratio {row['ratio']:.2f}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
