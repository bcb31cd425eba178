"""Run each planted bug in weather and in the library, and write docs/power.md: ``make power``.

    python -m tools.power [BUG …] [--check] [--page] [--shrink] [--jobs N] [--seeds N]

``--check`` lists the bugs that no longer apply to the code, and exits with 1 if there are any.
Bugs that were run with the same code (tools/power/found.json) are not run again.  The exit status
is also 1 if a bug that is not found has no reason in tools/power/reasons.toml, or a bug that is
found has one.
"""

from __future__ import annotations

import argparse
import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tools.power import page
from tools.power.bug import PlaceGone, planted
from tools.power.bugs import BUGS
from tools.power.running import ROOT, Found, Healthy, Results, Search, try_all

FOUND = ROOT / "tools" / "power" / "found.json"
HEALTHY = ROOT / "tools" / "power" / "healthy.json"


def main() -> int:
    options = _options()
    if options.check:
        return _check()
    results = Results(FOUND)
    if not options.page:
        wanted = [bug for bug in BUGS.values() if bug.name in (options.bugs or BUGS)]
        search = Search(options.seeds, Healthy(HEALTHY), shrinks=options.shrink)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as progress:
            task = progress.add_task("planted bugs", total=len(wanted))
            for bug in try_all(wanted, results, search, options.jobs):
                progress.update(task, advance=1, description=bug.name)
    page.write(results.rows)
    return _reasons_lack(results.rows)


def _reasons_lack(rows: dict[str, Found]) -> int:
    unfound = {name for name, row in rows.items() if not page.is_found(row)}
    reasons = page.load_reasons().keys()
    for name in sorted(unfound - reasons):
        print(f"Not found, and no reason in reasons.toml: {name}")
    for name in sorted(reasons - unfound):
        print(f"Found, remove its reason: {name}")
    return int(unfound != reasons)


def _check() -> int:
    gone = []
    for bug in BUGS.values():
        try:
            planted(bug, ROOT)
        except PlaceGone as error:
            gone.append(str(error))
    print("\n".join(gone) or f"all {len(BUGS)} planted bugs apply")
    return int(bool(gone))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.power", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("bugs", nargs="*", metavar="BUG", choices=[*BUGS, []])
    parser.add_argument("--check", action="store_true", help="check that all bugs still apply")
    parser.add_argument("--page", action="store_true", help="write the page again, run nothing")
    parser.add_argument(
        "--shrink", action="store_true", help="shrink the runs that find a bug, and explain them"
    )
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="bugs at once (2)")
    parser.add_argument(
        "--seeds", type=int, default=200, metavar="N", help="seeds of each shape of weather (200)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
