"""The check of built files refuses what its name does not promise; made here, with any compiler."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path

import pytest

from scripts import check_artifacts, isa_scan
from scripts.check_artifacts import check
from scripts.elf_facts import Code, NotElfError, read_elf
from scripts.isa_scan import (
    AARCH64,
    ARMV6,
    ARMV7,
    Instruction,
    Isa,
    NoDisassemblerError,
    encoding_of,
    extra_features,
    llvm_tool,
)

TAG = "manylinux_2_34_aarch64"


def wheel(
    folder: Path, library: bytes | None, platform: str = TAG, tags: str = "cp311-abi3"
) -> Path:
    """Write a wheel with one extension and return its path."""
    path = folder / f"armtrain-1-{tags}-{platform}.whl"
    written = "".join(f"Tag: {tags}-{one}\n" for one in platform.split("."))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("armtrain-1.dist-info/WHEEL", f"Wheel-Version: 1.0\n{written}")
        archive.writestr("armtrain-1.dist-info/METADATA", "Name: armtrain\nVersion: 1\n\nText\n")
        if library is not None:
            archive.writestr("armtrain/_engine.abi3.so", library)
    return path


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return a shared library for this machine."""
    folder = tmp_path_factory.mktemp("library")
    (folder / "one.c").write_text("int one(void) { return 1; }\n")
    command = ["cc", "-shared", "-fPIC", "-o", "one.so", "one.c"]
    subprocess.run(command, cwd=folder, check=True)
    return (folder / "one.so").read_bytes()


@pytest.mark.parametrize("platform", ["manylinux_2_34_armv7l", "manylinux_2_34_aarch64"])
def test_renamed_wheel_is_refused(tmp_path: Path, library: bytes, platform: str) -> None:
    """The name alone makes no ARM wheel; on an ARM machine one of the two is honest."""
    problems = check(wheel(tmp_path, library, platform)).problems
    machine = read_elf_of(tmp_path, library).machine
    promised = check_artifacts.ABIS[platform.rsplit("_", 1)[1]].machine
    refusal = f"armtrain/_engine.abi3.so is for {machine}, the name promises {promised}"
    assert (refusal in problems) == (machine != promised)


def read_elf_of(folder: Path, library: bytes) -> check_artifacts.ElfFacts:
    """Return the facts of a library in memory."""
    (folder / "facts.so").write_bytes(library)
    return read_elf(folder / "facts.so")


@pytest.mark.parametrize(
    ("platform", "tags", "said"),
    [
        ("linux_arm64", "cp311-abi3", "platform linux_arm64 is none of"),
        ("win_amd64", "cp311-abi3", "platform win_amd64 is none of"),
        ("linux_aarch64", "cp311-abi3", "its tag names no C library version"),
        (TAG, "cp311-cp311", "is tagged cp311-cp311, not cp311-abi3"),
    ],
)
def test_wrong_tags_are_refused(tmp_path: Path, platform: str, tags: str, said: str) -> None:
    problems = check(wheel(tmp_path, None, platform, tags)).problems
    assert any(said in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "armtrain-1-cp311-abi3-manylinux_2_34_aarch64.manylinux_2_34_armv7l",
            "its name says cp311-abi3-manylinux_2_34_armv7l, its WHEEL file does not",
        ),
        (
            "armtrain-1-cp311-abi3-manylinux_2_34_aarch64.manylinux_2_17_aarch64",
            "its name says cp311-abi3-manylinux_2_17_aarch64, its WHEEL file does not",
        ),
        (
            "armtrain-1-cp311-abi3-manylinux_2_34_aarch64.linux_armv7l",
            "its tag names no C library version: linux_armv7l",
        ),
        (
            "armtrain-1-cp311-abi3-manylinux_2_34_armv7l",
            "its WHEEL file says cp311-abi3-manylinux_2_34_aarch64, its name does not",
        ),
        (
            "armtrain-1-cp310.cp311-abi3-manylinux_2_34_aarch64",
            "is tagged cp310.cp311-abi3, not cp311-abi3",
        ),
        (
            "armtrain-9.9.9-cp311-abi3-manylinux_2_34_aarch64",
            "its METADATA says Version 1, its name says 9.9.9",
        ),
        (
            "armtrain_2-1-cp311-abi3-manylinux_2_34_aarch64",
            "its METADATA says Name armtrain, its name says armtrain_2",
        ),
        ("armtrain-1-7-cp311-abi3-manylinux_2_34_aarch64", "is not named NAME-VERSION-PYTHON-ABI"),
    ],
)
def test_name_that_the_metadata_does_not_bear_out_is_refused(
    tmp_path: Path, library: bytes, name: str, said: str
) -> None:
    """Pip goes by the name: each tag of it, its version, its project."""
    renamed = wheel(tmp_path, library).rename(tmp_path / f"{name}.whl")
    problems = check(renamed).problems
    assert any(said in problem for problem in problems), problems


def test_every_platform_of_a_wheel_must_be_fulfilled(tmp_path: Path, library: bytes) -> None:
    """Metadata that agrees makes no library run on two processors."""
    platforms = "manylinux_2_34_aarch64.manylinux_2_34_armv7l"
    problems = check(wheel(tmp_path, library, platforms)).problems
    assert any("_engine.abi3.so is for EM_" in problem for problem in problems), problems


