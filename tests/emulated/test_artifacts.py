"""Cross-built files are what they say, and the check notices files that are not.

Wrong files are made on purpose, one fault each, by the cross compilers.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from scripts.check_artifacts import check
from scripts.cross_build import DIST, ROOT
from scripts.elf_facts import read_elf
from scripts.emulate import TARGETS
from scripts.isa_scan import ARMV7, NoDisassemblerError, instructions, llvm_tool
from tests.packaging.test_check_artifacts import wheel

pytestmark = pytest.mark.emulated

A64, A32 = "aarch64-linux-gnu-gcc", "arm-linux-gnueabihf-gcc"
NAMES = [t.name for t in TARGETS]
PLATFORMS = {A64: "manylinux_2_34_aarch64", A32: "manylinux_2_34_armv7l"}
LIBRARY = ("-shared", "-fPIC", "-nostdlib", "-Wl,-z,max-page-size=65536")
PROGRAM = ("-static", "-nostdlib", "-Wl,-z,max-page-size=65536", "-Wl,-e,f")


@pytest.fixture(autouse=True)
def decoder() -> None:
    """Skip where nothing can decode instructions."""
    try:
        llvm_tool("mc")
    except NoDisassemblerError as error:
        pytest.skip(str(error))


@cache
def built(name: str) -> list[Path]:
    """Build a target's files into dist/ and return them."""
    (target,) = (t for t in TARGETS if t.name == name)
    if missing := target.missing():
        pytest.skip("; ".join(missing))
    command = [sys.executable, "-m", "scripts.cross_build", name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [ROOT / line for line in done.stdout.split()]


def compiled(folder: Path, compiler: str, file: str, code: str, *flags: str) -> Path:
    """Compile one file and return the library or program."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed (package {compiler})")
    (folder / file).write_text(code)
    out = folder / "out"
    subprocess.run([compiler, "-O2", *flags, file, "-o", out.name], cwd=folder, check=True)
    return out


def function(assembly: str) -> str:
    """Return a C function that holds one instruction."""
    return f'void f(void) {{ __asm__ volatile("{assembly}"); }}\n'


def test_indirect_functions_of_thumb_code_are_read_from_their_beginning(tmp_path: Path) -> None:
    """From the second byte on there is an instruction that no processor has."""
    code = """void f(void) {}
    __asm__(".thumb\\n.type g, %gnu_indirect_function\\n.thumb_func\\n.globl g\\n"
            "g: bx lr\\n lsls r7, r6, #2\\n bx lr");
    """
    path = compiled(tmp_path, A32, "f.c", code, "-march=armv7-a+fp", "-mthumb", "-c")
    read = {i.address: i.text for i in instructions(path, ARMV7, read_elf(path).code)}
    assert "lsls r7, r6, #0x2" in read.values()
    assert not any(address % 2 or "unknown" in text for address, text in read.items())


@pytest.mark.parametrize("name", NAMES)
def test_what_is_built_passes(name: str) -> None:
    for path in built(name):
        report = check(path)
        assert not report.problems, report.problems


@pytest.mark.parametrize("name", ["aarch64", "armv7"])
def test_wheels_name_the_c_library_that_they_need(name: str) -> None:
    """A tag for older systems is refused, and so is a board with an older C library."""
    made = next(p for p in built(name) if p.suffix == ".whl")
    assert not check(made, board=(2, 36)).problems
    (problem,) = check(made, board=(2, 31)).problems
    assert re.search(r"_engine.abi3.so needs glibc 2\.34 \(symbol \w+\), allowed is 2\.31", problem)


def test_older_tag_is_refused(tmp_path: Path) -> None:
    made = next(p for p in built("aarch64") if p.suffix == ".whl")
    renamed = tmp_path / made.name.replace("_2_34_", "_2_17_")
    shutil.copy(made, renamed)
    problems = check(renamed).problems
    assert any("needs glibc 2.34" in p and "allowed is 2.17" in p for p in problems)
    assert any("its WHEEL file says" in p for p in problems)


@pytest.mark.parametrize("name", ["aarch64", "armv7"])
def test_extension_is_compiled_from_nothing_of_this_machine(name: str) -> None:
    built(name)
    log = (ROOT / "build" / name / "wheel.log").read_text()
    lines = [line for line in log.splitlines() if "_engine.c" in line and " -c " in line]
    assert lines
    own = {"kernels", "kernels/include", str(ROOT / "build" / name / "python")}
    for line in lines:
        assert set(re.findall(r"-I(\S+)", line)) == own
        assert "native" not in line
    assert "x86_64" not in log
    # Its metadata is its own too: another build may be writing that of the tree.
    assert f"writing {ROOT / 'build' / name / 'wheel' / 'armtrain.egg-info'}/PKG-INFO" in log
    assert "writing armtrain.egg-info" not in log


def test_equal_sources_give_equal_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flags for this machine in the environment change no byte."""
    first = {p: p.read_bytes() for p in built("aarch64")}
    monkeypatch.setenv("CFLAGS", "-march=native -O1")
    monkeypatch.setenv("LDFLAGS", "-Wl,-z,max-page-size=4096")
    again = built.__wrapped__("aarch64")
    assert {p: p.read_bytes() for p in again} == first


# What is wrong: compiler, name of the source file, instruction, flags, what must be said.
INSTRUCTIONS = {
    "dot product": (A64, "cpu.c", "sdot v0.4s, v1.16b, v2.16b", "-march=armv8.2-a+dotprod", "sdot"),
    "half floats": (A64, "cpu.c", "fadd v0.8h, v1.8h, v2.8h", "-march=armv8.2-a+fp16", "fadd"),
    "atomics": (A64, "cpu.c", "ldadd w0, w1, [x2]", "-march=armv8.1-a", "ldadd"),
    "checksums": (A64, "crc32.c", "crc32w w0, w1, w2", "-march=armv8-a+crc", "crc32w"),
    "level": (A64, "gemm_neon_a64.c", "fadd v0.8h, v1.8h, v2.8h", "-march=armv8.2-a+fp16", "fadd"),
    "vectors": (A32, "cpu.c", "vadd.f32 q0, q1, q2", "-mfpu=neon", "vadd.f32"),
    "more registers": (A32, "cpu.c", "vadd.f64 d16, d0, d1", "-mfpu=vfpv3", "vadd.f64"),
    "fused": (A32, "gemm_neon_a32.c", "vfma.f32 q0, q1, q2", "-mfpu=neon-vfpv4", "vfma"),
    "division": (A32, "gemm_neonv4_a32.c", "sdiv r0, r1, r2", "-march=armv7ve+fp", "sdiv"),
    "division in ARM code": (A32, "cpu.c", "sdiv r0, r1, r2", "-march=armv7ve+fp -marm", "sdiv"),
}  # fmt: skip


@pytest.mark.parametrize("fault", INSTRUCTIONS)
def test_instruction_above_the_declared_set_is_found(tmp_path: Path, fault: str) -> None:
    compiler, file, assembly, flags, name = INSTRUCTIONS[fault]
    library = compiled(tmp_path, compiler, file, function(assembly), *LIBRARY, *flags.split())
    (problem,) = check(wheel(tmp_path, library.read_bytes(), PLATFORMS[compiler])).problems
    assert "is not ARMv" in problem
    assert name in problem
    assert f"in f ({file})" in problem


@pytest.mark.parametrize(
    ("name", "assembly", "flags"),
    [
        ("malloc_x", "irg x0, x1", "-march=armv8.5-a+memtag"),
        ("_Unwind_Fake", "cntb x0", "-march=armv8.2-a+sve"),
    ],
)
def test_foreign_function_named_like_the_systems_is_found(
    tmp_path: Path, name: str, assembly: str, flags: str
) -> None:
    """Only the system's own object may use what its functions ask for."""
    code = function(assembly).replace("void f(", f"void {name}(")
    library = compiled(tmp_path, A64, "foreign.c", code, *LIBRARY, flags)
    (problem,) = check(wheel(tmp_path, library.read_bytes())).problems
    assert f"in {name} (foreign.c)" in problem


@pytest.mark.parametrize(
    ("compiler", "file", "assembly", "flags"),
    [
        (A64, "cpu.c", "fmla v0.4s, v1.4s, v2.4s", "-march=armv8-a"),
        (A32, "gemm_neon_a32.c", "vmla.f32 q0, q1, q2", "-mfpu=neon"),
        (A32, "gemm_neonv4_a32.c", "vfma.f32 q0, q1, q2", "-mfpu=neon-vfpv4"),
        (A32, "cpu.c", "vadd.f64 d15, d0, d1", "-marm"),
    ],
)
def test_declared_instructions_pass(
    tmp_path: Path, compiler: str, file: str, assembly: str, flags: str
) -> None:
    library = compiled(tmp_path, compiler, file, function(assembly), *LIBRARY, *flags.split())
    assert not check(wheel(tmp_path, library.read_bytes(), PLATFORMS[compiler])).problems


def test_constants_are_not_instructions(tmp_path: Path) -> None:
    """Bytes between instructions may look like anything."""
    code = function("b 1f\\n.word 0xf2400140, 0xff50ef20\\n1:")
    library = compiled(tmp_path, A32, "cpu.c", code, *LIBRARY)
    assert not check(wheel(tmp_path, library.read_bytes(), PLATFORMS[A32])).problems


# Compiler, flags, what must be said.
FILES = {
    "small pages": (A64, "-Wl,-z,max-page-size=4096", "is aligned for pages of 4096 bytes"),
    "small pages in 32 bits": (A32, "-Wl,-z,max-page-size=4096", "pages of 4096 bytes"),
    "soft floats": (A32, "-mfloat-abi=softfp", "passes floats in integer registers"),
    "stripped": (A64, "-s", "has no symbols"),
}


@pytest.mark.parametrize("fault", FILES)
def test_file_of_the_wrong_kind_is_found(tmp_path: Path, fault: str) -> None:
    compiler, flag, said = FILES[fault]
    library = compiled(tmp_path, compiler, "cpu.c", function("nop"), *LIBRARY, flag)
    problems = check(wheel(tmp_path, library.read_bytes(), PLATFORMS[compiler])).problems
    assert any(said in problem for problem in problems), problems


def test_foreign_library_is_found(tmp_path: Path) -> None:
    library = compiled(
        tmp_path, A64, "cpu.c", function("nop"), *LIBRARY, "-Wl,-soname,libgomp.so.1"
    )
    (tmp_path / "libgomp.so.1").write_bytes(library.read_bytes())
    user = compiled(
        tmp_path, A64, "cpu.c", function("nop"), *LIBRARY, "-Wl,--no-as-needed", "libgomp.so.1"
    )
    (problem,) = check(wheel(tmp_path, user.read_bytes())).problems
    assert "needs libgomp.so.1, which a board may not have" in problem


def test_dynamic_trainer_is_found(tmp_path: Path) -> None:
    code = "int main(void) { return 0; }\n"
    flags = ("-Wl,-z,max-page-size=65536",)
    path = tmp_path / "armtrain-run-aarch64"
    shutil.copy(compiled(tmp_path, A64, "cpu.c", code, *flags), path)
    assert f"{path.name} is not static" in check(path).problems


def test_large_trainer_is_found(tmp_path: Path) -> None:
    code = function("nop") + "const char large[1600000] = {1};\n"
    path = tmp_path / "armtrain-run-aarch64"
    shutil.copy(compiled(tmp_path, A64, "cpu.c", code, *PROGRAM), path)
    (problem,) = check(path).problems
    assert "allowed are 1572864" in problem


@pytest.mark.parametrize(
    ("flags", "assembly", "said"),
    [
        ("-march=armv7-a+fp -marm", "nop", "is built for ARMv7, allowed are v6"),
        ("-march=armv6 -mfpu=vfp -marm", ".inst 0xf57ff05b", "is not ARMv6 with VFPv2: dmb ish"),
        ("-march=armv6 -mfpu=vfp -marm", ".inst 0xe3001234", "is not ARMv6 with VFPv2: movw"),
        ("-march=armv6 -mfpu=vfp -marm", ".inst 0xf2000d40", "is not ARMv6 with VFPv2: vadd.f32"),
        ("-march=armv6 -mfpu=vfp -marm", ".inst 0xeeb70a00", "is not ARMv6 with VFPv2: vmov.f32"),
    ],
    ids=["ARMv7 code", "barrier", "wide constant", "NEON", "VFPv3"],
)
def test_trainer_for_armv6_has_nothing_newer(
    tmp_path: Path, flags: str, assembly: str, said: str
) -> None:
    path = tmp_path / "armtrain-run-armv6"
    code = function(assembly)
    shutil.copy(compiled(tmp_path, A32, "cpu.c", code, *PROGRAM, *flags.split()), path)
    (problem,) = check(path).problems
    assert said in problem


def test_soft_float_object_does_not_link(tmp_path: Path) -> None:
    """The linker refuses it and names it, long before a board does."""
    flags = ("-march=armv7-a+fp", "-mfloat-abi=softfp", "-c")
    soft = compiled(tmp_path, A32, "soft.c", "float g(float x) { return 2 * x; }\n", *flags)
    soft.rename(tmp_path / "soft.o")
    (tmp_path / "hard.c").write_text("float g(float); float f(float x) { return g(x); }\n")
    command = [A32, "-O2", *LIBRARY, "hard.c", "soft.o", "-o", "both.so"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "soft.o" in done.stderr


def test_nothing_else_is_in_dist() -> None:
    """Every file there is one that the check opens."""
    for path in DIST.glob("*"):
        assert path.suffix in (".whl", ".gz") or path.name.startswith("armtrain-run-")


def pip_takes(wheel_path: Path, folder: Path, machine: str, glibc: int, python: str) -> bool:
    """Return whether pip installs a wheel on a board with this machine, glibc 2.x and Python."""
    platforms = [f"--platform=manylinux_2_{minor}_{machine}" for minor in range(17, glibc + 1)]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-deps"]
    board = [*platforms, "--python-version", python, "--implementation", "cp"]
    only = ["--only-binary=:all:", "--no-index", "--target", str(folder)]
    abis = ["--abi", f"cp{python.replace('.', '')}", "--abi", "abi3"]
    done = subprocess.run(
        [*command, *board, *abis, *only, str(wheel_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 or "not a supported wheel on this platform" in done.stderr
    return done.returncode == 0


@pytest.mark.parametrize("name", ["aarch64", "armv7"])
def test_pip_takes_the_wheel_where_it_runs(tmp_path: Path, name: str) -> None:
    """Debian 12 (glibc 2.36, Python 3.11) to 13 (2.41, 3.13), and nothing older or foreign."""
    made = next(p for p in built(name) if p.suffix == ".whl")
    machine = made.stem.rsplit("_", 1)[1]
    other = {"aarch64": "armv7l", "armv7l": "aarch64"}[machine]
    for number, (glibc, python) in enumerate([(36, "3.11"), (38, "3.12"), (41, "3.13")]):
        folder = tmp_path / str(number)
        assert pip_takes(made, folder, machine, glibc, python)
        assert (folder / "armtrain" / "_engine.abi3.so").is_file()
    assert not pip_takes(made, tmp_path / "old", machine, 31, "3.11")
    assert not pip_takes(made, tmp_path / "python", machine, 36, "3.10")
    assert not pip_takes(made, tmp_path / "other", other, 36, "3.11")
