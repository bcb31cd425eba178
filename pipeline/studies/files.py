"""What the plots of a page show, as tables: CSV for people and Parquet for programs.

    combinations    a row for each combination and metric: mean, interval, quantiles, seeds
    curves          a row for each point of a distribution: share, value, seed
    verdicts        a row for each combination: how its runs ended
    releases        a row for each change of a mean from one release to the next, if releases vary

Each begins with the varied parameters, in columns of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from pipeline.studies.study import CellStudied, Study

Row: TypeAlias = dict[str, Any]
SHARES = {"smallest": 0.0, "p25": 0.25, "median": 0.5, "p75": 0.75, "p99": 0.99, "largest": 1.0}


def write_files(study: Study, folder: Path) -> list[Path]:
    """The tables in *folder*, which is made; those without rows are not written."""
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
    """One a combination and metric."""
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
    """One a point."""
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
    """One a combination."""
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
    """One a change."""
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


def _at(study: Study, cell: CellStudied) -> Row:
    return dict(zip(study.about.varied, cell.at, strict=True))
