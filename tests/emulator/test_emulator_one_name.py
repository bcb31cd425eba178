"""The package has one name, ``rocketmq_emulator``, and each of its modules is loaded once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

FOLDERS = ("emulator", "protocol", "scenarios", "pipeline")


def printed_by(program: str, *first_on_the_path: Path) -> tuple[str, str]:
    """The program's output, and the last line of its standard error."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        cwd=os.path.sep,  # not this project's folder, which would come first
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, first_on_the_path))},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip(), done.stderr.strip().rpartition("\n")[2]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_of_the_checkout_is_no_package_of_that_name(folder) -> None:
    below = "" if folder == "emulator" else f".{folder}"
    _, error = printed_by(f"import {folder}", ROOT)
    assert error == f"ImportError: import rocketmq_emulator{below} instead of {folder}"


def test_no_module_is_loaded_under_two_names() -> None:
    program = """
import pkgutil, importlib, sys
import rocketmq_emulator
for found in pkgutil.walk_packages(rocketmq_emulator.__path__, "rocketmq_emulator."):
    if not found.name.endswith("__main__") and ".processes.node" not in found.name:
        importlib.import_module(found.name)
files = {}
for name, module in list(sys.modules.items()):
    if file := getattr(module, "__file__", None):
        files.setdefault(__import__("os").path.realpath(file), []).append(name)
ours = {file: names for file, names in files.items() if "/site-packages/" not in file}
print(len([n for n in sys.modules if n.startswith("rocketmq_emulator.")]))
print([names for file, names in ours.items() if len(names) > 1 and "rocketmq" in str(names)])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    count, twice = done.stdout.splitlines()[-2:]
    assert int(count) > 400
    assert twice == "[]"


def a_copy(target: Path, *, links: bool) -> Path:
    """Copy the sources to *target*, with the link ``rocketmq_emulator`` only if *links*."""
    for folder in FOLDERS:
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(ROOT / folder, target / folder, symlinks=True, ignore=ignored)
    if links:
        (target / "rocketmq_emulator").symlink_to("emulator")
    shutil.copy(ROOT / "rocketmq_emulator.py", target)
    return target


def test_a_checkout_without_links_says_what_to_do(tmp_path) -> None:
    copy = a_copy(tmp_path, links=False)
    (copy / "rocketmq_emulator").write_text("emulator")  # what git writes instead of a link
    _, error = printed_by("from rocketmq_emulator import Message", copy)
    assert error.startswith("ImportError: this checkout has no link rocketmq_emulator")
    assert "core.symlinks=true" in error


def test_a_checkout_whose_inner_links_are_missing_says_what_to_do(tmp_path) -> None:
    copy = a_copy(tmp_path, links=True)
    for folder in FOLDERS[1:]:
        (copy / "emulator" / folder).unlink()
        (copy / "emulator" / folder).write_text(f"../{folder}")
    _, error = printed_by("from rocketmq_emulator import Message", copy)
    assert error.startswith("ImportError: this copy of rocketmq_emulator has no folder protocol")
    assert "core.symlinks=true" in error


def test_packages_with_the_names_of_our_folders_are_not_in_the_way(tmp_path) -> None:
    for folder in (*FOLDERS, "tests"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text("MINE = True\n")
    program = (
        "import emulator, pipeline, protocol, scenarios, tests\n"
        "from rocketmq_emulator import Message\n"
        "from rocketmq_emulator.scenarios import Run\n"
        "print(all(m.MINE for m in (emulator, pipeline, protocol, scenarios, tests)))"
    )
    site = Path(pytest.__file__).parents[1]
    assert printed_by(program, tmp_path, ROOT, site) == ("True", "")
