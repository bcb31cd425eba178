"""A study as one HTML page that stands alone: style, scripts, Plotly and data in one file.

Python decides what is shown and computes every number; the page draws it, in the theme of
its reader.  Data and Plotly are compressed, in base64; the page may load nothing, says its policy.
Its colours and its manner are those of the reports (``scenarios.report``).
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import re
import zlib
from importlib import resources
from typing import Any

import msgspec

from pipeline.studies.study import DIGITS, RELEASE, CellStudied, Study

SCRIPTS = ("data.js", "details.js", "plots.js", "main.js")
PLACE = re.compile(r"\{\{(\w+)\}\}")
COMPRESSION_LEVEL = 9  # Plotly is compressed once a process


def write_study_page(study: Study) -> str:
    """The page of *study*: about 2 MB, of which Plotly is most."""
    script = "'use strict';\n(() => {\n" + "".join(map(_part, SCRIPTS)) + "})();\n"
    # Plotly comes from within the page as a blob, started by the script that is allowed; its
    # styles and the pictures that it saves are made on the way.
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
    # In one pass: what is put in may itself look like a place.
    return PLACE.sub(lambda place: parts[place[1]], _part("study.html"))


def title_of(study: Study) -> str:
    """What stands on top."""
    return study.about.title or study.about.scenario


def page_data(study: Study) -> dict[str, Any]:
    """What the scripts read: numbers of six digits, values and metrics by their places."""
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


def _cell(study: Study, cell: CellStudied, places: dict[str, int]) -> dict[str, Any]:
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
    """As commands take them: ``true``, not ``True``."""
    return [str(value).lower() if isinstance(value, bool) else value for value in values]


def _rounded(value: float | None) -> float | int | None:
    if value is None:
        return None
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() else short


@functools.cache
def _plotly() -> str:
    from plotly.offline import get_plotlyjs  # noqa: PLC0415  # an extra, and 5 MB of text

    return _packed(get_plotlyjs().encode())


def _packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, COMPRESSION_LEVEL)).decode()


def _part(name: str) -> str:
    return resources.files("pipeline.studies").joinpath("web", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
