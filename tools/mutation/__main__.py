"""Mutate the modules in turn, run their tests, and write the survivors into docs/mutation.md.

    python -m tools.mutation [MODULE …] [--children N] [--copy FOLDER] [--page] [--list]

Exit status 1 if a survivor has no reason, or a module has too many survivors.  Modules that are
not named keep the results of their last run (``tools/mutation/found.json``).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from tools.mutation import page, running
from tools.mutation.diffs import Change
from tools.mutation.modules import MODULES, Module
from tools.mutation.records import FOUND, ROOT, Found, load_found, load_reasons


def main() -> int:
    options = _options()
    if options.list:
        print("\n".join(f"{module.name}: {', '.join(module.files)}" for module in MODULES))
        return 0
    if not options.page:
        wanted = [m for m in MODULES if m.name in (options.modules or {m.name})]
        with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
            _run_all(wanted, (options.copy or Path(folder)).resolve(), options.children)
    found, reasons = load_found(), load_reasons()
    page.write(found, reasons)
    return _judge(found, reasons)


def _run_all(wanted: list[Module], copy: Path, children_max: int) -> None:
    """Write each module's results at once: a run takes long and may be interrupted."""
    running.copy_tree(ROOT, copy)
    commit = _commit()  # before findings are written into the tree
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as progress:
        for module in wanted:
            task = progress.add_task(module.name, total=None)

            def show(done: int, total: int, task: TaskID = task) -> None:
                progress.update(task, completed=done, total=total or None)

            found = running.run(copy, module, children_max, show)
            _keep(module, found._replace(commit=commit))


def _keep(module: Module, found: Found) -> None:
    known = load_found() | {module.name: found}
    rows = {m.name: known[m.name]._asdict() for m in MODULES if m.name in known}
    FOUND.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    named = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return named.stdout.strip()


def _judge(found: dict[str, Found], reasons: dict[Change, str]) -> int:
    unexplained = [c for one in found.values() for c in one.survivors if c not in reasons]
    if unexplained:
        print("Survivors without a reason; write a test, or a reason in survivors.toml:")
        print("\n".join(f"  {json.dumps(str(c), ensure_ascii=False)}," for c in unexplained))
    alive = {change for one in found.values() for change in one.survivors}
    for change in sorted(set(reasons) - alive):
        print(f"No longer survives, remove its reason: {change}")
    too_many = [name for name, one in found.items() if one.share > page.SHARE_MAX]
    if too_many:
        print(f"More than {page.SHARE_MAX:.0%} survive in: {', '.join(too_many)}")
    return int(bool(unexplained or too_many))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutation",
        description="Mutate the modules in turn, run their tests, and write docs/mutation.md.",
    )
    names = [module.name for module in MODULES]
    parser.add_argument("modules", nargs="*", metavar="MODULE", choices=[*names, []])
    parser.add_argument(
        "--children", type=int, default=1, metavar="N", help="mutants tested at once (1)"
    )
    parser.add_argument(
        "--copy", type=Path, metavar="FOLDER", help="the copy; keep it for `mutmut browse`"
    )
    parser.add_argument("--page", action="store_true", help="write the page again, run nothing")
    parser.add_argument("--list", action="store_true", help="list the modules, run nothing")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
