"""Bytes to plan content: every length, index and code is checked before it is used.

This reader establishes that the file is a well-formed plan of this version, undamaged, and
whole. Whether the plan is safe to run is the checker's question (`check.py`).
"""

from __future__ import annotations

import json
import zlib

from armtrain.board.media import Medium
from armtrain.dtypes import ALIGNMENT
from armtrain.errors import PlanError
from armtrain.ir.program import Program, StorageId, Tensor, TensorId
from armtrain.planfile import format as fmt
from armtrain.planfile.data import PlanData
from armtrain.planfile.hash import model_hash, program_hash
from armtrain.planfile.predict import rates_from_json
from armtrain.planfile.read_records import (
    Fields,
    StepReader,
    Texts,
    read_record,
    read_tensor,
    require,
)
from armtrain.schedule.lifetime import Lifetime, Lifetimes

__all__ = ["decode"]


def _header(content: bytes) -> Fields:
    """Return the header after checking everything that needs no section."""
    require(
        len(content) >= fmt.HEADER.size,
        f"the file has {len(content)} bytes; a plan has at least {fmt.HEADER.size}",
    )
    head = read_record(fmt.HEADER, content, 0)
    require(head["magic"] == fmt.MAGIC, "the file does not start like an armtrain plan")
    version = (head["version_major"], head["version_minor"])
    require(
        version == (fmt.VERSION_MAJOR, fmt.VERSION_MINOR),
        f"the plan has format version {version[0]}.{version[1]}, this armtrain reads "
        f"{fmt.VERSION_MAJOR}.{fmt.VERSION_MINOR}: plan again with this version",
    )
    require(
        head["header_bytes"] == fmt.HEADER.size,
        f"the header says it has {head['header_bytes']} bytes, {fmt.HEADER.size} expected",
    )
    require(
        head["file_bytes"] == len(content),
        f"the file has {len(content)} bytes but was written with {head['file_bytes']}: "
        "copy it again",
    )
    crc = zlib.crc32(content[fmt.CRC_START :])
    require(
        crc == head["crc32"],
        f"the checksum is {crc:08x} but was written as {head['crc32']:08x}: the file was changed "
        "or damaged, copy it again",
    )
    require(head["reserved0"] == 0, "a reserved header field is not zero")
    require(
        head["alignment"] == ALIGNMENT,
        f"the alignment is {head['alignment']}, {ALIGNMENT} expected",
    )
    require(head["batch_size"] >= 1, "the planned batch is 0; at least 1 expected")
    require(head["threads"] >= 1, "0 threads are planned; at least 1 expected")
    return head


