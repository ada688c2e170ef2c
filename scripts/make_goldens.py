"""Write what PyTorch computes: golden runs, factors of schedules, values of layers and losses.

The runs are computed in float32 and in double, values and gradients in double.

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

import numpy as np  # noqa: E402
import torch  # noqa: E402

from tests.golden import cosine_cases, embedding, metric_cases, soft_cases  # noqa: E402
from tests.golden.activations import (  # noqa: E402
    ACTIVATIONS,
    POINTS,
    UPSTREAM,
    make_activation,
)
from tests.golden.attention import (  # noqa: E402
    ATTENTION,
    attention_weights,
    make_attention,
    samples,
)
from tests.golden.layer_cases import (  # noqa: E402
    BATCH,
    LAYERS,
    LayerCase,
    numbers,
    start,
    upstream,
)
from tests.golden.loss_cases import BATCHES, LOSSES, LossCase, outputs, targets  # noqa: E402
from tests.golden.runs import MODELS, RUNS, Run, batches, initial_weights  # noqa: E402
from tests.golden.schedules import (  # noqa: E402
    LEARNING_RATE,
    MEASURED,
    PLATEAUS,
    SCHEDULES,
    TIMES,
)

STORED = ROOT / "tests" / "golden" / "losses.json"
DISTANCES = STORED.with_name("distances.json")
SCHEDULE_FACTORS = STORED.with_name("schedules.json")
PLATEAU_FACTORS = STORED.with_name("plateaus.json")
STORED_VALUES = STORED.with_name("loss_values.json")
STORED_SOFT = STORED.with_name("soft.json")
STORED_COSINES = STORED.with_name("cosine.json")
STORED_METRICS = STORED.with_name("metrics.json")
STORED_LAYERS = STORED.with_name("layer_values.json")
STORED_ATTENTION = STORED.with_name("attention.json")
STORED_EMBEDDINGS = STORED.with_name("embedding.json")
STORED_ACTIVATIONS = ROOT / "tests" / "golden" / "activations.json"


def train(run: Run, dtype: torch.dtype) -> tuple[list[float], torch.Tensor]:
    """Return the losses of one run and its last weights, one after the other."""
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
    return result, torch.nn.utils.parameters_to_vector(model.parameters()).detach().double()


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


def plateau(what: str, options: dict[str, Any]) -> list[float]:
    """Return the learning rates after each measured value divided by the first one."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], LEARNING_RATE)
    mode = "max" if what == "accuracy" else "min"
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode, eps=0.0, **options)
    result = []
    for value in MEASURED[what]:
        optimizer.step()
        schedule.step(value)
        result.append(optimizer.param_groups[0]["lr"] / LEARNING_RATE)
    return result


def values(case: LossCase) -> dict[str, list[float]]:
    """Return the loss and its gradient, one after the other, for every size of batch."""
    loss_of = getattr(torch.nn, case.loss)(**case.torch_options(torch.tensor))
    result = {}
    for n in BATCHES:
        y = torch.from_numpy(outputs(n)).requires_grad_()
        target = torch.from_numpy(targets(case, n))
        y_shaped = y.reshape(n, *case.shape)
        loss = loss_of(y_shaped, target.long() if case.labels else target)
        loss.backward()
        assert y.grad is not None
        result[str(n)] = [loss.item(), *y.grad.flatten().tolist()]
    return result


def difference(found: dict[str, dict[str, list[float]]], path: Path) -> float:
    """Return the largest relative difference from what is stored."""
    stored = json.loads(path.read_text())
    return max(
        abs(a - float(b)) / (abs(float(b)) or 1.0)
        for name, kinds in found.items()
        for kind, numbers in kinds.items()
        for a, b in zip(numbers, stored[name][kind], strict=True)
    )


def distance(found: dict[str, dict[str, list[float]]], path: Path) -> float:
    """Return the largest absolute difference from what is stored; NaN agrees with anything."""
    stored = json.loads(path.read_text())
    return max(
        float(np.nanmax(np.abs(np.array(values) - np.array(stored[name][kind]))))
        for name, kinds in found.items()
        for kind, values in kinds.items()
    )


