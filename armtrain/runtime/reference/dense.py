"""Linear layers and convolutions, by their definitions.

Shapes: x (N, ..., I) or (N, H, W, C); Linear w (I, O); Conv2d w (G, KH, KW, C/G, O/G); b (O,).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from armtrain.runtime.reference.arena import Array
from armtrain.runtime.reference.call import Call, Outputs

__all__ = [
    "conv2d_fwd",
    "conv2d_grad_w",
    "conv2d_grad_x",
    "conv_transpose2d_fwd",
    "conv_transpose2d_grad_w",
    "conv_transpose2d_grad_x",
    "linear_fwd",
    "linear_grad_w",
    "linear_grad_x",
]


def linear_fwd(call: Call) -> Outputs:
    """Y = x w + b."""
    return {"y": call["x"] @ call["w"] + call.get("b", 0.0)}


def linear_grad_w(call: Call) -> Outputs:
    """Dw = x^T dy, db = sum over samples of dy."""
    dy = call["dy"].reshape(-1, call["dy"].shape[-1])
    return {"dw": call["x"].reshape(len(dy), -1).T @ dy, "db": dy.sum(axis=0)}


def linear_grad_x(call: Call) -> Outputs:
    """Dx = dy w^T."""
    return {"dx": call["dy"] @ call["w"].T}


def _padded(call: Call, x: Array) -> Array:
    """Return x with its zero border."""
    (top, left), (down, right) = call.pair("pad"), call.pair("over")
    return np.pad(x, ((0, 0), (top, top + down), (left, left + right), (0, 0)))


def _taps(
    call: Call, kernel: tuple[int, ...], out: tuple[int, ...]
) -> Iterator[tuple[int, int, tuple[slice, slice, slice]]]:
    """Yield (kh, kw, index of the padded input that this tap meets for all output places)."""
    (stride_h, stride_w), (dil_h, dil_w) = call.pair("stride"), call.pair("dil")
    for kh in range(kernel[0]):
        for kw in range(kernel[1]):
            rows = slice(kh * dil_h, kh * dil_h + (out[0] - 1) * stride_h + 1, stride_h)
            columns = slice(kw * dil_w, kw * dil_w + (out[1] - 1) * stride_w + 1, stride_w)
            yield kh, kw, (slice(None), rows, columns)


def _grouped(x: Array, groups: int) -> Array:
    """Return (N, H, W, G, C/G)."""
    return x.reshape(*x.shape[:3], groups, -1)


def conv2d_fwd(call: Call) -> Outputs:
    """y[n, p, q, o] = b[o] + sum over taps and channels of the group of x w."""
    w, groups = call["w"], call.integer("groups")
    x = _padded(call, call["x"])
    shape = call.shapes["y"]
    y = np.zeros((*shape[:3], groups, shape[3] // groups))
    for kh, kw, where in _taps(call, w.shape[1:3], shape[1:3]):
        y += np.einsum("nhwgc,gco->nhwgo", _grouped(x[where], groups), w[:, kh, kw])
    return {"y": y.reshape(shape) + call.get("b", 0.0)}


def conv2d_grad_w(call: Call) -> Outputs:
    """dw[g, kh, kw] = sum over samples and places of x^T dy; db = sum of dy."""
    groups, dy = call.integer("groups"), call["dy"]
    outputs = {"db": dy.sum(axis=(0, 1, 2))}
    if "dw" in call.shapes:
        x, dy_grouped = _padded(call, call["x"]), _grouped(dy, groups)
        dw = np.zeros(call.shapes["dw"])
        for kh, kw, where in _taps(call, dw.shape[1:3], dy.shape[1:3]):
            patch = _grouped(x[where], groups)
            dw[:, kh, kw] = np.einsum("nhwgc,nhwgo->gco", patch, dy_grouped)
        outputs["dw"] = dw
    return outputs


def conv2d_grad_x(call: Call) -> Outputs:
    """Dx gathers, for every tap, dy w^T at the place that the tap had met."""
    w, groups, dy = call["w"], call.integer("groups"), call["dy"]
    shape = call.shapes["dx"]
    padded = _padded(call, np.zeros(shape))
    for kh, kw, where in _taps(call, w.shape[1:3], dy.shape[1:3]):
        part = np.einsum("nhwgo,gco->nhwgc", _grouped(dy, groups), w[:, kh, kw])
        padded[where] += part.reshape(*part.shape[:3], -1)
    (top, left) = call.pair("pad")
    return {"dx": padded[:, top : top + shape[1], left : left + shape[2]]}


def _exchanged(call: Call, **names: str) -> Call:
    """Return the call of the convolution from y to x: its operands by our names."""
    values = {of: call.values[ours] for of, ours in names.items() if ours in call.values}
    shapes = {of: call.shapes[ours] for of, ours in names.items() if ours in call.shapes}
    return replace(call, values=values, shapes=shapes)


def conv_transpose2d_fwd(call: Call) -> Outputs:
    """Y is what the convolution's input gradient makes of x, + b."""
    spread = conv2d_grad_x(_exchanged(call, dy="x", w="w", dx="y"))["dx"]
    return {"y": spread + call.get("b", 0.0)}


def conv_transpose2d_grad_w(call: Call) -> Outputs:
    """Dw is that of the convolution with x for its gradient; db = sum of dy."""
    outputs = {"db": call["dy"].sum(axis=(0, 1, 2))}
    if "dw" in call.shapes:
        outputs["dw"] = conv2d_grad_w(_exchanged(call, x="dy", dy="x", dw="dw"))["dw"]
    return outputs


def conv_transpose2d_grad_x(call: Call) -> Outputs:
    """Dx is the convolution of dy."""
    return {"dx": conv2d_fwd(_exchanged(call, x="dy", w="w", y="dx"))["y"]}
