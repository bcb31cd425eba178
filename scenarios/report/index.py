"""The page that lists several runs, the worst first, each with a link to its own page.

One table and no script.  What all runs have in common (scenario, release, parameters) is said
once, above it; a parameter that differs has a column.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from rocketmq_emulator.scenarios.plan.plan import Expectation
from rocketmq_emulator.scenarios.plan.result import Verdict, is_worse
from rocketmq_emulator.scenarios.report.page import filled, web_file
from rocketmq_emulator.scenarios.report.report_data import ReportData, ShownExpectation, plan_of

ORDER: Sequence[Verdict] = ("failed", "error", "passed")
NO_RUN = "–"  # shown for a cluster's journals, which have no RunStarted
HEADINGS = ("verdict", "run", "seed", "violations", "expectations", "facts", "seconds", "why")
NUMBERS = frozenset({"seed", "violations", "facts", "seconds"})  # columns of numbers


class ListedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the list; *about* has its scenario, release and parameters by name."""

    name: str
    page: str  # of the run, relative to this page
    verdict: Verdict
    why: str
    seed: int | None
    about: dict[str, Any]
    expectations: tuple[Expectation, ...]
    expected: list[ShownExpectation]  # whether each was met
    metrics: Mapping[str, float]
    violation_count: int
    fact_count: int
    seconds: float


def listed_run(name: str, page: str, data: ReportData) -> ListedRun:
    """The line of a run, from the data of its page."""
    about: dict[str, Any] = {}
    plan = plan_of(data.run) if data.run else None
    if data.run is not None:
        about = {"scenario": data.run.scenario, "RocketMQ": data.run.release}
        about |= {"world": data.run.world, "code": data.run.code_version}
        about |= msgspec.json.decode(data.run.parameters or "{}", type=dict[str, Any])
    return ListedRun(
        name=name,
        page=page,
        verdict=data.verdict,
        why=data.why,
        seed=data.run.seed if data.run else None,
        about=about,
        expectations=plan.expect if plan and data.expected else (),
        expected=data.expected,
        metrics=data.judgement.metrics if data.judgement else {},
        violation_count=data.violation_count,
        fact_count=data.facts.count,
        seconds=(data.end_us - data.start_us) / 1_000_000,
    )


def write_index(runs: Sequence[ListedRun], title: str) -> str:
    """The page of *runs* with the heading *title*; any text may be in both."""
    runs = sorted(runs, key=lambda run: ORDER.index(run.verdict))
    shared, differing = _about(runs)
    counts = Counter(run.verdict for run in runs)
    shown = (
        f'<b class="{verdict}">{counts[verdict]:,} {verdict}</b>'
        for verdict in ORDER
        if counts[verdict]
    )
    headings = [*HEADINGS[:3], *differing, *HEADINGS[3:]]
    return filled(
        "index.html",
        {
            "title": html.escape(title),
            "style": web_file("page.css") + web_file("index.css"),
            "common": html.escape(" · ".join(shared)),
            "counts": f"{len(runs):,} runs: {', '.join(shown)}",
            "worst": _worst(runs),
            "headings": "".join(map(_heading, headings)),
            "rows": "\n".join(_row(run, differing) for run in runs),
        },
    )


def _about(runs: Sequence[ListedRun]) -> tuple[list[str], list[str]]:
    """What all runs have in common, as texts; and the names of what differs."""
    names = dict.fromkeys(name for run in runs for name in run.about)
    values = {name: [run.about.get(name) for run in runs] for name in names}
    same = {
        name: found[0] for name, found in values.items() if found.count(found[0]) == len(found)
    }
    return [f"{name} {value}" for name, value in same.items()], [n for n in names if n not in same]


def _worst(runs: Iterable[ListedRun]) -> str:
    """A list with the worst value of each expectation, and its run; the unmet first."""
    found: dict[str, tuple[ShownExpectation, float, ListedRun]] = {}
    for run in runs:
        for expectation, one in zip(run.expectations, run.expected, strict=True):
            value = run.metrics.get(one.metric)
            known = found.get(one.text)
            if value is not None and (known is None or is_worse(expectation, value, known[1])):
                found[one.text] = one, value, run
    lines = [
        f"<li>{html.escape(one.text)}: worst {value:g} in {_link(run)}"
        f"{'' if one.met else ', <b class=failed>not met</b>'}</li>"
        for one, value, run in sorted(found.values(), key=lambda worst: bool(worst[0].met))
    ]
    return f'<ul class="worst">{"".join(lines)}</ul>' if lines else ""


def _heading(name: str) -> str:
    kind = ' class="number"' if name in NUMBERS else ""
    return f"<th{kind}>{html.escape(name)}</th>"


def _row(run: ListedRun, differing: Iterable[str]) -> str:
    unmet = [one for one in run.expected if one.met is False]
    met = sum(one.met is True for one in run.expected)
    cells = {
        "verdict": f'<b class="{run.verdict}">{run.verdict}</b>',
        "run": _link(run),
        "seed": NO_RUN if run.seed is None else str(run.seed),
        **{name: _breakable(str(run.about.get(name, NO_RUN))) for name in differing},
        "violations": f"{run.violation_count:,}" if run.violation_count else "",
        "expectations": "<br>".join(_unmet(unmet, run.metrics)) or (f"{met} met" if met else ""),
        "facts": f"{run.fact_count:,}",
        "seconds": f"{run.seconds:,.1f}",
        "why": html.escape(run.why),
    }
    return f"<tr>{''.join(_cell(name, text) for name, text in cells.items())}</tr>"


def _cell(name: str, text: str) -> str:
    kind = ' class="number"' if name in NUMBERS else ""
    return f'<td{kind} data-name="{html.escape(name)}">{text}</td>'


def _unmet(unmet: Iterable[ShownExpectation], metrics: Mapping[str, float]) -> Iterator[str]:
    for one in unmet:
        yield html.escape(f"{one.text}: it is {metrics[one.metric]:g}")


def _link(run: ListedRun) -> str:
    return f'<a href="{quote(run.page)}">{_breakable(run.name)}</a>'


def _breakable(name: str) -> str:
    """*name* as HTML that a browser may break after an underscore."""
    return html.escape(name).replace("_", "_<wbr>")
