"""The checker's rules for one step: its operation accepts its operands and attributes."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from armtrain.ir.ops import OPS, Access, OpCode, OpSpec
from armtrain.ir.workspace import workspace_bytes
from armtrain.limits import MAX_POOL_PLACES
from armtrain.planfile.check_operands import Operands
from armtrain.planfile.check_parse import RawPlan
from armtrain.planfile.check_records import attr_findings, form_findings
from armtrain.planfile.check_roles import UPDATES, role_findings
from armtrain.planfile.check_shapes import needed_dims, needed_dtype
from armtrain.planfile.format import NONE_ID

__all__ = ["operation_findings"]

_OF_THE_BATCH = ("scale", "rows", "x", "dy", "ws")
_TRAINS_NORM = (OpCode.BATCHNORM2D_FWD, OpCode.BATCHNORM2D_GRAD)
_MAX_POOL = (OpCode.MAXPOOL2D_FWD, OpCode.MAXPOOL2D_GRAD)


def operation_findings(raw: RawPlan, index: int) -> Iterator[str]:
    """Check sizes and types of one step's operands, and its scratch."""
    step = raw.steps[index]
    spec = OPS[OpCode(step["op"])]
    ids = raw.operands[step["operands"] : step["operands"] + len(spec.operands)]
    present = {
        slot.name: tensor
        for slot, tensor in zip(spec.operands, ids, strict=True)
        if tensor != NONE_ID
    }
    dims = {n: raw.tensors[t]["dims"][: raw.tensors[t]["ndim"]] for n, t in present.items()}
    operands = Operands(dims, _attributes(raw, spec, step))
    where = f"step {index} ({spec.code.name}, layer '{raw.text(step['layer'])}')"
    yield from form_findings(raw, spec, present, where)
    yield from role_findings(raw, spec, present, where)
    wrong = list(attr_findings(spec, dict(operands.attrs), where))
    if wrong:  # sizes that follow from the attributes mean nothing
        yield from wrong
        return
    try:
        needs = needed_dims(spec.code, operands)
        wrong = list(_case_findings(spec, operands))
    except (KeyError, ValueError):
        yield f"{where}: operands {dims} have the wrong number of dimensions"
        return
    yield from (f"{where}: {text}" for text in wrong)
    names = {slot: raw.name(tensor) for slot, tensor in present.items()}
    yield from _dims_findings(spec, dims, needs, names, where)
    yield from _workspace_findings(raw, spec, present, operands, where)


def _attributes(raw: RawPlan, spec: OpSpec, step: dict[str, Any]) -> dict[str, int | float]:
    """Return the attributes of a step by name."""
    codes = {"i": "<q", "f": "<d"}
    return {
        slot.name: struct.unpack_from(codes[slot.kind], raw.attrs, 8 * (step["attrs"] + place))[0]
        for place, slot in enumerate(spec.slots(step["n_attrs"]))
    }


def _dims_findings(
    spec: OpSpec,
    dims: Mapping[str, tuple[int, ...]],
    needs: Mapping[str, int | tuple[int, ...]],
    names: Mapping[str, str],
    where: str,
) -> Iterator[str]:
    """Compare the operands that are there with what the operation needs."""
    for slot, need in needs.items():
        if slot not in dims:
            continue
        have, count = prod(dims[slot]), need if isinstance(need, int) else prod(need)
        if have != count:
            item = needed_dtype(spec.code, slot).itemsize
            yield (
                f"{where}: {slot} '{names[slot]}' has {have * item} B, "
                f"needs {max(0, count) * item} B"
            )
        elif isinstance(need, tuple) and dims[slot] != need:
            yield f"{where}: {slot} '{names[slot]}' has dimensions {dims[slot]}, needs {need}"


def _case_findings(spec: OpSpec, o: Operands) -> Iterator[str]:
    """Check what an operation demands beyond the form of each operand."""
    code = spec.code
    if code in UPDATES:
        yield from _update_findings(o)
    if code in UPDATES and "rows" in o.dims:
        yield from _rows_findings(o)
    if code in _TRAINS_NORM and prod(o.dims["x"][:3]) == 1:
        yield "batch statistics of one value per channel"
    if code is OpCode.BATCHNORM2D_EVAL_GRAD and "dgamma" in o.dims and "x" not in o.dims:
        yield "dgamma needs x, which is missing"
    if code is OpCode.LAYERNORM_FWD and "row_mean" in o.dims and not o.attrs["centred"]:
        yield "row_mean is kept of rows that are not centred"
    if "kernel_h" in o.attrs:
        yield from _pool_findings(code, o)


def _update_findings(o: Operands) -> Iterator[str]:
    """Compare an update's state with the attributes that ask for it, and the rows of all."""
    for attribute, state in (("momentum", "momentum"), ("centered", "grad_avg")):
        asked = o.attrs.get(attribute, 0)
        if (state in o.dims) != (asked != 0):
            yield f"{attribute} {asked:g} and {'a' if state in o.dims else 'no'} {state} buffer"
    others = (*_OF_THE_BATCH, "g") if "dy" in o.dims else _OF_THE_BATCH  # g is a block of rows
    alike = {name: dims[0] for name, dims in o.dims.items() if name not in others}
    if len(set(alike.values())) > 1:
        yield f"operands have rows {alike}, all need the same"


def _rows_findings(o: Operands) -> Iterator[str]:
    """Check that an update of some rows is one that leaves all others as they are."""
    if o.attrs["weight_decay"] != 0.0 or o.attrs.get("eps", 1.0) == 0.0:
        yield "weight_decay above 0 or eps 0 changes the rows that a batch does not name, too"


def _pool_findings(code: OpCode, o: Operands) -> Iterator[str]:
    """Compare the padding and the places of a pooling window with what is possible."""
    for axis in "hw":
        pad, kernel = o.integer(f"pad_{axis}"), o.integer(f"kernel_{axis}")
        if pad > kernel // 2:
            yield f"pad_{axis} is {pad}, a window of {kernel} needs 0 to {kernel // 2}"
    places = o.integer("kernel_h") * o.integer("kernel_w")
    if code in _MAX_POOL and places > MAX_POOL_PLACES:
        yield f"a window of {places} places, at most {MAX_POOL_PLACES} are possible"


def _workspace_findings(
    raw: RawPlan, spec: OpSpec, present: Mapping[str, int], o: Operands, where: str
) -> Iterator[str]:
    """Compare the scratch that a step has with the scratch that it needs."""
    scratch = [present[s.name] for s in spec.operands
               if s.access is Access.SCRATCH and s.name in present]  # fmt: skip
    have = raw.tensors[scratch[0]]["bytes"] if scratch else 0
    dims = tuple(None if s.access is Access.SCRATCH else o.dims.get(s.name) for s in spec.operands)
    try:
        need = workspace_bytes(spec.code, dims, tuple(o.attrs.values()), raw.header["threads"])
    except (AssertionError, IndexError, ValueError):
        yield (
            f"{where}: operands {dict(o.dims)} have the wrong number of dimensions for its "
            "workspace"
        )
        return
    if have < need:
        name = f"'{raw.name(scratch[0])}'" if scratch else "none"
        yield f"{where}: its workspace ({name}) has {have} B, needs {need} B"
