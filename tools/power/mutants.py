"""Mutants that unit tests kill, run in weather with the checkers: docs/power.md, part 2.

    python -m tools.power.mutants --draw [--count 300] [--seed 1]   (needs the extra "mutation")
    python -m tools.power.mutants [--most N] [--seeds 50] [--page]

``--draw`` draws mutants and writes tools/power/drawn.json, in a quarter of an hour.  Without it
each mutant is run in weather of the small shape until a rule objects; mutants that were run with
the same code (tools/power/mutants.json) are not run again.  Exit status 1 if a mutant of the
sample of unseen mutants has no reason in tools/power/unseen.toml.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from functools import partial
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

from tools.mutation.modules import MODULES
from tools.mutation.running import copy_tree
from tools.power import mutant_page
from tools.power.drawing import Drawn, as_json, drawn_of, from_json, parts_of
from tools.power.judging import Judged, judge_all
from tools.power.running import ROOT

DRAWN = ROOT / "tools" / "power" / "drawn.json"
JUDGED = ROOT / "tools" / "power" / "mutants.json"


def main() -> int:
    options = _options()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as progress:
        if options.draw:
            _draw(options.count, options.seed, progress)
            return 0
        drawn, judged = load_drawn(), Judged(JUDGED)
        if not options.page:
            mutants = [mutant for one in drawn.values() for mutant in one.killed]
            mutants.sort(key=lambda mutant: mutant.rank)  # random: any beginning is a fair sample
            task = progress.add_task("mutants", total=len(mutants))
            for mutant in judge_all(mutants, judged, options.seeds, options.most):
                progress.update(task, advance=1, description=mutant.function)
    mutant_page.write(drawn, judged.rows)
    lacking = mutant_page.without_reason(drawn, judged.rows)
    print("".join(f"No reason in unseen.toml: {key}\n" for key in lacking), end="")
    return int(bool(lacking))


def load_drawn(path: Path = DRAWN) -> dict[str, Drawn]:
    """The drawn mutants, by module."""
    return from_json(json.loads(path.read_text())["modules"]) if path.is_file() else {}


def _draw(count: int, seed: int, progress: Progress) -> None:
    """Write each module's draw at once; a later call with the same arguments keeps it."""
    known = json.loads(DRAWN.read_text()) if DRAWN.is_file() else {}
    wanted = {"count": count, "seed": seed}
    drawn = load_drawn() if known.items() >= wanted.items() else {}
    parts = parts_of(count)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy_tree(ROOT, Path(folder))
        for module in MODULES:
            if module.name not in drawn:
                part = parts[module.name]
                task = progress.add_task(module.name, total=part)
                show = partial(_show, progress, task)
                drawn[module.name] = drawn_of(Path(folder), module, part, seed, show)
                text = json.dumps(
                    {**wanted, "modules": as_json(drawn)}, indent=1, ensure_ascii=False
                )
                DRAWN.write_text(text + "\n")


def _show(progress: Progress, task: TaskID, done: int) -> None:
    progress.update(task, completed=done)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.power.mutants", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--draw", action="store_true", help="draw mutants that unit tests kill")
    parser.add_argument("--count", type=int, default=300, metavar="N", help="mutants drawn (300)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the draw (1)")
    parser.add_argument("--seeds", type=int, default=50, metavar="N", help="seeds of weather (50)")
    parser.add_argument("--most", type=int, metavar="N", help="run at most N mutants")
    parser.add_argument("--page", action="store_true", help="write the page again, run nothing")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