def activation(name: str) -> dict[str, list[float]]:
    """Return values and gradients of one activation, in double.

    Point by point: PyTorch's vectors and single elements differ at infinity.
    """
    found: dict[str, list[float]] = {"y": [], "dx": []}
    for point in POINTS:
        x = torch.tensor([point], dtype=torch.float64, requires_grad=True)
        y = make_activation(torch.nn, name)(x)
        y.backward(torch.full_like(y, UPSTREAM))
        assert x.grad is not None
        found["y"].append(y.item())
        found["dx"].append(x.grad.item())
    return found


def layer(case: LayerCase) -> dict[str, list[float]]:
    """Return a layer's result `y`, gradients of its input `x` and of parameters, and buffers."""
    module = case.make(torch.nn).double()
    buffers = {name: b for name, b in module.named_buffers() if b.is_floating_point()}
    with torch.no_grad():
        for name, tensor in (*module.named_parameters(), *buffers.items()):
            tensor.copy_(torch.from_numpy(start(name, tuple(tensor.shape))))
    x = torch.from_numpy(numbers("x", (BATCH, *case.shape))).requires_grad_()
    y = module(x)
    targets_of = upstream((BATCH, y[0].numel()))
    y.backward(torch.from_numpy(targets_of.reshape(y.shape)) / -BATCH)
    gradients = {name: p.grad for name, p in module.named_parameters()}
    found = {"y": y, "x": x.grad, **gradients, **buffers}
    return {name: value.tolist() for name, value in found.items() if value is not None}


def metrics() -> dict[str, Any]:
    """Return the metrics of stored outputs, for each ignored label, and the balanced weights."""
    y, all_labels = (
        torch.from_numpy(metric_cases.outputs()),
        torch.from_numpy(metric_cases.labels()),
    )
    classes, found = metric_cases.CLASSES, {}
    for ignored in (-100, 1):
        kept, label = y[all_labels != ignored], all_labels[all_labels != ignored].long()
        hits = kept.topk(classes).indices == label[:, None]
        cells = torch.bincount(label * classes + kept.argmax(dim=1), minlength=classes**2)
        found[str(ignored)] = {
            **{f"top{k}": hits[:, :k].any(dim=1).double().mean().item() for k in (1, 2, 4)},
            "confusion": cells.reshape(classes, classes).tolist(),
        }
    mae = torch.nn.functional.l1_loss(y.double(), torch.from_numpy(metric_cases.values()).double())
    counts = torch.bincount(all_labels, minlength=classes).double()
    weights = (counts.sum() / (classes * counts)).tolist()
    return {**found, "mae": mae.item(), "class_weights": weights}


def cosine_embedding(margin: float, n: int) -> list[float]:
    """Return the loss of n pairs and its gradient, one after the other."""
    x = torch.from_numpy(cosine_cases.pairs(n)).requires_grad_()
    loss_of = torch.nn.CosineEmbeddingLoss(margin)
    loss = loss_of(x[:, 0], x[:, 1], torch.from_numpy(cosine_cases.SIGNS[:n, 0]))
    loss.backward()
    assert x.grad is not None
    return [loss.item(), *x.grad.flatten().tolist()]


def cosines(vanishing: bool) -> dict[str, list[float]]:
    """Return the cosines of pairs, and the gradient of their sum."""
    made = cosine_cases.pairs(max(cosine_cases.BATCHES), vanishing=vanishing)
    x = torch.from_numpy(made).requires_grad_()
    y = cosine_cases.cosines(torch.nn)(x)
    y.sum().backward()
    assert x.grad is not None
    return {"y": y.tolist(), "x": x.grad.tolist()}


def similarities() -> dict[str, Any]:
    """Return everything about cosines."""
    losses = {
        str(margin): {str(n): cosine_embedding(margin, n) for n in cosine_cases.BATCHES}
        for margin in cosine_cases.MARGINS
    }
    return {"loss": losses, "plain": cosines(False), "vanishing": cosines(True)}


def soft(options: dict[str, Any], n: int) -> list[float]:
    """Return the cross-entropy of n rows of probabilities and its gradient."""
    given = {k: torch.tensor(v).double() if k == "weight" else v for k, v in options.items()}
    y = torch.from_numpy(soft_cases.logits(n)).requires_grad_()
    loss = torch.nn.CrossEntropyLoss(**given)(y, torch.from_numpy(soft_cases.targets(n)))
    loss.backward()
    assert y.grad is not None
    return [loss.item(), *y.grad.flatten().tolist()]


