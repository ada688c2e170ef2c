"""Matrix products and convolutions of the engine, beside OpenBLAS, PyTorch and a roof.

Everything is timed on one thread, by that thread's time, in turns; figures are medians.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtrain.runtime.engine import engine_module
from tests.bench.openblas import OpenBlas

__all__ = [
    "CONVOLUTIONS",
    "DEPTHWISE",
    "GEMMS",
    "Kernels",
    "Shape",
    "convolution_row",
    "depthwise_row",
    "gemm_row",
]

LIBRARY = Path(__file__).resolve().parents[2] / "build" / "bench_kernels.so"
PASSES = ("forward", "grad_x", "grad_w")
_SECONDS = 0.01  # of one timing at least
_ROOF_ROUNDS = 100_000

GEMMS: tuple[tuple[int, int, int], ...] = (
    *((n, n, n) for n in (64, 128, 256, 512, 1024)),
    *((64, 1024, 576), (128, 256, 1152), (256, 64, 2304), (512, 16, 4608), (16, 64, 150)),
    *((6, 576, 25), (10, 32, 84), (120, 32, 256), (512, 32, 784), (32, 512, 784)),
)
"""(M, N, K): cubes, then what layers make of LeNet-5, an MLP and ResNet-18."""


@dataclass(frozen=True)
class Shape:
    """A convolution, in the order of art_conv_shape in kernels/ops/product.h."""

    n: int
    in_h: int
    in_w: int
    in_c: int
    out_h: int
    out_w: int
    out_c: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    pad_h: int
    pad_w: int
    dil_h: int = 1
    dil_w: int = 1
    groups: int = 1

    @property
    def flop(self) -> int:
        """Multiplications and additions of one pass."""
        window = self.kernel_h * self.kernel_w * self.in_c // self.groups
        return 2 * self.n * self.out_h * self.out_w * self.out_c * window

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Elements of x, w and y."""
        weights = self.kernel_h * self.kernel_w * self.in_c * self.out_c // self.groups
        return (
            self.n * self.in_h * self.in_w * self.in_c,
            weights,
            self.n * self.out_h * self.out_w * self.out_c,
        )

    def __str__(self) -> str:
        """Return '64>128@32x32 3x3 s2 b8'."""
        outputs = "" if self.out_c == self.in_c else f">{self.out_c}"
        stride = f" s{self.stride_h}" if self.stride_h > 1 else ""
        image, window = f"{self.in_h}x{self.in_w}", f"{self.kernel_h}x{self.kernel_w}"
        return f"{self.in_c}{outputs}@{image} {window}{stride} b{self.n}"


