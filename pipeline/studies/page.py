"""Writes a study: one self-contained HTML page, and the numbers of its plots as tables.

Python selects the content and computes every number; the page draws it, in the light or dark
theme of its user.  Style, scripts, Plotly and data are in one file; data and Plotly are
compressed, in base64; the page's policy forbids it to load anything.  Its colours are those of
the reports (``rocketmq_emulator.scenarios.report``).  The tables, CSV for people and Parquet for
programs, each begin with the varied parameters:

    combinations    a row for each combination and metric: mean, interval, quantiles, seeds
    curves          a row for each point of a distribution: share, value, seed
    verdicts        a row for each combination: how its runs ended
    releases        a row for each change of a mean from one release to the next, if they vary
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import re
import zlib
from collections.abc import Iterator
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from rocketmq_emulator.pipeline.studies.study import DIGITS, RELEASE, Study, StudyCell
from rocketmq_emulator.protocol.error_families import CannotDoHere

SCRIPTS = ("data.js", "details.js", "plots.js", "main.js")
PLACE = re.compile(r"\{\{(\w+)\}\}")
INSTALL = "pip install 'rocketmq-emulator[study]'"
PLOTLY_SCRIPT = ("package_data", "plotly.min.js")
COMPRESSION_LEVEL = 9  # Plotly is compressed once per process


def write_study_page(study: Study) -> str:
    """The page of *study*: about 2 MB, mostly Plotly.  Raises ``PlotlyMissing``."""
    script = "'use strict';\n(() => {\n" + "".join(map(_part, SCRIPTS)) + "})();\n"
    # The allowed script loads Plotly from a blob in the page; Plotly makes styles, and blobs for
    # the pictures that it saves.
    policy = (
        f"default-src 'none'; script-src 'strict-dynamic' '{_digest(script)}'; "
        "style-src 'unsafe-inline'; img-src data: blob:"
    )
    parts = {
        "title": html.escape(title_of(study)),
        "policy": policy,
        "style": _part("study.css"),
        "script": script,
        "plotly": _plotly(),
        "data": _packed(msgspec.json.encode(page_data(study))),
    }
    # In one pass: the inserted text may itself contain a placeholder.
    return PLACE.sub(lambda place: parts[place[1]], _part("study.html"))


def title_of(study: Study) -> str:
    """The title of the page."""
    return study.about.title or study.about.scenario


def page_data(study: Study) -> dict[str, object]:
    """The JSON data for the scripts: numbers of six digits, values and metrics by index."""
    about = study.about
    places = {metric.name: at for at, metric in enumerate(study.metrics)}
    return {
        "title": title_of(study),
        "teaches": about.teaches,
        "asked": about.command,
        "code_version": about.code_version,
        "run_count": study.runs,
        "first_seed": about.first_seed,
        "last_seed": about.last_seed,
        "command": {
            "words": ["rmqemu", "run", about.scenario],
            "settings": about.settings,
            "release": about.release,
        },
        "parameters": [
            {"name": name, "values": _shown(values), "is_release": name == RELEASE}
            for name, values in about.varied.items()
        ],
        "metrics": study.metrics,
        "cells": [_cell(study, cell, places) for cell in study.cells],
        "changes": [
            {
                "metric": places[change.metric],
                "before": change.before,
                "after": change.after,
                "difference": _rounded(change.difference),
                "low": _rounded(change.low),
                "high": _rounded(change.high),
            }
            for change in study.changes
        ],
    }


def _cell(study: Study, cell: StudyCell, places: dict[str, int]) -> dict[str, Any]:
    fields = msgspec.structs.asdict(cell)
    values = study.about.varied.values()
    fields["at"] = [each.index(value) for each, value in zip(values, cell.at, strict=True)]
    fields["took_s"] = _rounded(cell.took_s)
    fields["numbers"] = {
        str(places[name]): {
            "count": numbers.count,
            "mean": _rounded(numbers.mean),
            "low": _rounded(numbers.low),
            "high": _rounded(numbers.high),
            "values": [_rounded(value) for value in numbers.values],
            "seeds": numbers.seeds,
        }
        for name, numbers in cell.numbers.items()
    }
    return fields


def _shown(values: tuple[bool | float | str, ...]) -> list[int | float | str]:
    """Values as written in commands: ``true``, not ``True``."""
    return [str(value).lower() if isinstance(value, bool) else value for value in values]


def _rounded(value: float | None) -> float | int | None:
    if value is None:
        return None
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() else short


def find_plotly() -> Path:
    """The JavaScript file of the installed Plotly.  Raises ``PlotlyMissing``."""
    package = find_spec("plotly")
    for folder in (package and package.submodule_search_locations) or ():
        if (script := Path(folder, *PLOTLY_SCRIPT)).is_file():
            return script
    raise PlotlyMissing(f"plotly is not installed: {INSTALL}")


class PlotlyMissing(CannotDoHere, ImportError):
    """Plotly is not installed: no page was written; the text says what to install."""


@functools.cache
def _plotly() -> str:
    return _packed(find_plotly().read_bytes())


def _packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, COMPRESSION_LEVEL)).decode()


def _part(name: str) -> str:
    return (
        resources.files("rocketmq_emulator.pipeline.studies")
        .joinpath("web", name)
        .read_text(encoding="utf-8")
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# Tables beside the page ---------------------------------------------------------------


Row: TypeAlias = dict[str, Any]
SHARES = {"smallest": 0.0, "p25": 0.25, "median": 0.5, "p75": 0.75, "p99": 0.99, "largest": 1.0}


def write_files(study: Study, folder: Path) -> list[Path]:
    """Write the tables to *folder*, which is created; tables without rows are not written."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = {
        "combinations": list(combination_rows(study)),
        "curves": list(curve_rows(study)),
        "verdicts": list(verdict_rows(study)),
        "releases": list(release_rows(study)),
    }
    written = []
    for name, rows in tables.items():
        if rows:
            table = pa.Table.from_pylist(rows)
            written += [folder / f"{name}.csv", folder / f"{name}.parquet"]
            pa.csv.write_csv(table, written[-2])
            pa.parquet.write_table(table, written[-1], compression="zstd")
    return written


