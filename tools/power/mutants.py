"""Mutants that unit tests kill, with the judge in place of the tests: docs/power.md, part 2.

    python -m tools.power.mutants --draw [--count 300] [--seed 1]   (needs the extra "mutation")
    python -m tools.power.mutants [--most N] [--seeds 50] [--page]

``--draw`` draws them and keeps them (tools/power/drawn.json): a quarter of an hour.  Without it
each is run against weather of the small shape until a rule objects; what was run with the same
code before is not run again (tools/power/mutants.json).  Exit status 1 if a mutant of the sample
that no rule sees has no reason (tools/power/unseen.toml).
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
            mutants.sort(key=lambda mutant: mutant.rank)  # the first ones are as good as all
            task = progress.add_task("mutants", total=len(mutants))
            for mutant in judge_all(mutants, judged, options.seeds, options.most):
                progress.update(task, advance=1, description=mutant.function)
    mutant_page.write(drawn, judged.rows)
    lacking = mutant_page.without_reason(drawn, judged.rows)
    print("".join(f"No reason in unseen.toml: {key}\n" for key in lacking), end="")
    return int(bool(lacking))


def load_drawn(path: Path = DRAWN) -> dict[str, Drawn]:
    """By module."""
    return from_json(json.loads(path.read_text())["modules"]) if path.is_file() else {}


def _draw(count: int, seed: int, progress: Progress) -> None:
    """What is drawn of a module is kept at once, and not drawn again with the same arguments."""
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
    parser.add_argument("--count", type=int, default=300, metavar="N", help="to draw (300)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the draw (1)")
    parser.add_argument("--seeds", type=int, default=50, metavar="N", help="of weather (50)")
    parser.add_argument("--most", type=int, metavar="N", help="run no more mutants than that")
    parser.add_argument("--page", action="store_true", help="write the page again, run nothing")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
