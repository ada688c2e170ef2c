"""Build the extension module: everything else is said in pyproject.toml.

The C library is built by `make lib`, the only place that knows sources and flags; this file
links it. Builds in place share the folder build/ with `make`, wheels use a fresh one. For other
processors scripts/cross_build.py calls it, with the target and its headers in the environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
CROSS = os.environ.get("ARMTRAIN_CROSS", "")
LIMITED_API = not sysconfig.get_config_var("Py_GIL_DISABLED")


class BuildExt(build_ext):
    """`make lib`, then link libarmtrain.a into every extension."""

    def finalize_options(self) -> None:
        """Leave this machine's headers out of builds for another one."""
        super().finalize_options()
        if CROSS:
            self.include_dirs = [os.environ["ARMTRAIN_CROSS_INCLUDE"]]

    def build_extensions(self) -> None:
        """Build the C library first."""
        in_place = self.inplace or getattr(self, "editable_mode", False)
        build = "build" if in_place else str(Path(self.build_temp).resolve())
        command = ["make", f"-j{os.cpu_count() or 1}", "lib", f"BUILD={build}"]
        if CROSS:
            build = f"build/{CROSS}"
            command[-1] = f"CROSS={CROSS}"
        # The job server of an outer make is not ours to use.
        environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS")}
        if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
            sys.exit("armtrain: `make lib` failed (it needs: apt-get install gcc make)")
        library = str(ROOT / build / "libarmtrain.a")
        for extension in self.extensions:
            extension.extra_objects = [library]
            extension.depends = [library]
        super().build_extensions()


def extensions() -> list[Extension]:
    """Return the extension modules, translated by Cython."""
    from Cython.Build import cythonize

    modules = [
        Extension(
            f"armtrain.{name}",
            [f"kernels/cython/{name}.pyx"],
            include_dirs=["kernels", "kernels/include"],
            define_macros=[("Py_LIMITED_API", "0x030B0000")] if LIMITED_API else [],
            py_limited_api=LIMITED_API,
            extra_compile_args=["-O2", "-g0", "-fvisibility=hidden"],
            # As in kernels.mk: the check of cross-built files reads symbols, and their versions.
            extra_link_args=["-Wl,--strip-debug" if CROSS else "-s", "-pthread", "-lm"],
        )
        for name in ("_engine", "_packer")
    ]
    return list(cythonize(modules, include_path=["kernels/cython"]))


setup(
    packages=[*find_packages(include=["armtrain", "armtrain.*"]), "armtrain.boards"],
    package_dir={"armtrain.boards": "boards"},
    ext_modules=extensions(),
    cmdclass={"build_ext": BuildExt},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED_API else {},
)
