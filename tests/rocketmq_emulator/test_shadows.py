"""A file or package of somebody else that has the name of one of ours is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def error_of(program: str, *first_on_the_path: Path) -> str:
    path = os.pathsep.join(map(str, (*first_on_the_path, ROOT)))
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=os.path.sep,  # not this project's folder: it would come first
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.strip().rpartition("\n")[2]


@pytest.mark.parametrize("name", ["emulator", "protocol"])
def test_a_package_that_shadows_ours_is_named(name, tmp_path) -> None:
    stranger = tmp_path / name
    stranger.mkdir()
    (stranger / "__init__.py").touch()
    error = error_of("import rocketmq_emulator", tmp_path)
    assert error == (
        f"ImportError: {stranger} shadows the package {name!r} of rocketmq_emulator, which is in "
        f"{ROOT / name}: rename it, or start Python where it is not on the path"
    )


def test_a_file_that_shadows_ours_is_named(tmp_path) -> None:
    (tmp_path / "protocol.py").touch()
    error = error_of("from rocketmq_emulator import Message", tmp_path)
    assert error.startswith(f"ImportError: {tmp_path / 'protocol.py'} shadows the package")


def test_a_module_that_was_loaded_before_is_named_too(tmp_path) -> None:
    program = "import sys, types; sys.modules['emulator'] = types.ModuleType('emulator')\n"
    error = error_of(program + "import rocketmq_emulator", tmp_path)
    assert "a module 'emulator' without a file shadows" in error


def test_a_folder_without_code_shadows_nothing(tmp_path) -> None:
    (tmp_path / "emulator").mkdir()
    assert error_of("from rocketmq_emulator import Message", tmp_path) == ""


def test_a_package_that_is_missing_is_named(tmp_path) -> None:
    (tmp_path / "rocketmq_emulator").symlink_to(ROOT / "rocketmq_emulator")
    program = (
        f"import sys; sys.path[:] = [p for p in sys.path if p != {str(ROOT)!r}]\n"
        f"sys.path.append({str(tmp_path)!r}); import rocketmq_emulator"
    )
    assert "needs its package 'emulator'" in error_of(program)
