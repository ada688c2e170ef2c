"""The figures of `make arm-perf` can fail: loops are found, stores seen, numbers compared."""

from __future__ import annotations

import json
import re
import shutil
from copy import deepcopy
from typing import Any

import pytest

from scripts.arm_loops import (
    ARCHITECTURES,
    Architecture,
    assembly,
    disassemble,
    functions,
    inner_loops,
    main_loop,
    stores,
    terms,
)
from scripts.arm_perf import ROOT, STORED, faults, flat

A64, A32 = ARCHITECTURES
# As objdump prints it: a loop around two others, one with three terms, one with two and a spill.
LISTING = """
0000000000000000 <art_rows_1x1>:
   0:\tstp\tx29, x30, [sp, #-16]!
   4:\tldr\tq1, [x1], #16
   8:\tfmla\tv16.4s, v1.4s, v0.s[0]
   c:\tfmla\tv17.4s, v1.4s, v0.s[1]
  10:\tfmla\tv18.4s, v1.4s, v0.s[2]
  14:\tb.ne\t4 <art_rows_1x1+0x4>  // b.any
  18:\tstr\tq16, [sp, #16]
  1c:\tfmla\tv16.4s, v1.4s, v0.s[0]
  20:\tcbz\tx5, 28 <art_rows_1x1+0x28>
  24:\tfmla\tv17.4s, v1.4s, v0.s[1]
  28:\tcbnz\tx4, 18 <art_rows_1x1+0x18>
  2c:\tbl\t0 <art_rows_1x1>
  30:\tb.ne\t4 <art_rows_1x1+0x4>  // b.any
  34:\tret
"""
THUMB = """
00000000 <art_rows_1x1>:
   0:\tvld1.32\t{d0-d1}, [r1]!
   4:\tvmla.f32\tq8, q0, d2[0]
   8:\tvstr\td16, [sp, #8]
   c:\tbls.n\t0 <art_rows_1x1>
   e:\tblx\t0 <art_rows_1x1>
"""


def test_the_inner_loop_with_most_terms_is_found() -> None:
    body = functions(LISTING)["art_rows_1x1"]
    assert [[i.address for i in loop] for loop in inner_loops(body)] == [
        [4, 8, 12, 16, 20],
        [24, 28, 32, 36, 40],
    ]
    loop = main_loop(A64, body)
    assert terms(A64, loop) == 3
    assert stores(A64, loop) == 0
    assert assembly(A64, loop).splitlines()[-2:] == ["b.ne 1f", "1:"]


@pytest.mark.parametrize(("arch", "listing", "number"), [(A64, LISTING, 1), (A32, THUMB, 0)])
def test_a_spilled_sum_is_seen(arch: Architecture, listing: str, number: int) -> None:
    loop = inner_loops(functions(listing)["art_rows_1x1"])[number]
    assert stores(arch, loop) == 1


def test_a_function_without_a_loop_is_refused() -> None:
    body = functions(LISTING)["art_rows_1x1"][:2]
    with pytest.raises(ValueError, match="no inner loop with multiply-adds in 2 instructions"):
        main_loop(A64, body)


def figures() -> dict[str, Any]:
    loop = {"stores_in_all_tiles": 0, "cycles_per_multiply_add": {"cortex-a53": 1.5}}
    return {"loops": {"level rows": loop}, "instructions_per_kflop": {"level gemm": 200.0}}


def test_worse_figures_fail_with_both_numbers() -> None:
    stored, measured = figures(), figures()
    assert list(faults(stored, measured)) == []
    measured["instructions_per_kflop"]["level gemm"] = 203.0
    assert list(faults(stored, measured)) == []
    measured["instructions_per_kflop"]["level gemm"] = 205.0
    measured["loops"]["level rows"]["cycles_per_multiply_add"]["cortex-a53"] = 1.6
    measured["loops"]["level rows"]["stores_in_all_tiles"] = 2
    assert list(faults(stored, measured)) == [
        "level rows: 2 stores in inner loops, 0 are allowed",
        "level gemm, instructions per kFLOP: 205, stored is 200, 2% more is allowed",
        "level rows on cortex-a53, cycles per multiply-add: 1.6, stored is 1.5, 2% more is allowed",
    ]


def test_missing_and_unknown_figures_fail() -> None:
    stored, measured = figures(), deepcopy(figures())
    del measured["instructions_per_kflop"]["level gemm"]
    measured["instructions_per_kflop"]["level conv"] = 1.0
    found = list(faults(stored, measured))
    assert len(found) == 2
    assert len(flat(measured)) == 2
    assert "not measured any more" in found[0]
    assert "make arm-perf-update" in found[1]


@pytest.mark.parametrize(
    ("arch", "level"), [(a, level) for a in ARCHITECTURES for level in a.levels]
)
def test_inner_loops_store_nothing(arch: Architecture, level: str) -> None:
    """The sums of a tile stay in registers."""
    path = ROOT / "build" / arch.name / "obj" / "ukernel" / "gemm" / f"gemm_{level}.o"
    if not path.exists():
        pytest.skip(f"no {path.relative_to(ROOT)}: not built")
    if shutil.which(f"{arch.triple}-objdump") is None:
        pytest.skip(f"{arch.triple}-objdump is not installed (package binutils-{arch.triple})")
    tiles = {
        n: b
        for n, b in disassemble(arch, path).items()
        if n.startswith(("art_rows_", "art_pixels_"))
    }
    loops = {n: [x for x in inner_loops(b) if terms(arch, x)] for n, b in tiles.items()}
    kept = {n: found for n, found in loops.items() if found}
    assert len(kept) >= 16, f"{path.name}: loops found in {sorted(kept)}"
    for name, found in kept.items():
        for loop in found:
            assert stores(arch, loop) == 0, f"{name}: {[i.name for i in loop]}"


def test_the_page_says_what_is_stored() -> None:
    """The table of inner loops in docs/arm-performance.md has the stored figures."""
    text = (ROOT / "docs" / "arm-performance.md").read_text(encoding="utf-8")
    loops = json.loads(STORED.read_text(encoding="utf-8"))["loops"]
    name, figure = r"\| (?:`(\w+)` (\w+), (\w+) )?", r"([\d.]+) \|"
    row = re.compile(rf"{name}\| Cortex-([^|(]+)[^|]*\|(?: [\d.]+ \|){{2}} {figure}")
    loop, seen = "", 0
    for level, kind, tile, cores, now in row.findall(text):
        loop = f"{level} {kind}" if level else loop
        assert tile in ("", loops[loop]["tile"])
        for core in cores.strip().split(", "):
            stored = loops[loop]["cycles_per_multiply_add"][f"cortex-{core.lower()}"]
            assert abs(stored - float(now)) <= 0.0051, (
                f"{loop} on {core}: {now}, stored is {stored}"
            )
            seen += 1
    assert seen == sum(len(found["cycles_per_multiply_add"]) for found in loops.values())
