"""Run mutmut on one module, in a copy of the tree.

mutmut writes files beside the code that it mutates and needs settings in ``pyproject.toml``, so it
runs in a copy.  The copy contains the files that git knows, with their present content.  Packages
are in the folders of an installed package, because mutmut follows no links.  Results are read from
the files that mutmut writes, not from its output.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.mutation.diffs import Change
from tools.mutation.modules import Module
from tools.mutation.records import Found

PACKAGE = "rocketmq_emulator"  # mutmut copies it without a setting
INSIDE = ("protocol", "scenarios", "pipeline")  # folders of the tree that are in the package
OWN = ("mutants", "mutmut.log", ".mypy_cache")  # written into the copy by these runs
POLL_S = 1.0
KILLED, SURVIVED, TYPED = (1, 3), (0, 5, 33), (37,)  # mutmut's exit codes of a mutant's tests
TIMED_OUT = (-24, 24, 36, 152, 255)
NO_ENDS = (-11, -9)  # ended by a signal: out of memory, or twice its time limit

Progress = Callable[[int, int], None]


class MutmutFailed(Exception):
    """Tests fail in the copy without a mutant, or mutmut fails: there are no results."""


def copy_tree(root: Path, copy: Path) -> None:
    """Copy the files that git tracks or would track, as they are on disk."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (root / name).is_file() and not (root / name).is_symlink():
            (copy / installed(name)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, copy / installed(name))


def installed(file: str) -> str:
    """The path in the copy of a file of the tree."""
    top, _, below = file.partition("/")
    if top == "emulator":
        return f"{PACKAGE}/{below}"
    return f"{PACKAGE}/{file}" if top in INSIDE else file


def in_tree(file: str) -> str:
    """The path in the tree of a file of the copy."""
    below = file.removeprefix(f"{PACKAGE}/")
    return below if below == file or below.startswith(INSIDE) else f"emulator/{below}"


def configure(copy: Path, module: Module) -> None:
    """Write mutmut's settings into the copy's ``pyproject.toml``."""
    text = (copy / "pyproject.toml").read_text().partition("\n[tool.mutmut]")[0]
    tops = sorted({path.name for path in copy.iterdir()}.difference((PACKAGE,), OWN))
    settings = {
        "source_paths": [PACKAGE],
        "only_mutate": [installed(file) for file in module.files],
        "also_copy": tops,
        "pytest_add_cli_args": ["-p", "no:cacheprovider", "-x"],
        "pytest_add_cli_args_test_selection": list(module.tests),
        "type_check_command": [
            *(sys.executable, "-m", "mypy", "--output", "json", "--no-warn-unused-ignores"),
            *("--cache-dir", str(copy / ".mypy_cache"), *map(installed, module.files)),
        ],
        "timeout_constant": 8.0,  # seconds of real time: the machine may be busy
        "timeout_multiplier": 5.0,
    }
    rows = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    text = text.replace("--strict-config ", "")  # no:cacheprovider makes cache settings unknown
    (copy / "pyproject.toml").write_text("\n".join([text, "[tool.mutmut]", *rows, ""]))


def run(copy: Path, module: Module, children_max: int, shown: Progress) -> Found:
    """Mutate *module* in *copy* and run its tests; raises MutmutFailed."""
    configure(copy, module)
    shutil.rmtree(copy / "mutants", ignore_errors=True)
    command = [
        str(Path(sys.executable).parent / "mutmut"),
        "run",
        "--max-children",
        str(children_max),
    ]
    with (copy / "mutmut.log").open("w+") as log:
        process = subprocess.Popen(command, cwd=copy, stdout=log, stderr=log)
        while process.poll() is None:
            codes = list(_exit_codes(copy, module).values())
            shown(sum(code is not None for code in codes), len(codes))
            time.sleep(POLL_S)
        log.seek(0)
        found = _exit_codes(copy, module)
        if process.returncode or not found or None in found.values():
            raise MutmutFailed(f"{module.name}:\n{log.read()[-4_000:]}")
    shown(len(found), len(found))
    return _sorted(copy, found)


def _exit_codes(copy: Path, module: Module) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for file in module.files:
        for text in _texts(copy / "mutants" / f"{installed(file)}.meta"):
            found |= json.loads(text)["exit_code_by_key"]
    return found


def _texts(path: Path) -> Iterator[str]:
    """Yield the file's text, unless it does not exist yet or is being written."""
    text = path.read_text() if path.exists() else ""
    if text.endswith("}"):
        yield text


def _sorted(copy: Path, codes: dict[str, int | None]) -> Found:
    by_code = {code: [key for key in codes if codes[key] == code] for code in codes.values()}
    unknown = set(by_code).difference(KILLED, SURVIVED, TYPED, TIMED_OUT, NO_ENDS)
    if unknown:
        raise MutmutFailed(f"mutants ended with unknown exit codes: {unknown}")

    def with_codes(*wanted: int) -> list[str]:
        return [key for code in wanted for key in by_code.get(code, ())]

    return Found(
        caught_by_tests=len(with_codes(*KILLED, *TIMED_OUT, *NO_ENDS)),
        caught_by_types=len(with_codes(*TYPED)),
        survivors=_changes(copy, with_codes(*SURVIVED)),
    )


def _changes(copy: Path, mutants: list[str]) -> tuple[Change, ...]:
    command = [sys.executable, "-m", "tools.mutation.diffs"]
    asked = json.dumps(mutants)
    answer = subprocess.run(
        command, cwd=copy, input=asked, stdout=subprocess.PIPE, text=True, check=True
    )
    return tuple(Change(in_tree(file), *rest) for file, *rest in json.loads(answer.stdout))
