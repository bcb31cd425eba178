"""The summary of a report as plain HTML, for browsers without JavaScript: in a ``noscript``.

Verdict, reasons, expectations, violations, faults, actions, masters, parameters and metrics: what
can be read without a picture.  Every value may be any text, so each is escaped here, once.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from rocketmq_emulator.facts import RunStarted
from rocketmq_emulator.scenarios.report.report_data import ReportData, ShownExpectation
from rocketmq_emulator.scenarios.report.roles import masters_of

VIOLATIONS_MAX = 50
MOMENTS_MAX = 100  # faults and actions
MET = {True: "met", False: "not met", None: "not measured"}
NOTE = (
    "This is the summary of the page, without JavaScript. Timelines, queues and their owners, "
    "charts and the list of facts need JavaScript, which is switched off in this browser."
)


def static_summary(report: ReportData, title: str, error: str = "") -> str:
    """The HTML of *report*; *error*: why a test failed, in one line, or empty."""
    parts = [
        f"<h1>{html.escape(title)}</h1>",
        *_paragraphs(["" if report.plan_title == title else report.plan_title, _run(report)]),
        f"<p>{_verdict(report)}</p>",
        *_paragraphs([error, *report.unproven]),
        f'<p class="note">{NOTE}</p>',
        *_table("Expectations", ("expected", "measured", ""), _expectations(report)),
        *_table("Violations", ("s", "checker", "node", "what happened"), _violations(report)),
        *_more(len(report.places[:VIOLATIONS_MAX]), report.violation_count, "violations"),
        *_table("Parameters", ("parameter", "value"), _parameters(report.run)),
        *_table("Faults and actions", ("from s", "to s", ""), _moments(report)[:MOMENTS_MAX]),
        *_more(MOMENTS_MAX, len(_moments(report)), "faults and actions"),
        *_table("Masters", ("from s", "to s", "broker", "role"), _masters(report)[:MOMENTS_MAX]),
        *_more(MOMENTS_MAX, len(_masters(report)), "masters"),
        *_table("Metrics that are not 0", ("metric", "value", ""), _metrics(report)),
    ]
    return "\n".join(parts)


def _run(report: ReportData) -> str:
    run = report.run
    seconds = (report.end_us - report.start_us) / 1_000_000
    size = f"{report.facts.count:,} facts of {len(report.nodes)} nodes in {seconds:.1f} s"
    if run is None:
        return size
    start = f"scenario {run.scenario}, seed {run.seed}, {run.world} world, RocketMQ {run.release}"
    return f"{start}, code {run.code_version}; {size}"


def _verdict(report: ReportData) -> str:
    if report.judgement is None:
        return "This journal was not judged by checkers."
    unmet = [
        f"{one.text} was expected, it is {_measured(one, report)}"
        for one in report.expected
        if one.met is False
    ]
    why = "; ".join(filter(None, (report.why, *unmet)))
    colour = "good" if report.verdict == "passed" else "bad"
    text = f'<b class="{colour}">{report.verdict}</b>'
    return f"{text}: {html.escape(why)}" if why else text


def _expectations(report: ReportData) -> Iterator[tuple[str, ...]]:
    for one in sorted(report.expected, key=lambda each: each.met is True):  # unmet ones first
        yield one.text, _measured(one, report), MET[one.met] + (f": {one.why}" if one.why else "")


def _measured(one: ShownExpectation, report: ReportData) -> str:
    value = report.judgement.metrics.get(one.metric) if report.judgement else None
    return "" if value is None else f"{value:,.6g}"


def _violations(report: ReportData) -> Iterator[tuple[str, ...]]:
    for place in report.places[:VIOLATIONS_MAX]:
        at_s = (place.at_us - report.start_us) / 1_000_000
        yield f"{at_s:.3f}", place.violation.checker, place.violation.node, place.violation.what


def _parameters(run: RunStarted | None) -> Iterator[tuple[str, ...]]:
    try:
        values = msgspec.json.decode(run.parameters, type=dict[str, object]) if run else {}
    except msgspec.MsgspecError:
        values = {"(as in the journal)": run.parameters if run else ""}
    for name, value in values.items():
        yield name, str(value).lower() if isinstance(value, bool) else str(value)


def _moments(report: ReportData) -> list[tuple[str, ...]]:
    spans = [(fault.from_us, fault.until_us, fault.text) for fault in report.faults]
    spans += [(action.at_us, action.at_us, action.text) for action in report.actions]
    return [
        (*(f"{(at - report.start_us) / 1_000_000:.3f}" for at in (from_us, until_us)), text)
        for from_us, until_us, text in sorted(spans)
    ]


def _masters(report: ReportData) -> list[tuple[str, ...]]:
    return [
        (
            *(f"{(at - report.start_us) / 1_000_000:.3f}" for at in (span.from_us, span.until_us)),
            span.node,
            f"{span.role}, epoch {span.epoch}" if span.epoch else span.role,
        )
        for span in masters_of(report.roles)
    ]


def _metrics(report: ReportData) -> Iterator[tuple[str, ...]]:
    for metric in report.metrics:
        if metric.value or metric.unmet:
            yield metric.name, f"{metric.value:,.6g} {metric.unit}", metric.sentence


# HTML ---------------------------------------------------------------------------------


def _paragraphs(texts: Iterable[str]) -> Iterator[str]:
    yield from (f"<p>{html.escape(text)}</p>" for text in texts if text)


def _more(shown: int, count: int, what: str) -> Iterator[str]:
    if count > shown:
        yield f"<p>and {count - shown:,} more {what}</p>"


def _table(heading: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A heading and a table; nothing without rows."""
    found = [*rows]
    if not found:
        return
    yield f"<h2>{heading}</h2>"
    yield f"<table><tr>{''.join(f'<th>{html.escape(name)}</th>' for name in head)}</tr>"
    for row in found:
        yield f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>"
    yield "</table>"
