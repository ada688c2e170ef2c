"""Pooling by its definition: one output place at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from armtrain.runtime.reference.call import Call, Outputs

__all__ = ["avgpool2d_fwd", "avgpool2d_grad", "maxpool2d_fwd", "maxpool2d_grad"]


def _windows(
    call: Call, image: tuple[int, ...], out: tuple[int, ...]
) -> Iterator[tuple[int, int, list[tuple[int, int, int]]]]:
    """Yield (p, q, [(place in window, row, column) inside the image]) of every output place."""
    (kernel_h, kernel_w), (stride_h, stride_w) = call.pair("kernel"), call.pair("stride")
    pad_h, pad_w = call.pair("pad")
    dil_h, dil_w = call.pair("dil") if "dil_h" in call.attrs else (1, 1)
    for p in range(out[1]):
        for q in range(out[2]):
            inside = []
            for place in range(kernel_h * kernel_w):
                row = p * stride_h - pad_h + place // kernel_w * dil_h
                column = q * stride_w - pad_w + place % kernel_w * dil_w
                if 0 <= row < image[1] and 0 <= column < image[2]:
                    inside.append((place, row, column))
            yield p, q, inside


def maxpool2d_fwd(call: Call) -> Outputs:
    """Largest value of every window, the first one among equals; idx is its place."""
    x, shape = call["x"], call.shapes["y"]
    y, idx = np.empty(shape), np.empty(shape)
    for p, q, inside in _windows(call, x.shape, shape):
        values = np.stack([x[:, row, column] for _, row, column in inside])
        # argmax treats NaN as the largest, as torch does.
        best = values.argmax(axis=0)
        y[:, p, q] = np.take_along_axis(values, best[None], axis=0)[0]
        idx[:, p, q] = np.array([place for place, _, _ in inside])[best]
    return {"y": y, "idx": idx}


def maxpool2d_grad(call: Call) -> Outputs:
    """Every dy goes to the place that was the largest."""
    dy, idx = call["dy"], call["idx"]
    dx = np.zeros(call.shapes["dx"])
    for p, q, inside in _windows(call, dx.shape, dy.shape):
        for place, row, column in inside:
            dx[:, row, column] += np.where(idx[:, p, q] == place, dy[:, p, q], 0.0)
        # A place outside the window is damage, not a zero gradient.
        known = np.isin(idx[:, p, q], [place for place, _, _ in inside])
        dx[:, inside[0][1], inside[0][2]][~known] = np.nan
    return {"dx": dx}


def _divisor(
    call: Call, image: tuple[int, ...], place: tuple[int, int], inside: list[tuple[int, int, int]]
) -> int:
    """Return what a window's sum is divided by."""
    if call.integer("divisor"):
        return call.integer("divisor")
    if not call.integer("count_include_pad"):
        return len(inside)
    counted = 1
    for i, axis in enumerate("hw"):
        pad, kernel = call.integer(f"pad_{axis}"), call.integer(f"kernel_{axis}")
        start = place[i] * call.integer(f"stride_{axis}") - pad
        counted *= min(start + kernel, image[1 + i] + pad) - start
    return counted


def avgpool2d_fwd(call: Call) -> Outputs:
    """Mean of every window."""
    x, y = call["x"], np.zeros(call.shapes["y"])
    for p, q, inside in _windows(call, x.shape, y.shape):
        total = sum(x[:, row, column] for _, row, column in inside)
        y[:, p, q] = total / _divisor(call, x.shape, (p, q), inside)
    return {"y": y}


def avgpool2d_grad(call: Call) -> Outputs:
    """Every dy is spread evenly over its window."""
    dy, dx = call["dy"], np.zeros(call.shapes["dx"])
    for p, q, inside in _windows(call, dx.shape, dy.shape):
        share = dy[:, p, q] / _divisor(call, dx.shape, (p, q), inside)
        for _, row, column in inside:
            dx[:, row, column] += share
    return {"dx": dx}
