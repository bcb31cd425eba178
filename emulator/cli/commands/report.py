"""``report``: writes journals as one HTML page, and as a trace for Perfetto."""

from __future__ import annotations

import gzip
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rocketmq_emulator.checks.judging.reading import (
    BadJournal,
    MoreThanOneRun,
    Skipped,
    read_journals,
    runs_at,
)
from rocketmq_emulator.cli.options.errors import (
    BAD_USE,
    BadUse,
    errors_as_exit_codes,
    fail,
    print_error,
)
from rocketmq_emulator.cli.options.shared import show_line
from rocketmq_emulator.cli.screens.progress_bar import DelayedProgressBar
from rocketmq_emulator.scenarios.report.index import ListedRun, listed_run, write_index
from rocketmq_emulator.scenarios.report.page import write_page
from rocketmq_emulator.scenarios.report.report_data import EmptyJournal, ReportData, read_and_judge
from rocketmq_emulator.scenarios.report.trace import write_trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.progress import ProgressColumn

PIPE = "-"


def report(
    journals: Annotated[
        list[Path],
        typer.Argument(
            metavar="JOURNAL…",
            help="Files of one cluster, merged by time, or folders of them; or of several runs.",
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            show_default="JOURNAL.html",
            help="The page; - is standard output.",
        ),
    ] = "",
    perfetto: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Also a trace for ui.perfetto.dev; compressed when FILE ends in .gz.",
        ),
    ] = "",
    title: Annotated[str, typer.Option(metavar="TEXT", help="The title of the page.")] = "",
    skip_damaged: Annotated[
        bool, typer.Option("--skip-damaged", help="Leave out lines that cannot be read.")
    ] = False,
) -> None:
    """Draw journals on one HTML page, judged by all checkers.

    Journals come from runs of scenarios and from `rmqemu up --journal DIR`.  Of several runs each
    gets a page, and FILE lists them with verdict, seed, parameters and unmet expectations.
    """
    with errors_as_exit_codes():
        page = Path(output) if output else _beside(journals[0])
        _check_apart(journals, page, Path(perfetto))
        skipped = Skipped() if skip_damaged else None
        try:
            if len(runs := runs_at(journals)) > 1:
                if output == PIPE or perfetto:
                    raise MoreThanOneRun(str(journals[0]), runs)
                _write_pages(runs, page, title or _names(journals), skipped)
            else:
                data = read_and_judge(read_journals(journals, skipped), skipped)
                _write(data, page, Path(perfetto), title or _title(data, journals))
                _print_incomplete(data.unproven, skipped)
        except (BadJournal, EmptyJournal) as error:
            raise fail(str(error), BAD_USE) from None


def _write(data: ReportData, page: Path, perfetto: Path, title: str) -> None:
    """Write the page of one run; a page named ``-`` is standard output."""
    text = write_page(data, title)
    if str(page) == PIPE:
        sys.stdout.write(text)
    else:
        page.write_text(text, encoding="utf-8")
    if perfetto.name:
        _write_trace(data, perfetto)
    if str(page) != PIPE:
        show_line(f"{page}: {_summary(data)}")


def _write_pages(
    runs: Sequence[Sequence[Path]], index: Path, title: str, skipped: Skipped | None
) -> None:
    """Write the page of each run into a folder beside *index*, and *index*, which lists them."""
    folder = index.with_name(f"{index.stem}-pages")
    folder.mkdir(parents=True, exist_ok=True)
    listed: list[ListedRun] = []
    with RunsBar(is_shown=sys.stderr.isatty()) as bar:
        for files in runs:
            bar.show(files[0].name, len(listed), len(runs))
            data = read_and_judge(read_journals(files, skipped), skipped)
            page = folder / _page_name(files, [run.name for run in listed])
            page.write_text(write_page(data, _title(data, files)), encoding="utf-8")
            listed.append(listed_run(page.stem, f"{folder.name}/{page.name}", data))
    index.write_text(write_index(listed, title), encoding="utf-8")
    counts = Counter(run.verdict for run in listed)
    told = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    show_line(f"{index}: {len(listed)} runs, {told}; a page of each in {folder}")
    _print_incomplete([], skipped)


def _page_name(files: Sequence[Path], taken: Sequence[str]) -> str:
    """The name of a run's page: that of its journal; ``cluster.html`` for those of nodes.

    Journals of different folders may have the same name: then a number follows.
    """
    name = files[0].stem if len(files) == 1 else "cluster"
    names = (name, *(f"{name}-{number}" for number in range(2, len(taken) + 2)))
    return f"{next(each for each in names if each not in taken)}.html"


class RunsBar(DelayedProgressBar):
    """How many runs have their page."""

    def columns(self) -> list[ProgressColumn]:
        """A bar, the count, and the journal that is read."""
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn  # noqa: PLC0415  # only for long work

        return [BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}")]

    def show(self, name: str, done: int, total: int) -> None:
        """Draw, if it is time."""
        if self.is_time():
            self.draw(name, done, total)


def _print_incomplete(unproven: Sequence[str], skipped: Skipped | None) -> None:
    for text in unproven:
        print_error(f"this is no pass: {text}")
    if skipped and skipped.count:
        print_error(f"{_counted(skipped.count, 'line')} left out, the first: {skipped.places[0]}")


def _check_apart(journals: Sequence[Path], *outputs: Path) -> None:
    """Raise ``BadUse`` if an output is one of the journals."""
    files = {path.resolve() for path in journals if path.is_file()}
    for path in outputs:
        if path.resolve() in files:
            raise BadUse(f"{path} is a journal: write the report elsewhere (-o FILE)")


def _beside(journal: Path) -> Path:
    """``run.html`` for ``run.jsonl``, and for a folder ``report.html`` in it."""
    return journal / "report.html" if journal.is_dir() else journal.with_suffix(".html")


def _title(data: ReportData, journals: Sequence[Path]) -> str:
    if data.run is not None:
        return data.plan_title or data.run.scenario
    return _names(journals)


def _names(journals: Sequence[Path]) -> str:
    return ", ".join(path.name or str(path.resolve()) for path in journals)


def _write_trace(data: ReportData, path: Path) -> None:
    with gzip.open(path, "wb") if path.suffix == ".gz" else path.open("wb") as file:
        file.writelines(write_trace(data))


def _summary(data: ReportData) -> str:
    count = data.violation_count
    verdict = _counted(count, "violation") if count else "no violation"
    if not count and data.unproven:
        verdict = "no violation, but it has not passed"
    if unmet := sum(one.met is False for one in data.expected):
        verdict += f", {_counted(unmet, 'expectation')} not met"
    span_s = (data.end_us - data.start_us) / 1_000_000
    facts, nodes = _counted(data.facts.count, "fact"), _counted(len(data.nodes), "node")
    return f"{facts} of {nodes} in {span_s:,.1f} s, {verdict}"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