def softs() -> dict[str, Any]:
    """Return every case of probabilities."""
    return {
        name: {str(n): soft(options, n) for n in soft_cases.BATCHES}
        for name, options in soft_cases.OPTIONS.items()
    }


def lines(found: dict[str, Any]) -> str:
    """Return JSON with a case a line."""
    rows = [f"{json.dumps(name)}: {json.dumps(values)}" for name, values in found.items()]
    return "{\n" + ",\n".join(rows) + "\n}\n"


def attention(name: str) -> dict[str, list[float]]:
    """Return the output of a network and the gradients of its mean square, in double."""
    net = make_attention(torch.nn, name).double()
    with torch.no_grad():
        for key, parameter in net.named_parameters():
            parameter.copy_(torch.from_numpy(attention_weights(key, tuple(parameter.shape))))
    output = net(torch.from_numpy(samples()))
    loss = torch.nn.functional.mse_loss(output, torch.zeros_like(output))
    loss.backward()
    gradients = {key: p.grad.flatten().tolist() for key, p in net.named_parameters()}
    return {"output": output.flatten().tolist(), **gradients}


def embedding_weights(case: embedding.EmbeddingCase) -> dict[str, list[float]]:
    """Return the weights after the steps of a network with a table, in double."""
    model = case.build(torch.nn).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(initial_weights(name, tuple(parameter.shape))))
    optimizer = getattr(torch.optim, case.optimizer)(model.parameters(), **case.options)
    for x, labels in embedding.batches():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(
            model(torch.from_numpy(x)), torch.from_numpy(labels)
        )
        loss.backward()
        if case.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), case.clip_norm)
        optimizer.step()
    return {name: p.detach().flatten().tolist() for name, p in model.named_parameters()}


def main(argv: list[str]) -> int:
    """Write or check the stored losses."""
    torch.set_num_threads(1)
    found, distances = {}, {}
    for name, run in RUNS.items():
        (losses, weights), (exact, ends) = train(run, torch.float32), train(run, torch.float64)
        found[name] = {"float32": losses, "float64": exact}
        distances[name] = torch.linalg.vector_norm(weights - ends).item()
    found_values = {name: values(case) for name, case in LOSSES.items()}
    tables = {name: embedding_weights(case) for name, case in embedding.CASES.items()}
    activations = {name: activation(name) for name in ACTIVATIONS}
    layers = {name: layer(case) for name, case in LAYERS.items()}
    attentions = {name: attention(name) for name in ATTENTION}
    if "--check" not in argv:
        STORED.write_text(json.dumps(found, indent=1) + "\n")
        DISTANCES.write_text(json.dumps(distances, indent=1) + "\n")
        schedules = {text: factors(*made) for text, made in SCHEDULES.items()}
        SCHEDULE_FACTORS.write_text(json.dumps(schedules, indent=1) + "\n")
        plateaus = {w: {t: plateau(w, o) for t, o in PLATEAUS.items()} for w in MEASURED}
        PLATEAU_FACTORS.write_text(json.dumps(plateaus) + "\n")
        STORED_VALUES.write_text(json.dumps(found_values) + "\n")
        STORED_ACTIVATIONS.write_text(lines(activations))
        STORED_LAYERS.write_text(lines(layers))
        STORED_ATTENTION.write_text(lines(attentions))
        STORED_SOFT.write_text(lines(softs()))
        STORED_COSINES.write_text(lines(similarities()))
        STORED_EMBEDDINGS.write_text(lines(tables))
        STORED_METRICS.write_text(lines(metrics()))
        return 0
    worst = max(
        difference(found, STORED),
        difference(found_values, STORED_VALUES),
        difference(tables, STORED_EMBEDDINGS),
        difference(attentions, STORED_ATTENTION),
        distance(layers, STORED_LAYERS),
        distance(activations, STORED_ACTIVATIONS),
    )
    made = {STORED_METRICS: metrics, STORED_COSINES: similarities, STORED_SOFT: softs}
    for path, make in made.items():
        if make() != json.loads(path.read_text()):
            worst = np.inf
            print(f"{path.name} differs")
    print(f"largest difference: {worst:.3g}")
    return int(worst > 1e-6)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