def test_wheel_without_metadata_is_refused(tmp_path: Path) -> None:
    path = tmp_path / f"armtrain-1-cp311-abi3-{TAG}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("armtrain/__init__.py", "")
    problems = check(path).problems
    assert any("it has 0 files .dist-info/WHEEL, needed is 1" in p for p in problems), problems


def test_wheel_without_code_is_refused(tmp_path: Path) -> None:
    assert "holds no compiled extension" in check(wheel(tmp_path, None)).problems


def test_damaged_library_is_refused(tmp_path: Path, library: bytes) -> None:
    for bad in (b"", b"text", library[:100], library[: len(library) // 2]):
        (problem,) = check(wheel(tmp_path, bad)).problems
        assert "ELF" in problem or "is for EM_" in problem


def test_numpys_c_interface_is_refused(tmp_path: Path, library: bytes) -> None:
    problems = check(wheel(tmp_path, library + b"_ARRAY_API")).problems
    assert any("NumPy's C interface" in problem for problem in problems)


def test_other_files_are_refused(tmp_path: Path) -> None:
    for name in ("armtrain.zip", "armtrain-run-mips", "armtrain-1-cp311-abi3-linux_aarch64.whl"):
        path = tmp_path / name
        path.write_bytes(b"no archive")
        assert check(path).problems


def test_exit_codes_and_json(
    tmp_path: Path,
    library: bytes,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bad = wheel(tmp_path, None)
    assert check_artifacts.main([str(bad)]) == 1
    assert "FAILED" in capsys.readouterr().out
    assert check_artifacts.main([str(bad), "--json"]) == 1
    (told,) = json.loads(capsys.readouterr().out)
    assert told["name"] == bad.name
    assert not told["ok"]
    assert told["problems"]
    monkeypatch.setattr(check_artifacts, "DIST", tmp_path / "empty")
    assert check_artifacts.main([]) == 1
    assert "make cross" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        check_artifacts.main(["--glibc", "new"])


def test_facts_of_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("text")
    with pytest.raises(NotElfError, match=r"text\.so is no"):
        read_elf(tmp_path / "text.so")


def test_addresses_belong_to_the_last_mapping_symbol() -> None:
    code = Code((16, 32), (("a.c", "t"), ("b.c", "d")))
    origins = [code.origin(address) for address in (0, 16, 31, 32, 99)]
    assert origins == [("", ""), ("a.c", "t"), ("a.c", "t"), ("b.c", "d"), ("b.c", "d")]


def test_encodings_are_in_the_order_of_the_file() -> None:
    assert encoding_of("4e829420 ") == bytes.fromhex("2094824e")
    assert encoding_of("f3af 8000") == bytes.fromhex("aff30080")
    assert encoding_of("af f3 00 80") == bytes.fromhex("aff30080")


@pytest.mark.parametrize(
    ("isa", "function", "file", "features"),
    [
        (ARMV7, "art_rows_4x2", "gemm_neonv4_a32.c", "+neon,+vfp4"),
        (ARMV7, "art_rows_4x2", "gemm_neon_a32.c", "+neon"),
        (ARMV7, "art_rows_4x2", "gemm_c.c", ""),
        (ARMV7, "art_rows_4x2", "gemm_neon_a32.o", ""),
        (ARMV7, "__memcpy_neon", "memcpy_neon.o", "+neon"),
        (ARMV7, "__memcpy_neon", "foreign.o", ""),
        (ARMV7, "__memcpy_neon", "cpu.c", ""),
        (ARMV7, "memcpy", "memcpy.o", ""),
        (AARCH64, "malloc", "malloc.o", "+mte"),
        (AARCH64, "malloc_x", "foreign.o", ""),
        (AARCH64, "malloc_x", "", ""),
        (AARCH64, "_Unwind_GetGR", "unwind-dw2.o", "+sve"),
        (AARCH64, "_Unwind_Fake", "foreign.c", ""),
        (AARCH64, "__aarch64_cas8_acq_rel", "cas_8_4.o", "+lse"),
        (AARCH64, "__aarch64_cas8_acq_rel", "foreign.o", ""),
        (ARMV6, "__a_cas_v7", "scalbnl.c", "+db"),
    ],
)
def test_who_may_use_more(isa: Isa, function: str, file: str, features: str) -> None:
    """Files of a level, and functions outside the project that ask the processor first."""
    instruction = Instruction(0, function, file, "t", b"", "")
    assert extra_features(isa, instruction) == features


def test_needed_symbol_without_a_version_is_found(tmp_path: Path) -> None:
    """The C library's have versions, Python's have none, weak ones may be absent."""
    code = (
        "#include <stdlib.h>\nsize_t strlcpy_elsewhere(void); void PyMem_Free(void *);\n"
        "void absent(void) __attribute__((weak));\n"
        "size_t f(void *p) { if (absent) absent(); PyMem_Free(p); free(p);\n"
        "return strlcpy_elsewhere(); }\n"
    )
    (tmp_path / "f.c").write_text(code)
    command = ["cc", "-shared", "-fPIC", "f.c", "-o", "f.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    facts = read_elf(tmp_path / "f.so")
    assert set(facts.unversioned) == {"strlcpy_elsewhere", "PyMem_Free"}
    abi = check_artifacts.Abi(facts.machine, (), 4096, None)
    (problem,) = check_artifacts.check_elf(facts, abi, None)
    assert "needs strlcpy_elsewhere in no version" in problem


def test_missing_decoder_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isa_scan, "LLVM_VERSIONS", ())
    with pytest.raises(NoDisassemblerError, match="apt-get install llvm-19"):
        llvm_tool("objdump")
