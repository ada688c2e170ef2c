"""The parts of a board profile. Units are in the names; MB is 10^6 bytes, MiB and KiB are binary.

Everything here describes; nothing is probed, and nothing but `threads` enters a plan by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from armtrain.board.schema import Quantities, Quantity

__all__ = [
    "Cluster",
    "Compute",
    "Console",
    "Core",
    "Detect",
    "Memory",
    "Power",
    "Storage",
    "Throttling",
    "Toolchain",
]


@dataclass(frozen=True)
class Core:
    """A processor core, whatever chip holds it.

    Attributes
    ----------
    name : str
    midr_implementer, midr_part : int
        Fields of the main identification register; 'CPU implementer', 'CPU part' of /proc/cpuinfo.
    isa : str
        Instruction set that every such core has.
    features, optional_features : tuple of str
        Words of the Features line that matter here: always there; there on some chips.
    pipeline : str
    l1_data_kib, l1_instruction_kib : Quantity
        First-level caches as on the boards listed here.
    fp32_flop_per_cycle : Quantity
        Best of one core; a fused multiply-add counts 2.
    source : str
        Of the identification and the features.
    """

    name: str
    midr_implementer: int
    midr_part: int
    isa: str
    features: tuple[str, ...]
    pipeline: Literal["in-order", "out-of-order"]
    l1_data_kib: Quantity
    l1_instruction_kib: Quantity
    fp32_flop_per_cycle: Quantity
    source: str
    optional_features: tuple[str, ...] = ()


@dataclass(frozen=True)
class Detect:
    """How a running board is recognised.

    Attributes
    ----------
    compatible : tuple of str
        Entries of the device tree's `compatible` that name this board and no other.
    models : tuple of str
        Beginnings of the model name, upper and lower case alike, ending at a word boundary.
    near_compatible : tuple of str
        Chips: an unknown board with one of these is treated as this board, and told so.
    fallback : bool
        Used for any other machine whose userland has this profile's wheel tag.
    source : str
    """

    source: str
    compatible: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    near_compatible: tuple[str, ...] = ()
    fallback: bool = False


@dataclass(frozen=True)
class Cluster:
    """Cores of one kind.

    Attributes
    ----------
    core : str
        A table of cores.toml.
    cpus : tuple of int
        Numbers that Linux gives them.
    clock_mhz : Quantity
        Highest clock as delivered.
    l2_kib, l3_kib : Quantity or None
        Of the cluster, or of each core when `l2_shared` is 'no'.
    copy_mb_s : Quantity or None
        Bytes copied per second from one core; the traffic is twice that.
    """

    core: str
    cpus: tuple[int, ...]
    clock_mhz: Quantity
    l2_kib: Quantity | None = None
    l2_shared: Literal["yes", "no"] = "yes"
    l3_kib: Quantity | None = None
    copy_mb_s: Quantity | None = None


@dataclass(frozen=True)
class Compute:
    """How fast a training step computes; without it, cores and copy rate are what is known.

    Attributes
    ----------
    product_gflop_s : Quantity
        Products (linear, convolution) on one core, 10^9 float operations per second.
    pass_mb_s : Quantity
        Bytes that all cores together read and write in passes over memory.
    """

    product_gflop_s: Quantity
    pass_mb_s: Quantity


@dataclass(frozen=True)
class Memory:
    """Main memory: sizes that are sold, and what an idle system without a desktop uses."""

    kind: str
    ram_mib: Quantities
    os_use_mib: Quantity


@dataclass(frozen=True)
class Storage:
    """A place for data, checkpoints and swap.

    Attributes
    ----------
    id : str
        Name of the medium in the mode that this board runs it in.
    kind : str
    mode : str
        Bus mode.
    bus_mb_s : Quantity
        Ceiling of the bus.
    read_mb_s, write_mb_s : Quantity
        Sequential, large extents.
    read_latency_us, write_latency_us : Quantity
        Of one 4 KiB access.
    """

    id: str
    kind: Literal["sd", "emmc", "nvme", "sata", "usb"]
    mode: str
    bus_mb_s: Quantity
    read_mb_s: Quantity
    write_mb_s: Quantity
    read_latency_us: Quantity
    write_latency_us: Quantity


@dataclass(frozen=True)
class Console:
    """Serial console: device files in order of preference, speed, what must be set up."""

    devices: tuple[str, ...]
    baud: Quantity
    source: str
    note: str = ""


@dataclass(frozen=True)
class Power:
    """Power: what the board itself can measure, and what it was seen to draw."""

    sensor: Literal["none", "pmic", "ina231"]
    source: str
    note: str = ""
    idle_w: Quantity | None = None
    load_w: Quantity | None = None


@dataclass(frozen=True)
class Throttling:
    """Heat: where the state is read, and the temperatures from which clocks fall."""

    reader: Literal["vcgencmd", "thermal-zone"]
    source: str
    note: str = ""
    soft_limit_c: Quantity | None = None
    limit_c: Quantity | None = None


@dataclass(frozen=True)
class Toolchain:
    """What to build for a userland of this width."""

    userland_bits: Literal[32, 64]
    triple: str
    wheel_tag: Literal["aarch64", "armv7l", "armv6l", "x86_64"]