def _check_sections(head: Fields, content: bytes) -> None:
    """Refuse sections that leave the file, overlap, or leave gaps other than zero padding."""
    end = fmt.HEADER.size
    for name, size in fmt.SECTIONS:
        offset, count = head[f"{name}_offset"], head[f"{name}_count"]
        expected = -(-end // 8) * 8
        require(
            offset == expected,
            f"section {name} starts at byte {offset}, {expected} expected",
        )
        require(
            offset <= len(content) and count <= (len(content) - offset) // size,
            f"section {name} has {count} entries of {size} bytes, more than the file holds",
        )
        require(not any(content[end:offset]), f"the gap before section {name} at {end} is not zero")
        end = offset + count * size
    require(end == len(content), f"{len(content) - end} bytes follow the last section")
    require(head["swap_count"] == 0, "swap actions are not known to this version")
    steps = head["n_train_steps"] + head["n_evaluate_steps"] + head["n_predict_steps"]
    require(
        steps == head["steps_count"],
        f"{head['steps_count']} steps, but the phases have {steps}",
    )


def _meta(content: bytes) -> Fields:
    """Return the JSON section."""
    try:
        meta = json.loads(content.decode("utf-8"))
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise PlanError(f"the meta section is no JSON text: {error}") from None
    expected: dict[str, tuple[type, ...]] = {
        "board": (str,),
        "clip_norm": (float, int, type(None)),
        "clip_value": (float, int, type(None)),
        "floor_bytes": (int,),
        "input_shape": (list,),
        "loss": (str,),
        "model_text": (str,),
        "optimizer": (str,),
        "packing": (dict,),
        "rates": (dict, type(None)),
        "storage": (dict, type(None)),
        "unbudgeted_bytes": (int,),
    }
    require(isinstance(meta, dict), "the meta section is no JSON object")
    for key, kinds in expected.items():
        require(
            isinstance(meta.get(key), kinds), f"meta entry '{key}' is missing or of a wrong type"
        )
    packing, shape = meta["packing"], meta["input_shape"]
    require(
        isinstance(packing.get("method"), str) and isinstance(packing.get("nodes"), int),
        "meta entry 'packing' lacks its method or nodes",
    )
    require(all(isinstance(d, int) for d in shape), "meta entry 'input_shape' is no shape")
    result: Fields = meta
    return result


def _lifetimes(
    records: list[Fields], tensors: tuple[Tensor, ...], n_steps: int
) -> tuple[Lifetimes, tuple[int, ...]]:
    """Return the storages of all tensors and their addresses."""
    members: dict[StorageId, list[int]] = {}
    for index, tensor in enumerate(tensors):
        members.setdefault(tensor.storage, []).append(index)
    items, offsets = [], []
    for storage in sorted(members):
        ids = members[storage]
        first = records[ids[0]]
        for index in ids[1:]:
            same = all(records[index][key] == first[key] for key in ("offset", "first", "last"))
            require(
                same,
                f"tensors '{tensors[ids[0]].name}' and '{tensors[index].name}' share a storage "
                "but differ in address or lifetime",
            )
        require(
            first["first"] < first["last"] <= n_steps,
            f"tensor '{tensors[ids[0]].name}' is live for steps [{first['first']},"
            f"{first['last']}) of {n_steps}",
        )
        largest = max((tensors[i] for i in ids), key=lambda t: (t.nbytes, -t.id))
        items.append(
            Lifetime(
                storage,
                tuple(TensorId(i) for i in ids),
                largest.nbytes,
                first["first"],
                first["last"],
                largest.role,
            )
        )
        offsets.append(first["offset"])
    return Lifetimes(tuple(items), n_steps), tuple(offsets)


def _check_hashes(head: Fields, content: bytes, program: Program) -> None:
    """Refuse a file whose hashes do not belong to its content."""
    require(
        model_hash(program) == head["model_hash"],
        "the model hash does not belong to the model text in the file",
    )
    stop = head["strings_offset"] + head["strings_count"]
    actual = program_hash(content[fmt.HEADER.size : stop], head["tensors_count"])
    require(actual == head["program_hash"], "the program hash does not belong to the program")


def _section(head: Fields, content: bytes, name: str) -> bytes:
    """Return the bytes of a section of single bytes."""
    return content[head[f"{name}_offset"] : head[f"{name}_offset"] + head[f"{name}_count"]]


def _program(
    head: Fields, content: bytes, texts: Texts, meta: Fields, records: list[Fields]
) -> Program:
    """Return the program of all records."""
    tensors = tuple(read_tensor(i, r, texts) for i, r in enumerate(records))
    require(len({t.name for t in tensors}) == len(tensors), "two tensors have the same name")
    reader = StepReader(head, content, texts)
    steps = tuple(reader.step(i) for i in range(head["steps_count"]))
    require(
        (reader.operands, reader.attrs) == (head["operands_count"], head["attrs_count"]),
        "operands or attributes are left over that belong to no step",
    )
    return Program(
        tensors,
        steps,
        meta["model_text"],
        head["batch_size"],
        head["threads"],
        meta["loss"],
        meta["optimizer"],
        meta["clip_norm"],
        tuple(meta["input_shape"]),
        meta["board"],
        meta.get("clip_value"),
    )


def decode(content: bytes) -> PlanData:
    """Return the plan in `content`.

    Parameters
    ----------
    content : bytes
        A whole plan file.

    Raises
    ------
    PlanError
        Naming the first thing that is damaged or inconsistent.
    """
    head = _header(content)
    _check_sections(head, content)
    texts = Texts(_section(head, content, "strings"))
    meta = _meta(_section(head, content, "meta"))
    starts = range(head["tensors_offset"], head["steps_offset"], fmt.TENSOR.size)
    records = [read_record(fmt.TENSOR, content, starts[i]) for i in range(head["tensors_count"])]
    program = _program(head, content, texts, meta, records)
    _check_hashes(head, content, program)
    lifetimes, offsets = _lifetimes(records, program.tensors, len(program.steps))
    return PlanData(
        program,
        lifetimes,
        offsets,
        head["arena_bytes"],
        head["lower_bound_bytes"],
        head["proved_minimum_bytes"],
        head["budget_bytes"] or None,
        meta["unbudgeted_bytes"],
        meta["floor_bytes"],
        meta["packing"]["method"],
        meta["packing"]["nodes"],
        Medium.from_json(meta["storage"]) if meta.get("storage") else None,
        rates_from_json(meta["rates"]) if meta.get("rates") else None,
    )