def combination_rows(study: Study) -> Iterator[Row]:
    """One row per combination and metric."""
    for cell in study.cells:
        for metric in study.metrics:
            if (numbers := cell.numbers.get(metric.name)) is None:
                continue
            row = {
                **_at(study, cell),
                "metric": metric.name,
                "runs": numbers.count,
                "mean": numbers.mean,
                "low_95": numbers.low,
                "high_95": numbers.high,
            }
            for name, share in SHARES.items():
                row[name], row[f"{name}_seed"] = numbers.at(share)
            yield row


def curve_rows(study: Study) -> Iterator[Row]:
    """One row per point of a distribution."""
    for cell in study.cells:
        for metric in study.metrics:
            if (numbers := cell.numbers.get(metric.name)) is None:
                continue
            last = len(numbers.values) - 1
            for part, (value, seed) in enumerate(zip(numbers.values, numbers.seeds, strict=True)):
                yield {
                    **_at(study, cell),
                    "metric": metric.name,
                    "share": part / last,
                    "value": value,
                    "seed": seed,
                }


def verdict_rows(study: Study) -> Iterator[Row]:
    """One row per combination."""
    for cell in study.cells:
        yield {
            **_at(study, cell),
            "runs": cell.runs,
            "passed": cell.passed,
            "failed": cell.failed,
            "no_answer": cell.error,
            "took_s": cell.took_s,
            "first_not_passed_seeds": " ".join(str(one.seed) for one in cell.not_passed),
        }


def release_rows(study: Study) -> Iterator[Row]:
    """One row per change of a mean between releases."""
    for change in study.changes:
        before, after = study.cells[change.before], study.cells[change.after]
        at = _at(study, before)
        yield {
            **{name: value for name, value in at.items() if name != "release"},
            "release_before": at["release"],
            "release_after": _at(study, after)["release"],
            "metric": change.metric,
            "mean_before": before.numbers[change.metric].mean,
            "mean_after": after.numbers[change.metric].mean,
            "difference": change.difference,
            "low_95": change.low,
            "high_95": change.high,
        }


def _at(study: Study, cell: StudyCell) -> Row:
    return dict(zip(study.about.varied, cell.at, strict=True))
