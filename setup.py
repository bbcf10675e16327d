"""Builds the statistics kernel with the package, and puts `tensight.pth` beside it. Everything else: pyproject.toml.

Without a C++ compiler the package installs all the same: the kernel is then built on first need, or done without.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import editable_wheel

ROOT = Path(__file__).resolve().parent
STATS = Path("tensight", "stats")
HOOK = ROOT / "src" / "tensight" / "session" / "site" / "tensight.pth"  # connects scripts that plain `python` starts


def _building() -> ModuleType:
    """The module that knows how to build, loaded by its path: its package needs what is not installed yet."""
    spec = importlib.util.spec_from_file_location("tensight_building", ROOT / "src" / STATS / "building.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class BuildWithKernel(build_py):
    """Puts the compiled kernel beside its sources: in the wheel, or in the tree of an editable install."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            shutil.copyfile(HOOK, Path(self.build_lib, HOOK.name))  # the top of site-packages, where Python reads it
        building = _building()
        root = ROOT / "src" if self.editable_mode else Path(self.build_lib)
        target = root / STATS / "_kernel" / building.library_name()
        for stale in target.parent.glob("kernel-*.so"):
            if stale.name != target.name:
                stale.unlink()
        if target.is_file():
            return
        try:
            building.build(target.resolve())
        except Exception as error:  # whatever it is: an install must not fail for it
            self.warn(f"the native kernel was not built: {error}")


class EditableWithHook(editable_wheel):
    """An editable install has the hook too. A setuptools that works in another way leaves it out."""

    def _run_build_commands(self, dist_name: str, unpacked_wheel: Any, *rest: Any) -> Any:
        built = super()._run_build_commands(dist_name, unpacked_wheel, *rest)
        shutil.copyfile(HOOK, Path(unpacked_wheel, HOOK.name))
        return built


class PlatformDistribution(Distribution):
    """A distribution with something compiled in it."""

    def has_ext_modules(self) -> bool:
        return True


class PlatformWheel(bdist_wheel):
    """A wheel for one platform and every Python: the kernel is loaded by ctypes and knows nothing of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        _, _, platform_tag = super().get_tag()
        return "py3", "none", platform_tag


setup(
    distclass=PlatformDistribution,
    cmdclass={"build_py": BuildWithKernel, "bdist_wheel": PlatformWheel, "editable_wheel": EditableWithHook},
)
