"""``report``: writes journals as one HTML page, and as a trace for Perfetto."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rocketmq_emulator.checks.judging.reading import BadJournal, Skipped, read_journals
from rocketmq_emulator.cli.options.errors import (
    BAD_USE,
    BadUse,
    errors_as_exit_codes,
    fail,
    print_error,
)
from rocketmq_emulator.scenarios.report.page import write_page
from rocketmq_emulator.scenarios.report.report_data import EmptyJournal, ReportData, read_and_judge
from rocketmq_emulator.scenarios.report.trace import write_trace

if TYPE_CHECKING:
    from collections.abc import Sequence

PIPE = "-"


def report(
    journals: Annotated[
        list[Path],
        typer.Argument(
            metavar="JOURNAL...",
            help="Files of one cluster, or folders of them (up --journal DIR); merged by time.",
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The page; - is standard output.  [run.html]"
        ),
    ] = "",
    perfetto: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Also a trace for ui.perfetto.dev; compressed when FILE ends in .gz.",
        ),
    ] = "",
    title: Annotated[str, typer.Option(help="The title of the page.")] = "",
    skip_damaged: Annotated[
        bool, typer.Option("--skip-damaged", help="Leave out lines that cannot be read.")
    ] = False,
) -> None:
    """Draw journals on one HTML page, judged by all checkers.

    Journals come from runs of scenarios and from `rmqemu up --journal DIR`.
    """
    with errors_as_exit_codes():
        page = Path(output) if output else _beside(journals[0])
        _check_apart(journals, page, Path(perfetto))
        skipped = Skipped() if skip_damaged else None
        try:
            data = read_and_judge(read_journals(journals, skipped), skipped)
        except (BadJournal, EmptyJournal) as error:
            raise fail(str(error), BAD_USE) from None
        text = write_page(data, title or _title(data, journals))
        if output == PIPE:
            sys.stdout.write(text)
        else:
            page.write_text(text, encoding="utf-8")
        if perfetto:
            _write_trace(data, Path(perfetto))
        if output != PIPE:
            typer.echo(f"{page}: {_summary(data)}")
        _print_incomplete(data, skipped)


def _print_incomplete(data: ReportData, skipped: Skipped | None) -> None:
    for text in data.unproven:
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
    return ", ".join(path.name or str(path.resolve()) for path in journals)


def _write_trace(data: ReportData, path: Path) -> None:
    with gzip.open(path, "wb") if path.suffix == ".gz" else path.open("wb") as file:
        file.writelines(write_trace(data))


def _summary(data: ReportData) -> str:
    count = len(data.places) + (data.judgement.more_violations if data.judgement else 0)
    verdict = _counted(count, "violation") if count else "no violation"
    if unmet := sum(one.met is False for one in data.expected):
        verdict += f", {_counted(unmet, 'expectation')} not met"
    span_s = (data.end_us - data.start_us) / 1_000_000
    facts, nodes = _counted(data.facts.count, "fact"), _counted(len(data.nodes), "node")
    return f"{facts} of {nodes} in {span_s:,.1f} s, {verdict}"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