def square(n: int, size: int, inputs: int, outputs: int, kernel: int, stride: int = 1) -> Shape:
    """Return a convolution of square images that keeps their size, or divides it by its stride."""
    out = -(-size // stride)
    sides = (*(size, size, inputs), *(out, out, outputs))
    return Shape(n, *sides, kernel, kernel, stride, stride, kernel // 2, kernel // 2)


def depthwise(n: int, size: int, channels: int, stride: int) -> Shape:
    """Return a 3x3 filter of every channel."""
    shape = square(n, size, channels, channels, 3, stride)
    return Shape(*astuple(shape)[:-1], groups=channels)


CONVOLUTIONS = (
    square(32, 32, 3, 64, 3),
    *(square(32, 32 * 64 // c, c, c, 3) for c in (64, 128, 256, 512)),
    *(square(32, 32 * 64 // c, c, 2 * c, 3, 2) for c in (64, 128, 256)),
    *(square(32, 32 * 64 // c, c, 2 * c, 1, 2) for c in (64, 128, 256)),
)
"""All kinds of ResNet-18 on 32x32, batch 32."""

DEPTHWISE = tuple(
    depthwise(8, size, channels, stride)
    for channels, size, stride in (
        *((32, 48, 1), (96, 48, 2), (144, 24, 1), (144, 24, 2), (192, 12, 1), (192, 12, 2)),
        *((384, 6, 1), (576, 6, 1), (576, 6, 2), (960, 3, 1)),
    )
)
"""All of MobileNetV2 on 96x96, batch 8."""


class Kernels:
    """The engine's products at one kernel level.

    Parameters
    ----------
    level : str

    Raises
    ------
    FileNotFoundError
        The library has not been built.
    ValueError
        This processor lacks the level.
    """

    def __init__(self, level: str) -> None:
        if not LIBRARY.exists():
            raise FileNotFoundError(f"{LIBRARY} is not built: run `make bench-kernels`")
        self._library = ctypes.CDLL(str(LIBRARY))
        self._library.bench_open.restype = ctypes.c_void_p
        self._library.bench_scratch_bytes.restype = ctypes.c_uint64
        self._library.bench_conv.restype = ctypes.c_double
        self._library.bench_sgemm.restype = ctypes.c_double
        self._level = level
        self._opened = ctypes.c_void_p(self._library.bench_open(level.encode()))
        if not self._opened:
            raise ValueError(f"kernel level '{level}' does not run here")

    def convolve(
        self, number: int, shape: Shape, arrays: Sequence[NDArray[np.float32]], count: int
    ) -> float:
        """Run pass `number` of `PASSES` on (x, w, y, scratch); return seconds of all `count`."""
        sizes = (ctypes.c_int64 * 16)(*astuple(shape))
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in arrays]
        seconds = self._library.bench_conv(self._opened, number, sizes, *pointers, count)
        return float(seconds)

    def multiply(
        self, blas: OpenBlas, m: int, n: int, k: int, arrays: Sequence[Any], count: int
    ) -> float:
        """Run y = x w by a BLAS on (x, w, y); return seconds of all `count`."""
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in arrays]
        function = ctypes.c_void_p(blas.sgemm)
        return float(
            self._library.bench_sgemm(function, blas.integer_bits, m, n, k, *pointers, count)
        )

    def multiply_adds(self, rounds: int) -> int:
        """Multiply and add in registers; return how many operations that were."""
        return int(engine_module().multiply_adds(self._level, rounds))

    def arrays(self, shape: Shape) -> list[NDArray[np.float32]]:
        """Return x, w and y with numbers, and scratch."""
        rng = np.random.default_rng(0)
        sizes = (ctypes.c_int64 * 16)(*astuple(shape))
        scratch = int(self._library.bench_scratch_bytes(sizes)) // 4
        aligned = [_aligned(size) for size in (*shape.sizes, scratch)]
        for array in aligned[:3]:
            array[:] = rng.uniform(-1, 1, array.size)
        return aligned


def gemm_row(
    kernels: Kernels, blas: OpenBlas | None, size: tuple[int, int, int], repeats: int
) -> dict[str, Any]:
    """Return FLOP/s of y[m,n] = x[m,k] w[k,n] by the engine and by OpenBLAS, and their ratio.

    Raises
    ------
    ValueError
        They do not give the same y.
    """
    m, n, k = size
    shape = Shape(m, 1, 1, k, 1, 1, n, 1, 1, 1, 1, 0, 0)
    ours = kernels.arrays(shape)
    kernels.convolve(0, shape, ours, 1)
    works = {"armtrain": lambda count: kernels.convolve(0, shape, ours, count)}
    if blas:
        theirs = [*ours[:2], _aligned(m * n)]
        kernels.multiply(blas, m, n, k, theirs, 1)
        if not np.allclose(ours[2], theirs[2], rtol=0, atol=1e-5 * k):
            raise ValueError(f"{m}x{n}x{k}: the engine and OpenBLAS have other results")
        works["openblas"] = lambda count: kernels.multiply(blas, m, n, k, theirs, count)
    rates = {name: shape.flop / s for name, s in in_turns(works, repeats).items()}
    return {"size": list(size), **rates} | _ratio(rates, "armtrain", "openblas")


def convolution_row(kernels: Kernels, shape: Shape, repeats: int) -> dict[str, Any]:
    """Return FLOP/s of the three passes, and their shares of multiply-adds in registers.

    These take their turns too: a processor's clock changes with what its neighbours do.
    """
    arrays = kernels.arrays(shape)
    works = {
        name: lambda count, number=i: kernels.convolve(number, shape, arrays, count)
        for i, name in enumerate(PASSES)
    }
    flop = kernels.multiply_adds(_ROOF_ROUNDS)
    works["roof"] = _timed(lambda: kernels.multiply_adds(_ROOF_ROUNDS))
    seconds = in_turns(works, repeats)
    roof = flop / seconds.pop("roof")
    rates = {name: shape.flop / s for name, s in seconds.items()}
    shares = {f"{name}_share": rate / roof for name, rate in rates.items()}
    return {"shape": str(shape), "roof": roof, **rates, **shares}


def depthwise_row(kernels: Kernels, shape: Shape, repeats: int, torch: Any) -> dict[str, Any]:
    """Return seconds of the three passes by the engine and by PyTorch, channels last, if given."""
    arrays = kernels.arrays(shape)
    row: dict[str, Any] = {"shape": str(shape)}
    theirs = _torch_passes(torch, shape) if torch else {}
    for i, name in enumerate(PASSES):
        works = {"armtrain": lambda count, number=i: kernels.convolve(number, shape, arrays, count)}
        if torch:
            works["torch"] = theirs[name]
        seconds = in_turns(works, repeats)
        row |= {f"{name}_{who}_seconds": s for who, s in seconds.items()}
        row |= _ratio(seconds, "torch", "armtrain", f"{name}_speedup")
    return row


def in_turns(works: dict[str, Callable[[int], float]], repeats: int) -> dict[str, float]:
    """Return median seconds of one call of each work, which takes a count and returns seconds."""
    counts = {}
    for name, work in works.items():
        once = work(1)
        counts[name] = max(1, round(_SECONDS / max(min(once, work(1)), 1e-7)))
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            times[name].append(work(counts[name]) / counts[name])
    return {name: median(values) for name, values in times.items()}


def _torch_passes(torch: Any, shape: Shape) -> dict[str, Callable[[int], float]]:
    """Return the three passes of PyTorch."""
    last, rng = torch.channels_last, torch.Generator().manual_seed(0)

    def images(n: int, c: int, h: int, w: int) -> Any:
        return torch.rand((n, c, h, w), generator=rng).contiguous(memory_format=last)

    x = images(shape.n, shape.in_c, shape.in_h, shape.in_w)
    w = images(shape.out_c, shape.in_c // shape.groups, shape.kernel_h, shape.kernel_w)
    dy = images(shape.n, shape.out_c, shape.out_h, shape.out_w)
    stride, pad = [shape.stride_h, shape.stride_w], [shape.pad_h, shape.pad_w]

    def backward(mask: list[bool]) -> Callable[[int], float]:
        settings = (None, stride, pad, [1, 1], False, [0, 0], shape.groups, mask)
        return _timed(lambda: torch.ops.aten.convolution_backward(dy, x, w, *settings))

    forward = _timed(lambda: torch.conv2d(x, w, None, stride, pad, 1, shape.groups))
    return {
        "forward": forward,
        "grad_x": backward([True, False, False]),
        "grad_w": backward([False, True, False]),
    }


def _timed(work: Callable[[], object]) -> Callable[[int], float]:
    """Return a work that takes a count and returns this thread's seconds."""

    def run(count: int) -> float:
        began = time.thread_time()
        for _ in range(count):
            work()
        return time.thread_time() - began

    return run


def _ratio(
    figures: dict[str, float], over: str, under: str, name: str = "ratio"
) -> dict[str, float]:
    """Return one figure over the other where both are there."""
    return {name: figures[over] / figures[under]} if {over, under} <= set(figures) else {}


def _aligned(size: int) -> NDArray[np.float32]:
    """Return an array that starts a cache line, as those of the arena do."""
    room = np.zeros(size + 16, np.float32)
    start = -room.ctypes.data // 4 % 16
    return room[start : start + size]
