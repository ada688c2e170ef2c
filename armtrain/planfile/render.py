"""The picture of a plan: arena addresses over execution order, as SVG and as one HTML page.

Both are self-contained. Every rectangle is one storage, coloured by role; the line is the number
of bytes live at each step, which no packing can undercut.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from armtrain.dtypes import format_bytes
from armtrain.ir.program import Phase, Role
from armtrain.planfile.data import PlanData
from armtrain.planfile.describe import storage_name, summary_text
from armtrain.planfile.dump import text_dump
from armtrain.schedule.lifetime import Lifetime

__all__ = ["html_page", "svg_picture", "text_dump"]

_WIDTH, _HEIGHT = 1200, 640
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 20, 56, 84

# Role -> colour and label of the legend; roles of one purpose share a colour.
_LOOK = {
    Role.WEIGHT: ("#4269d0", "weights"),
    Role.FROZEN: ("#97a9e0", "frozen weights"),
    Role.BUFFER: ("#6cc5b0", "running statistics"),
    Role.STATE: ("#a463f2", "optimizer state"),
    Role.GRADIENT: ("#ff725c", "gradients"),
    Role.ACTIVATION: ("#3ca951", "activations"),
    Role.DERIVATIVE: ("#efb118", "derivatives"),
    Role.SAVED: ("#9c6b4e", "saved for backward"),
    Role.WORKSPACE: ("#9498a0", "workspace"),
    Role.INPUT: ("#38a3c7", "input"),
    Role.TARGET: ("#7fc8de", "target"),
    Role.METRIC: ("#555555", "results"),
    Role.STACK: ("#c9cdd4", "thread stacks"),
    Role.OUTPUT: ("#1f7a35", "output"),
}

_STYLE = (
    "text{font:12px sans-serif;fill:#222}.t{font-size:15px;font-weight:bold}"
    ".a{stroke:#222;stroke-width:1}.g{stroke:#ddd;stroke-width:1}"
    ".p{stroke:#222;stroke-dasharray:4 3}rect.b{stroke:#fff;stroke-width:.4}"
    "rect.b:hover{stroke:#000;stroke-width:2}.l{fill:none;stroke:#d00;stroke-width:1.3}"
)


class _Scale:
    """Step and address to picture coordinates."""

    def __init__(self, data: PlanData) -> None:
        self.steps = max(1, data.lifetimes.n_steps)
        self.arena = max(1, data.arena_bytes)
        self.bottom = _HEIGHT - _BOTTOM

    def x(self, step: int) -> float:
        """Return the left edge of a step."""
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * step / self.steps

    def y(self, address: int) -> float:
        """Return the height of an address; addresses grow upwards."""
        return self.bottom - (self.bottom - _TOP) * address / self.arena


def _boxes(data: PlanData, scale: _Scale) -> Iterator[str]:
    """Yield one rectangle with a tooltip per storage."""
    for item, offset in zip(data.lifetimes.items, data.offsets, strict=True):
        left, right = scale.x(item.first), scale.x(item.last)
        top, bottom = scale.y(offset + item.aligned_bytes), scale.y(offset)
        yield (
            f'<rect class="b" x="{left:.2f}" y="{top:.2f}" width="{right - left:.2f}" '
            f'height="{bottom - top:.2f}" fill="{_LOOK[item.role][0]}">'
            f"<title>{escape(_tooltip(data, item, offset))}</title></rect>"
        )


def _tooltip(data: PlanData, item: Lifetime, offset: int) -> str:
    """Return what a storage is, how large, where and when."""
    return (
        f"{storage_name(data, item)}\n{_LOOK[item.role][1]}, {item.nbytes:,d} B "
        f"({format_bytes(item.nbytes)})\naddress {offset:,d} to {offset + item.nbytes:,d}\n"
        f"steps {item.first} to {item.last - 1}: {_step_name(data, item.first)} … "
        f"{_step_name(data, item.last - 1)}"
    )


def _step_name(data: PlanData, index: int) -> str:
    """Return the layer and operation of a step."""
    step = data.program.steps[index]
    return f"{step.layer} {step.op.name.lower()}"


def _address_axis(data: PlanData, scale: _Scale) -> Iterator[str]:
    """Yield grid lines and labels at round numbers of bytes."""
    tick = 64
    while data.arena_bytes / tick > 10:
        tick *= 2
    for address in range(0, data.arena_bytes + 1, tick):
        y = scale.y(address)
        yield f'<line class="g" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.2f}" y2="{y:.2f}"/>'
        label = format_bytes(address).replace(".00 ", " ")
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.2f}" text-anchor="end">{label}</text>'


def _step_axis(data: PlanData, scale: _Scale) -> Iterator[str]:
    """Yield the step axis with ticks and the phases."""
    y = scale.bottom
    yield f'<line class="a" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>'
    tick = max(1, round(scale.steps / 20))
    for step in range(0, scale.steps + 1, tick):
        x = scale.x(step)
        yield f'<text x="{x:.2f}" y="{y + 16}" text-anchor="middle">{step}</text>'
    for phase in Phase:
        steps = [i for i, s in enumerate(data.program.steps) if s.phase == phase]
        if not steps:
            continue
        middle = (scale.x(steps[0]) + scale.x(steps[-1] + 1)) / 2
        edge = scale.x(steps[0])
        yield f'<line class="p" x1="{edge:.2f}" x2="{edge:.2f}" y1="{_TOP - 14}" y2="{y}"/>'
        yield (
            f'<text x="{middle:.2f}" y="{_TOP - 4}" text-anchor="middle">'
            f"{phase.name.lower()}</text>"
        )


def _live_line(data: PlanData, scale: _Scale) -> str:
    """Return the line of live bytes per step."""
    live = [0] * data.lifetimes.n_steps
    for item in data.lifetimes.items:
        for step in range(item.first, item.last):
            live[step] += item.aligned_bytes
    points = []
    for step, size in enumerate(live):
        y = scale.y(size)
        points += [f"{scale.x(step):.2f},{y:.2f}", f"{scale.x(step + 1):.2f},{y:.2f}"]
    return f'<polyline class="l" points="{" ".join(points)}"/>'


def _legend(data: PlanData) -> Iterator[str]:
    """Yield a coloured square and a label per role that occurs."""
    present = {item.role for item in data.lifetimes.items}
    x, y = _LEFT, _HEIGHT - 46
    entries = [_LOOK[role] for role in Role if role in present]
    for colour, label in [*entries, ("#dd0000", "live bytes at each step")]:
        width = 30 + 7 * len(label)
        if x + width > _WIDTH - _RIGHT:
            x, y = _LEFT, y + 20
        yield f'<rect x="{x}" y="{y}" width="12" height="12" fill="{colour}"/>'
        yield f'<text x="{x + 17}" y="{y + 11}">{label}</text>'
        x += width


def svg_picture(data: PlanData) -> str:
    """Return the SVG picture of a plan."""
    scale = _Scale(data)
    title = (
        f"arena {data.arena_bytes:,d} B ({format_bytes(data.arena_bytes)}), lower bound "
        f"{data.lower_bound_bytes:,d} B, batch {data.program.batch_size}: addresses over "
        "execution order"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        f'<text class="t" x="{_LEFT}" y="24">{escape(title)}</text>',
        *_address_axis(data, scale),
        *_boxes(data, scale),
        _live_line(data, scale),
        *_step_axis(data, scale),
        f'<text x="{_WIDTH / 2:.0f}" y="{scale.bottom + 32}" text-anchor="middle">step</text>',
        *_legend(data),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


_SCRIPT = """
const info = document.getElementById("info");
for (const box of document.querySelectorAll("rect.b")) {
  box.addEventListener("mouseenter", () => {
    info.textContent = box.querySelector("title").textContent;
  });
}
"""


def _rows(data: PlanData) -> Iterator[str]:
    """Yield a table row per storage, largest first."""
    pairs = zip(data.lifetimes.items, data.offsets, strict=True)
    for item, offset in sorted(pairs, key=lambda p: (-p[0].nbytes, p[0].storage)):
        colour, label = _LOOK[item.role]
        yield (
            f'<tr><td style="border-left:12px solid {colour}">'
            f"{escape(storage_name(data, item))}</td><td>{label}</td>"
            f"<td class=n>{item.nbytes:,d}</td><td class=n>{offset:,d}</td>"
            f"<td class=n>{item.first}</td><td class=n>{item.last - 1}</td></tr>"
        )


def html_page(data: PlanData) -> str:
    """Return one self-contained page: the picture, what lies under the pointer, all buffers."""
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            "<title>armtrain plan</title>",
            "<style>body{font:14px sans-serif;margin:16px;max-width:1240px}pre{background:#f5f5f5;"
            "padding:8px;overflow:auto}#info{min-height:5em}table{border-collapse:collapse}"
            "td,th{padding:2px 10px;text-align:left}td.n{text-align:right}svg{max-width:100%;"
            "height:auto}</style></head><body>",
            svg_picture(data),
            '<pre id="info">point at a buffer</pre>',
            f"<pre>{escape(summary_text(data))}</pre>",
            "<table><tr><th>buffer<th>role<th>bytes<th>address<th>first step<th>last step</tr>",
            *_rows(data),
            f"</table><script>{_SCRIPT}</script></body></html>",
        ]
    )
